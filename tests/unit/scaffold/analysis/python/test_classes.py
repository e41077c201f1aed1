"""Members and fields of classes, through bases, decorators and what runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from scaffold.analysis.python.index import PythonIndex

IndexOf = Callable[[Mapping[str, str | bytes]], PythonIndex]

HEAD = """
import abc, enum, functools
from abc import ABC, ABCMeta
from dataclasses import dataclass, field, InitVar, KW_ONLY
from enum import Enum, IntEnum
from typing import ClassVar, Generic, NamedTuple, Protocol, TypedDict, TypeVar
import torch.nn as nn
from bases import Base, register, keep, Meta, Single
T = TypeVar("T")
"""
BASES = """
class Root:
    root_name = 1
class Base(Root):
    def inherited(self): ...
def register(name):
    def wrap(cls):
        TABLE[name] = cls
        return cls
    return wrap
def keep(cls):
    return cls
class Meta(type):
    def __new__(mcs, *args): ...
class Single(type):
    _instances = {}
    def __call__(cls, *args): ...
"""


DIAMOND = "class A:\n    x = 1\nclass B(A): ...\nclass C(A): ...\nclass K(B, C): ..."


# One row: the class K, the member asked of it, and its kind.
@pytest.mark.parametrize(
    ("source", "name", "kind"),
    [
        ("class K(Base): ...", "inherited", "function"),
        ("class K(Base): ...", "root_name", "attribute"),
        ("class K(Base): ...", "gone", "missing"),
        ("import bases\nclass K(bases.Base): ...", "inherited", "function"),
        ("class K(nn.Module): ...", "forward", "undecided"),
        ("class K(nn.Module):\n    def forward(self): ...", "forward", "function"),
        ("class K(make_base()): ...", "x", "undecided"),
        ("class K(Unknown): ...", "x", "undecided"),
        ("class K(Generic[T]): ...", "x", "missing"),
        ("class K(Base, Generic[T]): ...", "inherited", "function"),
        ("class K(ABC): ...", "register", "attribute"),
        ("class K(ABC): ...", "x", "missing"),
        ("class K(metaclass=abc.ABCMeta): ...", "x", "missing"),
        ("class K(metaclass=Meta): ...", "x", "undecided"),
        ("class K(metaclass=Single): ...", "x", "missing"),
        ("class K(Base, **options): ...", "x", "undecided"),
        ("class K(Protocol):\n    x: int", "x", "attribute"),
        ("class K(Protocol):\n    x: int", "y", "missing"),
        ("import typing_extensions as t\nclass K(t.Protocol): ...", "x", "missing"),
        ("import typing_extensions as t\nclass K(t.TypedDict):\n    x: int", "keys", "attribute"),
        ("class K(Exception): ...", "args", "attribute"),
        ("class K(Exception): ...", "x", "missing"),
        ("class K(dict): ...", "update", "attribute"),
        ("class K(dict): ...", "x", "missing"),
        ("import threading\nclass K(threading.Thread): ...", "start", "attribute"),
        ("import threading\nclass K(threading.Thread): ...", "x", "undecided"),
        ("class K(Enum):\n    RED = 1", "RED", "attribute"),
        ("class K(Enum):\n    RED = 1", "value", "attribute"),
        ("class K(Enum):\n    RED = 1", "BLUE", "missing"),
        ("class K(IntEnum):\n    RED = 1", "bit_length", "attribute"),
        ("class K(str, Enum):\n    RED = 'r'", "lower", "attribute"),
        ("class K(NamedTuple):\n    x: int", "x", "attribute"),
        ("class K(NamedTuple):\n    x: int", "_replace", "attribute"),
        ("class K(NamedTuple):\n    x: int", "y", "missing"),
        ("class K(TypedDict):\n    x: int", "x", "attribute"),
        ("class K(TypedDict):\n    x: int", "keys", "attribute"),
        ("class K(TypedDict):\n    x: int", "y", "missing"),
        ("@dataclass\nclass K:\n    x: int", "x", "attribute"),
        ("@dataclass\nclass K:\n    x: int", "y", "missing"),
        ("@dataclass\nclass K:\n    x: int", "__dataclass_fields__", "undecided"),
        ("@register('k')\nclass K: ...", "x", "missing"),
        ("@keep\nclass K: ...", "x", "missing"),
        ("@keep()\nclass K: ...", "x", "undecided"),
        ("@unknown\nclass K: ...", "x", "undecided"),
        ("@unknown\nclass K:\n    x = 1", "x", "attribute"),
        ("class K:\n    def __getattr__(self, name): ...", "x", "undecided"),
        ("class K:\n    def __getattribute__(self, name): ...", "x", "undecided"),
        ("class K:\n    def f(self, n):\n        setattr(self, n, 1)", "x", "undecided"),
        ("class K:\n    def f(self):\n        setattr(self, 'x', 1)", "x", "attribute"),
        ("class K:\n    def f(self):\n        setattr(self, 'x', 1)", "y", "missing"),
        ("class K:\n    def f(self):\n        object.__setattr__(self, 'x', 1)", "x", "attribute"),
        ("class K:\n    def f(self, other, n):\n        setattr(other, n, 1)", "x", "missing"),
        ("class K:\n    def f(self, n):\n        setattr(self.part, n, 1)", "x", "missing"),
        ("class K:\n    def f(self, **kw):\n        self.__dict__.update(kw)", "x", "undecided"),
        ("class K:\n    def f(self, **kw):\n        self.__dict__ = kw", "x", "undecided"),
        ("class K:\n    def f(self, n):\n        self.__dict__[n] = 1", "x", "undecided"),
        ("class K:\n    def f(self, o):\n        o.__dict__.update(self.__dict__)", "x", "missing"),
        ("class K:\n    def __setstate__(self, s): self.__dict__.update(s)", "x", "missing"),
        ("class K:\n    for n in 'ab':\n        locals()[n] = 1", "a", "undecided"),
        ("class K:\n    def f(self):\n        self.x = 1", "x", "attribute"),
        ("class K:\n    def f(self):\n        self.x: int = 1", "x", "attribute"),
        ("class K:\n    def f(self): self.x, (self.y, *self.z) = 1, (2,)", "z", "attribute"),
        ("class K:\n    def f(self):\n        with o() as self.x: pass", "x", "attribute"),
        ("class K:\n    def f(self):\n        for self.x in o: pass", "x", "attribute"),
        ("class K:\n    def f(self):\n        def g():\n            self.x = 1", "x", "attribute"),
        ("class K:\n    def f(self):\n        if o:\n            self.x = 1", "x", "attribute"),
        ("class K:\n    def f(me):\n        me.x = 1", "x", "attribute"),
        ("class K:\n    @classmethod\n    def f(cls):\n        cls.x = 1", "x", "attribute"),
        ("class K:\n    def f(self):\n        other.x = 1", "x", "undecided"),
        ("class K:\n    def f(self):\n        self.y.x = 1", "x", "undecided"),
        ("class K:\n    __slots__ = ('x', 'y')", "y", "attribute"),
        ("class K:\n    __slots__ = 'x'", "x", "attribute"),
        ("class K:\n    @property\n    def x(self): ...", "x", "attribute"),
        ("class K:\n    @functools.cached_property\n    def x(self): ...", "x", "attribute"),
        ("class K:\n    @staticmethod\n    def x(a): ...", "x", "function"),
        ("class K:\n    x: int", "x", "attribute"),
        ("class K:\n    from os import path as x", "x", "attribute"),
        ("class K:\n    def a(self): ...\n    x = a", "x", "function"),
        ("class K:\n    if o:\n        def x(self): ...", "x", "function"),
        ("class K:\n    try:\n        x = 1\n    except E:\n        y = 2", "y", "attribute"),
        ("class K:\n    def f(self):\n        self.__x = 1", "_K__x", "attribute"),
        ("class K:\n    class Inner:\n        x = 1", "Inner.x", "attribute"),
        ("class K:\n    class Inner:\n        x = 1", "Inner.y", "missing"),
        ("class K:\n    x = 1", "x.y", "undecided"),
        (DIAMOND, "x", "attribute"),
    ],
)  # fmt: skip
def test_members(index_of: IndexOf, source: str, name: str, kind: str) -> None:
    index = index_of({"mod.py": HEAD + source, "bases.py": BASES})
    found = index.find(f"mod.K.{name}")
    assert found.kind == kind, found


def test_all_members_with_their_owners(index_of: IndexOf) -> None:
    source = (
        HEAD
        + """
