"""What the user wrote: a YAML file and overrides, with the place of every key."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from areal.api.config import schema
from areal.api.config.check import FieldError
from areal.api.errors import ConfigError

if TYPE_CHECKING:
    import yaml
    from omegaconf import DictConfig

# Keys that AReaL removed, by their last part, and what to write now.
REMOVED_KEYS = {
    "behave_imp_weight_cap": "use rejection_sampling, with the cap as its `upper`: "
    "rejection_sampling: {level: token, action: mask, metric: ratio, upper: 5.0}",
    "behave_imp_weight_mode": "use rejection_sampling: *_mask is `action: mask`, *_truncate is "
    "`action: clamp`, token_* and sequence_* are its `level`, disabled is null",
}


_NOTHING = object()


@dataclass
class ConfigText:
    """A YAML file and the overrides after it, read but not yet interpreted.

    A file ``NAME.run.yaml`` beside ``NAME.yaml`` is read after it: it has what AReaL's own loader
    would refuse in the first. ``layers`` holds the mapping of each of ``files``, and one for each
    override, in order.
    """

    path: str
    overrides: list[str]
    files: list[str] = field(default_factory=list)
    layers: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def read(cls, path: str, overrides: Sequence[str] = ()) -> ConfigText:
        """Read the file and take the overrides apart.

        Raises:
            ConfigError: The file is missing, no text, no YAML or no mapping; an override is not
                of the form key=value.
        """
        beside = Path(path).with_suffix(".run.yaml")
        files = [path, str(beside)] if beside.is_file() else [path]
        text = cls(path, list(overrides), files)
        text.layers.extend(_read_yaml(file) for file in files)
        text.layers.extend(_read_override(override) for override in overrides)
        return text

    @cached_property
    def explicit_keys(self) -> frozenset[str]:
        """Keep the dotted key of every value that the user wrote."""
        return frozenset(key for layer in self.layers for key, _ in _leaves(layer))

    def value(self, key: str) -> Any:
        """Return what the user wrote last under a dotted key; None for nothing."""
        written = [_look_up(layer, key) for layer in self.layers]
        return next((value for value in reversed(written) if value is not _NOTHING), None)

    def place(self, key: str) -> str:
        """Return where a key was written last: ``file:line``, or the override."""
        for index in reversed(range(len(self.layers))):
            if _look_up(self.layers[index], key) is not _NOTHING:
                return self.place_in_layer(key, index)
        return self.path

    def place_in_layer(self, key: str, index: int) -> str:
        """Return where a key of one layer was written: ``file:line``, or the override."""
        if index >= len(self.files):
            return f"override {self.overrides[index - len(self.files)]!r}"
        line = self._lines[index].get(key)
        return f"{self.files[index]}:{line}" if line else self.files[index]

    def typed_layers(self, cls: type) -> list[DictConfig]:
        """Return the layers in a form that can be merged into ``OmegaConf.structured(cls)``.

        Raises:
            ConfigError: Keys are unknown, or sections are no mappings; all are named at once.
        """
        from omegaconf import OmegaConf

        layers: list[DictConfig] = []
        problems: list[str] = []
        for index, layer in enumerate(self.layers):
            typing = _Typing(self, index, problems)
            layers.append(OmegaConf.create(typing.section(layer, cls, "")))
        if problems:
            raise ConfigError("\n".join(problems))
        return layers

    def explain(self, error: Exception, cls: type) -> ConfigError:
        """Turn an error of OmegaConf or of a dataclass's checks into one with what to do."""
        if isinstance(error, FieldError):
            key = self._key_of(error, cls)
            if key is not None:
                return ConfigError(f"{self.place(key)}: {key} {error.problem}")
        key = getattr(error, "full_key", None)
        message = str(error).partition("\n")[0] or type(error).__name__
        if isinstance(error, ConfigError) or not key:
            return ConfigError(f"{self.path}: {message}")
        written = self.value(key)
        expected = _written_type(cls, key)
        if expected is None or _is_interpolation(written):
            return ConfigError(f"{self.place(key)}: {key}: {message}")
        return ConfigError(f"{self.place(key)}: {key} must be {expected}, found {written!r}")

    def _key_of(self, error: FieldError, cls: type) -> str | None:
        """Find which of the sections of one kind has the impossible value, if only one can."""
        keys = [f"{prefix}{error.name}" for prefix, kind in _sections(cls) if kind is error.owner]
        written = [key for key in keys if self.value(key) is not None]
        candidates = written or keys
        return candidates[0] if len(candidates) == 1 else None

    @cached_property
    def _lines(self) -> list[dict[str, int]]:
        return [dict(_lines_of(path)) for path in self.files]


