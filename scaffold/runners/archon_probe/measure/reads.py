"""Which fields of a configuration a model of transformers reads while it is built and run.

A config.json may carry a field that no class declares: it becomes an attribute all the same, and
modeling code that asks for it by ``getattr`` with a default then computes something else. Keys of
the mappings inside a configuration are asked for in the same way.
"""

from __future__ import annotations

import ast
import copy
import functools
import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from transformers import PretrainedConfig


@functools.cache  # asked for every read of a field
def _decides(file: str) -> bool:
    """Return whether a file's reads decide what is computed; others save, generate, initialise."""
    return bool(
        re.fullmatch(r"modeling_(?!utils\.|outputs\.).*|masking_utils\.py", Path(file).name)
    )


@dataclass
class Reads:
    """What was asked of a configuration.

    Attributes:
        found: Names of attributes that were there.
        lacking: Names of attributes that were not, and the first place that asks.
        keys: By the field that holds a mapping, the keys that were asked of it.
        lacking_keys: The same for keys that were not in it.
    """

    found: set[str] = field(default_factory=set)
    lacking: dict[str, Place] = field(default_factory=dict)
    keys: dict[str, set[str]] = field(default_factory=dict)
    lacking_keys: dict[str, set[str]] = field(default_factory=dict)

    @property
    def names(self) -> set[str]:
        """Return every attribute that was asked for."""
        return self.found | self.lacking.keys()


@dataclass(frozen=True)
class Place:
    """A function of a file."""

    file: str
    function: str

    def __str__(self) -> str:
        return f"{Path(self.file).name}, {self.function}"


@contextmanager
def reading(config: PretrainedConfig, reads: Reads) -> Iterator[PretrainedConfig]:
    """Yield a copy of a configuration, and note what modeling code asks of it and its parts.

    Copies of the copy are watched too, as their class is for the time being. A field of a part has
    a dotted name.
    """
    watched = copy.deepcopy(config)
    parts = {"": watched}
    for name in config.sub_configs:
        if isinstance(getattr(watched, name, None), PretrainedConfig):
            parts[f"{name}."] = getattr(watched, name)
    with ExitStack() as stack:
        # Parts of one class cannot be told from one another, and are not watched apart.
        for cls, prefix in {type(part): prefix for prefix, part in parts.items()}.items():
            stack.enter_context(_watching(cls, prefix, reads))
        for prefix, part in parts.items():
            for name, value in vars(part).items():
                if isinstance(value, dict) and not name.startswith("_"):
                    # Past `__setattr__`, which would check or convert the value.
                    part.__dict__[name] = _Mapping(value, prefix + name, reads)
        yield watched


@contextmanager
def _watching(cls: type, prefix: str, reads: Reads) -> Iterator[None]:
    inherited: Any = cls.__getattribute__
    has_own = "__getattribute__" in vars(cls)

    def note(self: Any, name: str) -> Any:
        is_there = True
        try:
            return inherited(self, name)
        except AttributeError:
            is_there = False
            raise
        finally:
            code = sys._getframe(1).f_code
            if not name.startswith("_") and _decides(code.co_filename):
                own = cls.attribute_map.get(name, name)
                if is_there and not callable(getattr(cls, own, None)):
                    reads.found.add(prefix + own)
                elif not is_there:
                    place = Place(code.co_filename, code.co_name)
                    reads.lacking.setdefault(prefix + own, place)

    cls.__getattribute__ = note
    try:
        yield
    finally:
        if has_own:
            cls.__getattribute__ = inherited
        else:
            del cls.__getattribute__


class _Mapping(dict[str, Any]):
    """Notes which keys are asked for."""

    def __init__(self, values: dict[str, Any], name: str, reads: Reads) -> None:
        super().__init__()
        self._name, self._reads = name, reads
        for key, value in values.items():
            inner = _Mapping(value, f"{name}.{key}", reads) if isinstance(value, dict) else value
            super().__setitem__(key, inner)

    def __deepcopy__(self, memo: dict[int, Any]) -> _Mapping:
        return _Mapping(copy.deepcopy(dict(self), memo), self._name, self._reads)

    def _asked(self, key: Any) -> None:
        if not _decides(sys._getframe(2).f_code.co_filename):
            return
        noted = self._reads.keys if super().__contains__(key) else self._reads.lacking_keys
        noted.setdefault(self._name, set()).add(key)

    def __getitem__(self, key: str) -> Any:
        self._asked(key)
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self._asked(key)
        return super().__contains__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self._asked(key)
        return super().get(key, default)


def stated_default(name: str, place: Place) -> Any:
    """Return what a file falls back to where a configuration lacks a field, if that is a literal.

    None means no literal, too.
    """
    return _defaults(place.file).get(name)


@functools.cache
def _defaults(file: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for node in ast.walk(ast.parse(Path(file).read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        if node.func.id != "getattr" or len(node.args) != 3:
            continue
        name, default = node.args[1:]
        if isinstance(name, ast.Constant) and isinstance(default, ast.Constant):
            found.setdefault(str(name.value), default.value)
    return found
