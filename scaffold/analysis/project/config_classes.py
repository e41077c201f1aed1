"""The keys of a repository's configuration: fields of its own dataclasses, nested by their types.

``actor.optimizer.lr`` is a key where some class has a field ``actor`` of a class of the repository,
that one a field ``optimizer``, and so on. Where a type is open (``dict``, ``Any``, a class from
elsewhere), so is the answer.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property
from typing import Literal, NamedTuple

from scaffold.analysis.files.data_files import known_part, load_data
from scaffold.analysis.files.files import Files
from scaffold.analysis.lazy_re import lazy_re
from scaffold.analysis.near_names import closest
from scaffold.analysis.python.index import Field, PythonIndex

_SUFFIX = rb"(?:Config|Configuration|Cfg|Args|Arguments|Settings|Options|Params)"
# A field whose type has such a name: `    actor: PPOActorConfig = field(...)`. Bytes, since every
# source is searched and most are never decoded.
_OWNER = lazy_re(
    rb"^[ \t]+([a-z_]\w*)[ \t]*:[ \t]*([^=\n#(]*\b[A-Z]\w*" + _SUFFIX + rb"\b[^=\n#(]*)",
    re.MULTILINE,
)
_CLASS_MAKERS = (b"dataclass", b"BaseModel", b"BaseSettings", b"attrs", b"attr.s", b"Struct")
_NAME = lazy_re(r"[A-Za-z_][\w.]*")
_WRAPPERS = frozenset({"Optional", "None", "Annotated", "Final", "typing", "Union", "Required"})
# What lets a class take keys beyond its fields: pydantic's `extra="allow"`, `__getattr__`.
_EXTRA = lazy_re(r"extra[\"']?\s*[=:]\s*[\"']allow|Extra\.allow|__getattr__|setattr\(")
# So many functions call their argument this that the name is no evidence of its class.
_ANY_OWNER = frozenset(
    {"config", "cfg", "conf", "args", "settings", "options", "params", "self", "cls", "kwargs"}
)


class KeyAnswer(NamedTuple):
    """The answer to a question for a key.

    Args:
        state: Whether it is a key, is not, or cannot be told.
        reason: Why.
        depth: How many of its parts are keys.
        near: The closest key there is in place of the first wrong part, or empty.
    """

    state: Literal["there", "missing", "open"]
    reason: str
    depth: int = 0
    near: str = ""


class ConfigClasses:
    """The dotted keys that a repository's own classes define.

    Args:
        files: The repository's files.
        index: Its Python names.
    """

    def __init__(self, files: Files, index: PythonIndex) -> None:
        self._files = files
        self._index = index

    @cached_property
    def _owners(self) -> dict[str, list[tuple[str, str]]]:
        """The source and the type of every field whose type looks like a part of a config."""
        found: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for path in self._files.python:
            source = self._files.data(path) or b""
            if any(each in source for each in _CLASS_MAKERS):
                for name, annotation in set(_OWNER.findall(source)):
                    found[name.decode()].append((path, annotation.decode("utf-8", "replace")))
        return found

    def find(self, key: str) -> KeyAnswer:
        """Return what is known of a dotted key."""
        first, *rest = key.split(".")
        owners = self._owners.get(first, [])
        if first in _ANY_OWNER or not owners or not rest:
            return KeyAnswer("open", f"no class has a field {first!r} that is a part of a config")
        answers: list[KeyAnswer] = []
        for path, annotation in owners:
            answers += [self._walk(each, rest, 1) for each in self._classes(path, annotation)]
            if any(each.state == "there" for each in answers):
                break
        # The kindest answer counts, and of those the one that got furthest.
        order = {"there": 0, "open": 1, "missing": 2}
        answers.sort(key=lambda each: (order[each.state], -each.depth))
        return answers[0] if answers else KeyAnswer("open", f"the type of {first!r} is not known")

    def _classes(self, path: str, annotation: str) -> list[str]:
        """Return the dotted names of the classes that a type names; "" for one that is open."""
        found: list[str] = []
        for name in _NAME.findall(annotation.strip().strip("\"'")):
            if name.rpartition(".")[2] in _WRAPPERS:
                continue
            there = self._index.find_in(path, name)
            names = self._index.dotted_names(there.path) if there.path else ()
            if there.kind == "class" and names:
                last = name.rpartition(".")[2]
                dotted = f"{names[0]}.{last}"
                found.append(dotted if self._index.fields(dotted) is not None else "")
            else:
                found.append("")
        return found

    def _walk(self, dotted: str, parts: Sequence[str], depth: int) -> KeyAnswer:
        if not parts:
            return KeyAnswer("there", "it is a field", depth)
        fields = self._index.fields(dotted) if dotted else None
        if fields is None:
            return KeyAnswer("open", "the type of a part of it is open", depth)
        part, *rest = parts
        field = next((each for each in fields if each.name == part), None)
        if field is None:
            return self._missing(dotted, part, fields, depth)
        if not rest:
            return KeyAnswer("there", f"{field.path}:{field.line} has the field", depth + 1)
        classes = self._classes(field.path, field.annotation)
        answers = [self._walk(each, rest, depth + 1) for each in classes]
        for state in ("there", "open", "missing"):
            if chosen := next((each for each in answers if each.state == state), None):
                return chosen
        return KeyAnswer("open", f"the type of {part!r} is open", depth)

    def _missing(self, dotted: str, part: str, fields: tuple[Field, ...], depth: int) -> KeyAnswer:
        # A property or a method is no field, and may be set from a file all the same.
        found = self._index.find(f"{dotted}.{part}")
        if not found.is_missing:
            return KeyAnswer("open", f"{dotted} has {part!r} as something else", depth)
        paths = {each.path for each in fields} | ({found.path} if found.path else set[str]())
        texts = [self._files.text(path) or "" for path in paths]
        # The key in quotes may be what the source reads from a raw mapping.
        if any(_EXTRA.search(text) or f'"{part}"' in text for text in texts):
            return KeyAnswer("open", f"{dotted} may take other keys", depth)
        near = closest(part, [each.name for each in fields])
        last = dotted.rpartition(".")[2]
        return KeyAnswer("missing", f"{last} has no field {part!r}", depth, near)

    def yaml_has(self, key: str) -> bool:
        """Return whether any YAML file has a dotted key."""
        first = key.split(".")[0]
        paths = [each for each in self._files.paths if each.endswith((".yaml", ".yml"))]
        return any(
            known_part(load_data(each, self._files), key) == key.count(".") + 1
            for each in paths
            if re.search(rf"\b{re.escape(first)}\b", self._files.text(each) or "")
        )