@dataclass
class _Typing:
    """A layer against the schema; what is wrong with it goes to ``problems``."""

    text: ConfigText
    index: int
    problems: list[str]

    def section(self, layer: dict[str, Any], cls: type, prefix: str) -> dict[str, Any]:
        types = schema.key_types(cls)
        typed: dict[str, Any] = {}
        for name, value in layer.items():
            if name in types:
                typed[name] = self._value(value, types[name], f"{prefix}{name}")
            else:
                self._report(f"{prefix}{name}", _unknown(str(name), cls, prefix))
        return typed

    def _value(self, value: Any, annotation: Any, key: str) -> Any:
        if value is None or _is_interpolation(value):
            return value
        for kind, wanted in ((dict, "a mapping"), (list, "a list")):
            if schema.holds(annotation, kind) and not isinstance(value, kind):
                self._report(key, f"{key} must be {wanted}, found {value!r}")
                return value
        section, item = schema.section_type(annotation), schema.item_type(annotation)
        if section is not None and isinstance(value, dict):
            return self.section(value, section, f"{key}.")
        if item is None:
            return value
        return [self._item(one, item, f"{key}.{place}") for place, one in enumerate(value)]

    def _item(self, value: Any, cls: type, key: str) -> Any:
        """Type an item of a list, as OmegaConf leaves those of a tuple plain mappings."""
        from omegaconf import OmegaConf
        from omegaconf.errors import OmegaConfBaseException

        if not isinstance(value, dict):
            self._report(key, f"{key} must be a mapping, found {value!r}")
            return value
        typed = self.section(value, cls, f"{key}.")
        try:
            # An unknown key was reported above; OmegaConf would only say it again.
            return typed if self.problems else OmegaConf.merge(OmegaConf.structured(cls), typed)
        except OmegaConfBaseException as error:
            name = str(error.full_key)
            expected = f"must be {_written_type(cls, name)}, found {typed.get(name)!r}"
            self._report(f"{key}.{name}", f"{key}.{name} {expected}")
            return value

    def _report(self, key: str, problem: str) -> None:
        self.problems.append(f"{self.text.place_in_layer(key, self.index)}: {problem}")


def _read_yaml(path: str) -> dict[str, Any]:
    import yaml
    from omegaconf import DictConfig, OmegaConf

    if not Path(path).is_file():
        raise ConfigError(f"there is no configuration file {path!r}")
    try:
        read = OmegaConf.load(path)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else path
        raise ConfigError(f"{place}: no valid YAML: {error.problem or error.context}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: no valid YAML: {error}") from error
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}; a mapping is needed") from error
    if not isinstance(read, DictConfig):
        raise ConfigError(f"{path}: the file is a list; it must be a mapping")
    plain = OmegaConf.to_container(read)
    assert isinstance(plain, dict)
    return {str(key): value for key, value in plain.items()}


def _read_override(override: str) -> dict[str, Any]:
    import yaml
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    # Hydra's + and ++ add a key; here all keys exist, so they ask for nothing more.
    key, equals, value = override.lstrip("+").partition("=")
    if not equals or not key or key.startswith("~"):
        raise ConfigError(f"cannot read override {override!r}; write key=value, as in seed=2")
    try:
        read = OmegaConf.from_dotlist([f"{key}={value or repr('')}"])
    except (yaml.YAMLError, OmegaConfBaseException) as error:
        reason = getattr(error, "problem", None) or str(error).partition("\n")[0]
        raise ConfigError(
            f"override {override!r}: the value is not valid YAML: {reason}"
        ) from error
    plain = OmegaConf.to_container(read)
    assert isinstance(plain, dict)
    return {str(name): inner for name, inner in plain.items()}


def _look_up(layer: dict[str, Any], key: str) -> Any:
    found: Any = layer
    for part in key.split("."):
        found = found.get(part, _NOTHING) if isinstance(found, dict) else _NOTHING
    return found


def _leaves(layer: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in layer.items():
        if isinstance(value, dict) and value:
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _lines_of(path: str) -> Iterator[tuple[str, int]]:
    import yaml

    with open(path, encoding="utf-8") as file:
        yield from _node_lines(yaml.compose(file, Loader=yaml.SafeLoader), "")


def _node_lines(node: yaml.Node | None, prefix: str) -> Iterator[tuple[str, int]]:
    import yaml

    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield f"{prefix}{key.value}", key.start_mark.line + 1
            yield from _node_lines(value, f"{prefix}{key.value}.")
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            yield f"{prefix}{index}", value.start_mark.line + 1
            yield from _node_lines(value, f"{prefix}{index}.")


def _unknown(name: str, cls: type, prefix: str) -> str:
    key = prefix + name
    if name in REMOVED_KEYS:
        return f"{key} was removed: {REMOVED_KEYS[name]}"
    siblings = list(schema.key_types(cls))
    close = difflib.get_close_matches(name, siblings, n=1, cutoff=0.6)
    if close:
        return f"unknown key {key!r}; did you mean {prefix + close[0]!r}?"
    below = [found for found, kind in _sections(cls) if name in schema.key_types(kind)]
    if below:
        # The first of the least deep, so that the actor comes before its reference.
        nearest = min(below, key=lambda found: found.count("."))
        return f"unknown key {key!r}; did you mean {prefix + nearest + name!r}?"
    section = f"{prefix.rstrip('.')!r}" if prefix else "the file"
    return f"unknown key {key!r}; known in {section}: {', '.join(sorted(siblings))}"


def _sections(cls: type, prefix: str = "") -> Iterator[tuple[str, type]]:
    """Yield prefix and dataclass of every section that a configuration can have."""
    yield prefix, cls
    for name, annotation in schema.key_types(cls).items():
        section = schema.section_type(annotation)
        if section is not None:
            yield from _sections(section, f"{prefix}{name}.")


def _is_interpolation(value: Any) -> bool:
    return isinstance(value, str) and "${" in value


def _written_type(cls: type, key: str) -> str | None:
    """Return the annotation of a key as the source spells it."""
    *parents, name = key.split(".")
    owner: type | None = cls
    for parent in parents:
        types = schema.key_types(owner) if owner else {}
        owner = schema.section_type(types[parent]) if parent in types else None
    if owner is None:
        return None
    written = {option.name: str(option.type) for option in dataclasses.fields(owner)}
    return written.get(name)