class K(Base):
    size: int = 1
    @property
    def width(self): ...
    def inherited(self): self.depth = 1
    class Part: ...
"""
    )
    members = index_of({"mod.py": source, "bases.py": BASES}).members("mod.K") or {}
    assert {each.name: (each.kind, each.owner) for each in members.values()} == {
        "size": ("attribute", "K"),
        "width": ("property", "K"),
        "inherited": ("method", "K"),
        "depth": ("attribute", "K"),
        "Part": ("class", "K"),
        "root_name": ("attribute", "Root"),
    }
    assert members["root_name"].path == "bases.py"


def test_what_is_no_class_has_no_members(index_of: IndexOf) -> None:
    index = index_of({"mod.py": "def f(): ...\nclass K: ...\n"})
    assert index.members("mod.f") is None
    assert index.members("mod.K.gone") is None
    assert index.members("mod.K") == {}
    assert index.fields("mod.K") is None


def test_fields_of_a_dataclass(index_of: IndexOf) -> None:
    source = (
        HEAD
        + """
@dataclass
class A:
    first: int
    second: str = "x"
    shared: ClassVar[int] = 1
    hidden: list = field(default_factory=list, init=False)
    given: InitVar[int] = 3
    not_a_field = 4
@dataclass(kw_only=True)
class K(A):
    third: float = field(default=1.5, metadata={"help": "x"})
    second: str = "y"
    made: int = Thing.field("z")
    fourth: int = field(kw_only=False)
