"""Reads a Trinity-RFT YAML and remembers what became of each key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from areal.api.errors import ConfigError
from areal.api.registry import nearest_names
from areal.trainer.trinity.keys import IGNORED, KEYS, MAPPED, REFUSED, is_free
from areal.trainer.trinity.kinds import typed


@dataclass(frozen=True, slots=True)
class Decision:
    """What became of one key.

    Attributes:
        use: "mapped", "defaulted" where the file leaves it open, or "ignored".
        note: Our key, or the reason.
    """

    key: str
    use: str
    value: Any
    note: str


def read_yaml(path: str, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """Return a file's content with interpolations resolved, changed by ``key=value`` words.

    Raises:
        ConfigError: The file cannot be read, or is no mapping.
    """
    for word in overrides:
        if "=" not in word:
            raise ConfigError(f"{word!r} is not of the form key=value")
    try:
        loaded = OmegaConf.load(path)
        merged = OmegaConf.merge(loaded, OmegaConf.from_dotlist(list(overrides)))
        content = OmegaConf.to_container(merged, resolve=True)
    except (OSError, OmegaConfBaseException, ValueError) as error:
        raise ConfigError(f"{path}: {error}") from error
    except Exception as error:  # of the YAML parser, whose errors have no common base here
        raise ConfigError(f"{path} is not valid YAML: {error}") from error
    if not isinstance(content, dict):
        raise ConfigError(f"{path} holds {type(content).__name__}, expected keys and values")
    return {str(key): value for key, value in content.items()}


class Reader:
    """Looks keys up and remembers which were asked for."""

    def __init__(self, content: Mapping[str, Any]) -> None:
        self._problems: list[str] = []
        self._content = typed(content, "", self._problems)
        self.given = dict(_leaves(self._content))
        self._asked: dict[str, Any] = {}

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value at a dotted key; None in the file is the default too."""
        value: Any = self._content
        for part in key.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        found = default if value is None else value
        if isinstance(found, Mapping) and not is_free(key):
            return found
        self._asked[key] = found
        return found

    def part(self, key: str, index: int | None = None) -> Reader:
        """Return a reader of what is below a key, or of one entry of a list there."""
        return _Part(self, key if index is None else f"{key}.{index}", f"{key}[]")

    def has(self, key: str) -> bool:
        """Return whether a key, or one below it, is set."""
        return any(each == key or each.startswith((f"{key}.", f"{key}[")) for each in self.given)

    def check(self) -> None:
        """Refuse what is unknown, of another kind, or would change the algorithm.

        Raises:
            ConfigError: It names all such keys.
        """
        problems = list(self._problems)
        for key, value in self.given.items():
            entry = KEYS.get(key)
            if entry is None and not _is_section(key):
                problems.append(f"unknown key {key}{nearest_names(key, _near(key))}")
            elif entry is not None and entry.use == REFUSED and value not in entry.neutral:
                problems.append(f"{key} is {value!r}: {entry.note}")
        if problems:
            raise ConfigError("\n".join(problems))

    def decisions(self) -> list[Decision]:
        """Return a word on every key of the file, and on every default that was taken."""
        found = []
        for key, value in self.given.items():
            if key not in KEYS:
                continue  # an empty section
            entry = KEYS[key]
            is_read = key in self._asked or any(k.startswith(f"{key}.") for k in self._asked)
            if entry.use == MAPPED and not is_read:
                found.append(Decision(key, IGNORED, value, "it has no part in this kind of run"))
            elif entry.use == REFUSED:
                found.append(Decision(key, IGNORED, value, "it asks for what is done anyway"))
            else:
                found.append(Decision(key, entry.use, value, entry.note))
        for key, value in self._asked.items():
            if key not in self.given and value not in (None, {}, []) and key in KEYS:
                found.append(Decision(key, "defaulted", value, KEYS[key].note))
        return found


class _Part(Reader):
    def __init__(self, whole: Reader, key: str, shown: str) -> None:
        self._whole, self._key, self._shown = whole, key, shown
        *path, last = key.split(".")
        if last.isdecimal():
            entries = whole.get(".".join(path)) or []
            self._content = entries[int(last)]
            self._prefix = f"{shown}."
        else:
            self._content = whole.get(key) or {}
            self._prefix = f"{key}."

    def get(self, key: str, default: Any = None) -> Any:
        value: Any = self._content
        for part in key.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        found = default if value is None else value
        self._whole._asked[self._prefix + key] = found
        return found


def _leaves(content: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in content.items():
        key = f"{prefix}{name}"
        has_keys = key not in KEYS or any(each.startswith(f"{key}.") for each in KEYS)
        if isinstance(value, Mapping) and value and has_keys and not is_free(key):
            yield from _leaves(value, f"{key}.")
            continue
        if isinstance(value, list) and any(each.startswith(f"{key}[].") for each in KEYS):
            for entry in value:
                yield from _leaves(entry, f"{key}[].")
            continue
        yield key, value


def _is_section(key: str) -> bool:
    return any(each.startswith(f"{key}.") for each in KEYS)


def _near(key: str) -> list[str]:
    """Return keys that are at the same place as an unknown one, or all sections."""
    parent = key.rpartition(".")[0]
    beside = [each for each in KEYS if each.rpartition(".")[0] == parent]
    return beside or sorted({each.partition(".")[0] for each in KEYS})
