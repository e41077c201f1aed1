"""What calling a thing takes: functions, methods, constructors, decorators, partials."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from scaffold.analysis.python.index import PythonIndex

IndexOf = Callable[[Mapping[str, str | bytes]], PythonIndex]

HEAD = """
import functools, contextlib, torch
from abc import ABC, abstractmethod
from collections import namedtuple
from dataclasses import dataclass, field, KW_ONLY, InitVar
from enum import Enum
from functools import partial, wraps
from typing import overload, override, Generic, NamedTuple, Protocol, TypedDict
"""

DECORATORS = """
def same(fn):
    TABLE.append(fn)
    return fn
def makes_same(name, *, option=1):
    def register(fn):
        TABLE[name] = fn
        return fn
    return register
def passes_on(fn):
    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        print("before")
        return fn(*args, **kwargs)
    return wrapper
def passes_on_method(fn):
    @wraps(fn)
    def wrapper(self, *args, **kwargs):
        return fn(self, *args, **kwargs)
    return wrapper
def takes_one(fn):
    @wraps(fn)
    def wrapper(*args, **kwargs):
        kwargs.pop("timeout", None)
        return fn(*args, **kwargs)
    return wrapper
def adds_one(fn):
    @wraps(fn)
    def wrapper(*args, **kwargs):
        return fn(*args, extra=1, **kwargs)
    return wrapper
def hides(fn):
    def wrapper(x):
        return fn(x)
    return wrapper
def either(fn=None, *, option=1):
    if fn is None:
        return partial(either, option=option)
    return fn