"""
    )
    fields = index_of({"mod.py": source, "bases.py": BASES}).fields("mod.K") or ()
    told = [
        (each.name, each.annotation, each.default, each.has_default, each.init, each.kw_only)
        for each in fields
    ]
    assert told == [
        ("first", "int", None, False, True, False),
        ("second", "str", "'y'", True, True, True),
        ("hidden", "list", "field(default_factory=list, init=False)", True, False, False),
        ("given", "InitVar[int]", "3", True, True, False),
        ("third", "float", "1.5", True, True, True),
        ("made", "int", "Thing.field('z')", True, True, True),
        ("fourth", "int", "field(kw_only=False)", False, True, False),
    ]
    assert [each.owner for each in fields] == ["A", "K", "A", "A", "K", "K", "K"]
    assert [each.name for each in fields if not each.is_stored] == ["given"]


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("class K(NamedTuple):\n    x: int\n    y: int = 1", ["x", "y"]),
        ("class K(TypedDict):\n    x: int", ["x"]),
        ("from pydantic import BaseModel\nclass K(BaseModel):\n    x: int", ["x"]),
        ("import attrs\n@attrs.define\nclass K:\n    x: int = attrs.field(default=1)", ["x"]),
        ("class K:\n    x: int", None),
        ("@dataclass\nclass A:\n    x: int\nclass K(A):\n    y: int", ["x"]),
    ],
)
def test_fields_of_other_classes(index_of: IndexOf, source: str, names: list[str] | None) -> None:
    fields = index_of({"mod.py": HEAD + source, "bases.py": BASES}).fields("mod.K")
    assert (None if fields is None else [each.name for each in fields]) == names
