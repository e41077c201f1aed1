"""What dotted names mean: small repositories, each with the answers it must give."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from scaffold.analysis.python.index import PythonIndex

IndexOf = Callable[[Mapping[str, str | bytes]], PythonIndex]

SIMPLE = {
    "pkg/__init__.py": "from .core import Engine as Motor, run\nfrom pkg.core import LIMIT\n",
    "pkg/core.py": """
LIMIT = 3
first, (second, *rest) = 1, (2, 3)
class Engine:
    size: int = 1
    def __init__(self, name, *, fast=False):
        self.name = name
    def start(self, delay=0): ...
    class Part:
        class Bolt: ...
def run(engine):
    def inner(x): ...
    global COUNT
    COUNT = 1
alias = run
if (walrus := 3): pass
for loop in (): pass
with open("x") as handle: pass
import os.path
import numpy as np
""",
}


@pytest.mark.parametrize(
    ("dotted", "kind", "path"),
    [
        ("pkg", "module", "pkg/__init__.py"),
        ("pkg.core", "module", "pkg/core.py"),
        ("pkg.core.Engine", "class", "pkg/core.py"),
        ("pkg.Motor", "class", "pkg/core.py"),
        ("pkg.Motor.start", "function", "pkg/core.py"),
        ("pkg.Motor.size", "attribute", "pkg/core.py"),
        ("pkg.Motor.name", "attribute", "pkg/core.py"),
        ("pkg.Motor.__init__", "function", "pkg/core.py"),
        ("pkg.Motor.__eq__", "attribute", "pkg/core.py"),
        ("pkg.Motor.Part.Bolt", "class", "pkg/core.py"),
        ("pkg.run", "function", "pkg/core.py"),
        ("pkg.core.run.inner", "function", "pkg/core.py"),
        ("pkg.core.alias", "function", "pkg/core.py"),
        ("pkg.LIMIT", "constant", "pkg/core.py"),
        ("pkg.core.first", "constant", "pkg/core.py"),
        ("pkg.core.second", "constant", "pkg/core.py"),
        ("pkg.core.rest", "constant", "pkg/core.py"),
        ("pkg.core.COUNT", "constant", "pkg/core.py"),
        ("pkg.core.walrus", "constant", "pkg/core.py"),
        ("pkg.core.loop", "constant", "pkg/core.py"),
        ("pkg.core.handle", "constant", "pkg/core.py"),
        ("pkg.core.__name__", "constant", "pkg/core.py"),
        ("pkg.core.np", "third_party", "pkg/core.py"),
        ("pkg.core.np.array", "third_party", "pkg/core.py"),
        ("pkg.Engine", "missing", "pkg/__init__.py"),
        ("pkg.gone", "missing", "pkg/__init__.py"),
        ("pkg.core.gone", "missing", "pkg/core.py"),
        ("pkg.core.inner", "missing", "pkg/core.py"),
        ("pkg.Motor.gone", "missing", "pkg/core.py"),
        ("pkg.Motor.Part.gone", "missing", "pkg/core.py"),
        ("pkg.LIMIT.real", "undecided", "pkg/core.py"),
        ("pkg.run.cache_info", "undecided", "pkg/core.py"),
        ("numpy.array", "third_party", None),
        ("os", "module", None),
        ("os.path.join", "function", None),
        ("os.not_in_any_version", "undecided", None),
        ("ctypes.c_int", "undecided", None),
        ("not a name", "undecided", None),
        ("", "undecided", None),
        ("pkg..core", "undecided", None),
    ],
)
def test_simple_names(index_of: IndexOf, dotted: str, kind: str, path: str | None) -> None:
    found = index_of(SIMPLE).find(dotted)
    assert (found.kind, found.path, found.name) == (kind, path, dotted)
    assert found.evidence


def test_a_definition_has_its_line(index_of: IndexOf) -> None:
    index = index_of(SIMPLE)
    assert index.find("pkg.core.LIMIT").line == 2
    assert index.find("pkg.Motor").line == 4
    assert index.find("pkg.Motor.start").line == 8
    assert index.find("pkg.Motor.name").line == 7


def test_names_inside_one_file(index_of: IndexOf) -> None:
    index = index_of(SIMPLE)
    assert index.find_in("pkg/core.py", "Engine.start").kind == "function"
    assert index.find_in("pkg/core.py", "Engine.stop").kind == "missing"
    assert index.find_in("pkg/core.py", "gone").kind == "missing"
    assert index.find_in("pkg/none.py", "gone").kind == "undecided"
    assert index.find_in("pkg/core.py", "1 + 2").kind == "undecided"


TWO_CLASSES = "if True:\n    class A:\n        x = 1\nelse:\n    class A:\n        y = 1"
GUARDED = "try:\n    from .other import K\nexcept ImportError:\n    K = None"
FOR_TYPES = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .other import K"


# One row: what is in the module `pkg/__init__.py`, the name asked of it, and its kind.
@pytest.mark.parametrize(
    ("source", "name", "kind"),
    [
        ("from .other import *", "public", "function"),
        ("from .other import *", "_private", "missing"),
        ("from .other import *", "gone", "missing"),
        ("from .listed import *", "public", "function"),
        ("from .listed import *", "_listed", "function"),
        ("from .listed import *", "unlisted", "missing"),
        ("from .added import *", "public", "function"),
        ("from .added import *", "unlisted", "missing"),
        ("from .unknowable import *", "public", "function"),
        ("from numpy import *", "anything", "undecided"),
        ("from . import *", "gone", "missing"),
        ("from .circle import *", "round", "function"),
        ("from .circle import *", "gone", "missing"),
        ("from .other import public as other_name", "other_name", "function"),
        ("from .other import public as other_name", "public", "missing"),
        ("from .gone import name", "name", "undecided"),
        ("from .other import gone", "gone", "undecided"),
        ("from ..outside import name", "name", "undecided"),
        ("import pkg.other as o", "o.public", "function"),
        ("import pkg.other as o", "o.gone", "missing"),
        ("import pkg.other", "pkg.other.public", "function"),
        ("try:\n    from gone import f\nexcept ImportError:\n    f = None", "f", "third_party"),
        (GUARDED, "K.go", "function"),
        (GUARDED, "K.no", "missing"),
        ("import sys\nif sys.version_info > (3, 12):\n    def f(): ...", "f", "function"),
        (TWO_CLASSES, "A.x", "attribute"),
        (TWO_CLASSES, "A.y", "attribute"),
        (TWO_CLASSES, "A.z", "missing"),
        (FOR_TYPES, "K", "undecided"),
        ("import typing\nif typing.TYPE_CHECKING:\n    from .other import K", "K", "undecided"),
        ("globals()['x'] = 1", "x", "undecided"),
        ("globals().update(x=1)", "x", "undecided"),
        ("import sys\nsetattr(sys.modules[__name__], 'x', 1)", "x", "undecided"),
        ("import sys\nsys.modules[__name__] = object()", "x", "undecided"),
        ("for n in 'ab': locals()[n] = 1", "a", "undecided"),
        ("vars()['x'] = 1", "x", "undecided"),
        ("exec('x = 1')", "x", "undecided"),
        ("exec('x = 1', {})", "x", "missing"),
        ("y = globals()['z']", "x", "missing"),
        ("y = 'x' in globals()", "x", "missing"),
        ("y = globals().get('x')", "x", "missing"),
        ("x = 1\ndel x", "x", "undecided"),
        ("x: int", "x", "missing"),
        ("__all__ = ['x']", "x", "undecided"),
        ("__path__ = ['elsewhere']", "x", "undecided"),
        ("def __getattr__(name): return 1", "x", "undecided"),
        ("match 1:\n    case x: pass", "x", "constant"),
        ("match 1:\n    case [*x]: pass", "x", "constant"),
        ("x = y = 1", "y", "constant"),
        ("x = self = None\nself.z = 1", "z", "missing"),
        ("from .other import K\nthing = K()", "thing.go", "function"),
        ("from .other import K\nthing = K()", "thing.no", "undecided"),
        ("from .other import K\nNew = K", "New.go", "function"),
        ("from .other import K\nNew = K", "New.no", "missing"),
        ("a = b\nb = a", "a", "constant"),
        ("from .x_y import a as x_y", "x_y", "function"),
    ],
)  # fmt: skip
def test_what_a_module_offers(index_of: IndexOf, source: str, name: str, kind: str) -> None:
    others = {
        "pkg/other.py": "def public(): ...\ndef _private(): ...\nclass K:\n    def go(self): ...\n",
        "pkg/listed.py": (
            "__all__ = ['public', '_listed']\n"
            "def public(): ...\ndef _listed(): ...\ndef unlisted(): ...\n"
        ),
        "pkg/added.py": (
            "__all__: list[str] = []\n__all__ += ['other']\n__all__.append('public')\n"
            "__all__.extend(['more'])\ndef public(): ...\ndef unlisted(): ...\n"
        ),
        "pkg/unknowable.py": "__all__ = [n for n in dir()]\ndef public(): ...\n",
        "pkg/circle.py": "from .circle_2 import *\n",
        "pkg/circle_2.py": "from .circle import *\ndef round(): ...\n",
        "pkg/x_y.py": "def a(): ...\n",
    }
    found = index_of({**others, "pkg/__init__.py": source}).find(f"pkg.{name}")
    assert found.kind == kind, found


@pytest.mark.parametrize(
    ("elsewhere", "name", "kind"),
    [
        ("import pkg\npkg.extra = 1", "pkg.extra", "undecided"),
        ("import pkg\npkg.extra = 1", "pkg.other", "missing"),
        ("import pkg\nsetattr(pkg, name, 1)", "pkg.other", "undecided"),
        ("from pkg import K\nK.extra = 1", "pkg.K.extra", "undecided"),
        ("from pkg import K\nk = K()\nk.extra = 1", "pkg.K.extra", "undecided"),
        ("from pkg import K\nsetattr(K, name, 1)", "pkg.K.extra", "undecided"),
        ("class Other:\n    def f(self):\n        self.extra = 1", "pkg.K.extra", "missing"),
        ("if k.extra == 1: pass", "pkg.K.extra", "missing"),
    ],
)
def test_what_code_sets_from_outside(
    index_of: IndexOf, elsewhere: str, name: str, kind: str
) -> None:
    index = index_of({"pkg/__init__.py": "class K: ...\n", "use.py": elsewhere})
    assert index.find(name).kind == kind


def test_a_missing_name_has_its_nearest(index_of: IndexOf) -> None:
    index = index_of(
        {
            "pkg/__init__.py": "",
            "pkg/old.py": "def load_dataset(): ...\nclass Engine:\n    def start(self): ...\n",
            "pkg/new.py": "def moved(): ...\nclass Holder:\n    def inside(self): ...\n",
        }
    )
    assert index.find("pkg.old.moved").near == "pkg.new.moved"
    assert index.find("pkg.gone.moved").near == "pkg.new.moved"
    assert index.find("pkg.old.load_datasets").near == "pkg.old.load_dataset"
    assert index.find("pkg.old.Engine.stat").near == "pkg.old.Engine.start"
    assert index.find("pkg.olds").near == "pkg.old"
    assert index.find("pkg.old.something_else").near is None
    assert index.find("pkg.old.inside").near is None  # a method is not importable by itself


def test_module_names_and_dotted_names(index_of: IndexOf) -> None:
    index = index_of({**SIMPLE, "src/app/__init__.py": "", "src/app/a.py": ""})
    assert {"Motor", "run", "LIMIT"} <= index.module_names("pkg")
    assert index.module_names("pkg.gone") == frozenset()
    assert index.dotted_names("pkg/core.py") == ("pkg.core",)
    assert index.dotted_names("src/app/a.py")[0] == "app.a"
    assert index.dotted_names("pkg/__init__.py") == ("pkg",)


def test_definitions_by_bare_name(index_of: IndexOf) -> None:
    index = index_of(SIMPLE)
    assert index.defined("start") == (("pkg/core.py", 8),)
    assert index.defined("LIMIT") == (("pkg/core.py", 2),)
    assert index.defined("gone") == ()