"""


INHERITED = "@dataclass\nclass A:\n    a: int\n@dataclass\nclass K(A):\n    b: int"
KEYWORDS = "@dataclass\nclass K:\n    a: int\n    _: KW_ONLY\n    b: int"


# One row: the source, the name asked, and the signature or None.
@pytest.mark.parametrize(
    ("source", "name", "text"),
    [
        ("def f(a, /, b, *c, d, e=1, **g): ...", "f", "f(a, /, b, *c, d, e=1, **g)"),
        ("def f(a, *, b): ...", "f", "f(a, *, b)"),
        ("def f(a: int = 3, b: 'x' = None): ...", "f", "f(a: int = 3, b: 'x' = None)"),
        ("async def f(a): ...", "f", "f(a)"),
        ("def g(a): ...\nf = g", "f", "g(a)"),
        ("if 1:\n    def f(a): ...\nelse:\n    def f(a): ...", "f", "f(a)"),
        ("if 1:\n    def f(a): ...\nelse:\n    def f(b): ...", "f", None),
        ("def f(a): ...\nf = wrap(f)", "f", None),
        ("@overload\ndef f(a): ...\n@overload\ndef f(b): ...\ndef f(c): ...", "f", "f(c)"),
        ("x = 1", "x", None),
        ("x = make()", "x", None),
        # decorators
        ("@torch.no_grad()\ndef f(a): ...", "f", "f(a)"),
        ("@functools.lru_cache(maxsize=1)\ndef f(a): ...", "f", "f(a)"),
        ("@contextlib.contextmanager\ndef f(a): ...", "f", "f(a)"),
        ("@unknown\ndef f(a): ...", "f", None),
        ("@unknown.table['x']\ndef f(a): ...", "f", None),
        ("@same\ndef f(a): ...", "f", "f(a)"),
        ("@same()\ndef f(a): ...", "f", None),
        ("@makes_same('x', option=2)\ndef f(a): ...", "f", "f(a)"),
        ("@makes_same\ndef f(a): ...", "f", None),
        ("@passes_on\ndef f(a): ...", "f", "f(a)"),
        ("@takes_one\ndef f(a): ...", "f", None),
        ("@adds_one\ndef f(a): ...", "f", None),
        ("@hides\ndef f(a): ...", "f", None),
        ("@either\ndef f(a): ...", "f", None),
        ("def cache(fn): return lambda x: fn(x)\n@cache\ndef f(a): ...", "f", None),
        ("class cache: ...\n@cache\ndef f(a): ...", "f", None),
        ("from functools import cache\n@cache\ndef f(a): ...", "f", "f(a)"),
        ("import decorators\n@decorators.same\ndef f(a): ...", "f", "f(a)"),
        # methods
        ("class K:\n    def f(self, a): ...", "K.f", "f(a)"),
        ("class K:\n    def f(*args): ...", "K.f", "f(*args)"),
        ("class K:\n    @staticmethod\n    def f(a): ...", "K.f", "f(a)"),
        ("class K:\n    @classmethod\n    def f(cls, a): ...", "K.f", "f(a)"),
        ("class K(ABC):\n    @abstractmethod\n    def f(self, a): ...", "K.f", "f(a)"),
        ("class K:\n    @override\n    def f(self, a): ...", "K.f", "f(a)"),
        ("class K:\n    @property\n    def f(self): ...", "K.f", None),
        ("class K:\n    @passes_on_method\n    def f(self, a): ...", "K.f", "f(a)"),
        ("class A:\n    def f(self, a): ...\nclass K(A): ...", "K.f", "f(a)"),
        ("class K:\n    def f(self, a): ...\n    g = f", "K.g", "f(a)"),
        ("class K:\n    if 1:\n        def f(self, a): ...", "K.f", None),
        ("class K:\n    def f(self, a): ...\n    def f(self, b): ...", "K.f", None),
        # constructors
        ("class K: ...", "K", "K()"),
        ("class K:\n    def __init__(self, a): ...", "K", "K(a)"),
        ("class K:\n    def __new__(cls, a): ...", "K", "K(a)"),
        ("class K:\n    def __new__(cls, a): ...\n    def __init__(self, b): ...", "K", None),
        ("class A:\n    def __init__(self, a): ...\nclass K(A): ...", "K", "K(a)"),
        ("class K(torch.nn.Module):\n    def __init__(self, a): ...", "K", "K(a)"),
        ("class K(torch.nn.Module): ...", "K", None),
        ("class A:\n    def __init__(self, a): ...\nclass K(Gone, A): ...", "K", None),
        ("class A:\n    def __init__(self, a): ...\nclass K(A, Gone): ...", "K", "K(a)"),
        ("class K(Generic[T]): ...", "K", "K()"),
        ("class A:\n    def __init_subclass__(cls): ...\nclass K(A): ...", "K", None),
        ("class K(Exception): ...", "K", None),
        ("class K(Protocol): ...", "K", None),
        ("class K(Enum):\n    A = 1", "K", None),
        ("class K(type):\n    def __init__(self, a): ...", "K", None),
        ("class K(metaclass=M):\n    def __init__(self, a): ...", "K", None),
        ("@unknown\nclass K:\n    def __init__(self, a): ...", "K", None),
        ("@makes_same('k')\nclass K:\n    def __init__(self, a): ...", "K", "K(a)"),
        ("class K:\n    __init__ = other", "K", None),
        ("class K(NamedTuple):\n    a: int\n    b: int = 1", "K", "K(a: int, b: int = 1)"),
        ("class K(TypedDict):\n    a: int", "K", None),
        # dataclasses
        ("@dataclass\nclass K:\n    a: int\n    b: int = 1", "K", "K(a: int, b: int = 1)"),
        (INHERITED, "K", "K(a: int, b: int)"),
        ("@dataclass(init=False)\nclass K:\n    a: int", "K", "K()"),
        ("@dataclass(kw_only=True)\nclass K:\n    a: int", "K", "K(*, a: int)"),
        (KEYWORDS, "K", "K(a: int, *, b: int)"),
        ("@dataclass\nclass K:\n    a: int = field(init=False)", "K", "K()"),
        ("@dataclass\nclass K:\n    a: int = field(metadata={})", "K", "K(a: int)"),
        ("@dataclass\nclass K:\n    a: InitVar[int]", "K", "K(a: InitVar[int])"),
        ("@dataclass\nclass K(Gone):\n    a: int", "K", None),
        ("@dataclass\nclass K:\n    a: int\n    def __init__(self, b): ...", "K", "K(b)"),
        ("from flax.struct import dataclass as d\n@d\nclass K:\n    a: int", "K", None),
        ("import chex\n@chex.dataclass\nclass K:\n    a: int", "K", None),
    ],
)  # fmt: skip
def test_signatures(index_of: IndexOf, source: str, name: str, text: str | None) -> None:
    imported = "from decorators import *\n"
    index = index_of({"mod.py": HEAD + imported + source, "decorators.py": HEAD + DECORATORS})
    signature = index.signature(f"mod.{name}")
    assert (None if signature is None else str(signature)) == text


def test_a_signature_has_its_place(index_of: IndexOf) -> None:
    index = index_of({"pkg/__init__.py": "from .a import K\n", "pkg/a.py": "\n\nclass K: ...\n"})
    signature = index.signature("pkg.K")
    assert signature is not None
    assert (signature.path, signature.line) == ("pkg/a.py", 3)


def test_a_stub_beside_its_source_tells_no_signature(index_of: IndexOf) -> None:
    index = index_of({"mod.py": "def g(a): ...\n", "mod.pyi": "def f(a): ...\ndef g(a, b): ...\n"})
    assert index.find("mod.f").kind == "function"
    assert index.signature("mod.f") is None
    assert str(index.signature("mod.g")) == "g(a)"


def test_a_stub_alone_tells_no_signature(index_of: IndexOf) -> None:
    index = index_of({"mod.pyi": "def f(a): ...\nclass K:\n    def g(self): ...\n"})
    assert index.signature("mod.f") is None
    assert index.signature("mod.K.g") is None
