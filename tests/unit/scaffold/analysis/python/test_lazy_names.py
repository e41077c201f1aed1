"""Import maps and module-level ``__getattr__``: what they give and what they refuse."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from scaffold.analysis.python.index import PythonIndex

IndexOf = Callable[[Mapping[str, str | bytes]], PythonIndex]

OTHERS = {
    "pkg/part/__init__.py": "",
    "pkg/part/core.py": "class Engine:\n    def start(self, delay): ...\ndef run(): ...\n",
}

REFUSE = "    raise AttributeError(name)\n"

GIVING = {
    "name to a pair of the own package and a module": """
_LAZY = {"Engine": (__spec__.parent, ".part.core"), "run": (__package__, ".part.core")}
def __getattr__(name):
    package, module = _LAZY[name]
    return getattr(importlib.import_module(module, package=package), name)
""",
    "name to absolute module": """
_LAZY = {"Engine": "pkg.part.core", "run": "pkg.part.core"}
def __getattr__(name):
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(name)
""",
    "name to relative module": """
_LAZY: dict[str, str] = {"Engine": ".part.core", "run": ".part.core"}
def __getattr__(name: str):
    if name not in _LAZY:
        raise AttributeError(name)
    module = importlib.import_module(_LAZY[name], __name__)
    value = getattr(module, name)
    globals()[name] = value
    return value
""",
    "name to bare submodule": """
_LAZY = {"Engine": "part.core", "run": "part.core"}
def __getattr__(name):
    try:
        module = _LAZY[name]
    except KeyError:
        raise AttributeError(name) from None
    return getattr(importlib.import_module(f".{module}", __name__), name)
""",
    "name to pair": """
_LAZY = {"Engine": ("pkg.part.core", "Engine"), "run": ("pkg.part.core", "run")}
def __getattr__(name):
    target = _LAZY.get(name)
    if target is None:
        raise AttributeError(name)
    module, attribute = target
    return getattr(importlib.import_module(module), attribute)
""",
    "name to module and attribute": """
_LAZY = {"Engine": "pkg.part.core:Engine", "run": "pkg.part.core:run"}
def __getattr__(name):
    if (target := _LAZY.get(name)) is not None:
        return resolve(target)
    raise AttributeError(name)
""",
    "module to names": """
_LAZY = {"part.core": ["Engine", "run"]}
_MODULE_OF = {name: module for module, names in _LAZY.items() for name in names}
def __getattr__(name):
    if name in _MODULE_OF:
        return getattr(importlib.import_module("." + _MODULE_OF[name], __name__), name)
    raise AttributeError(name)
""",
    "a loop over modules": """
_LAZY = {".part.core": ("Engine", "run", "third")}
def __getattr__(name):
    for module, names in _LAZY.items():
        if name in names:
            return getattr(importlib.import_module(module, __name__), name)
    raise AttributeError(name)
""",
    "a lazy module of a filled structure": """
_import_structure = {"part": []}
try:
    import torch
except ImportError:
    pass
else:
    _import_structure["part.core"] = ["Engine"]
    _import_structure["part.core"].append("run")
if TYPE_CHECKING:
    from .part.core import Engine, run
else:
    import sys
    sys.modules[__name__] = _LazyModule(
        __name__, globals()["__file__"], _import_structure, module_spec=__spec__
    )
""",
    "a factory over a table": """
_LAZY = {"Engine": "pkg.part.core", "run": "pkg.part.core"}
__getattr__, __dir__ = lazy_exports(__name__, _LAZY)
""",
    "attach": """
__getattr__, __dir__, __all__ = lazy.attach(
    __name__, ["part"], {"part.core": ["Engine", "run"]}
)
""",
    "comparisons": """
def __getattr__(name):
    if name == "Engine":
        from .part.core import Engine
        return Engine
    elif name in ("run", "walk"):
        return 1
    else:
        raise AttributeError(name)
""",
    "type checkers are told": """
if TYPE_CHECKING:
    from pkg.part.core import Engine, run
_NAMES = {"Engine", "run"}
def __getattr__(name):
    if name in _NAMES:
        return getattr(importlib.import_module("pkg.part.core"), name)
    raise AttributeError(name)
""",
}

UNSURE_OF_WHAT = {"comparisons"}


@pytest.mark.parametrize("shape", GIVING)
def test_a_table_gives_its_names(index_of: IndexOf, shape: str) -> None:
    index = index_of({**OTHERS, "pkg/__init__.py": GIVING[shape]})
    kinds = [index.find(f"pkg.{name}").kind for name in ("Engine", "run", "Engine.start")]
    if shape in UNSURE_OF_WHAT:
        assert kinds == ["undecided"] * 3
    else:
        assert kinds == ["class", "function", "function"]
        assert str(index.signature("pkg.Engine.start")) == "start(delay)"
        assert index.find("pkg.Engine.stop").kind == "missing"


@pytest.mark.parametrize("shape", GIVING)
def test_a_complete_table_refuses_the_rest(index_of: IndexOf, shape: str) -> None:
    index = index_of({**OTHERS, "pkg/__init__.py": GIVING[shape]})
    assert index.find("pkg.gone").kind == "missing"
    assert index.find("pkg.part.core").kind == "module"
    assert index.find("pkg.part.core.gone").kind == "missing"


TABLE = "T = {'a': 'b'}\n"
GUARD = "def __getattr__(name):\n    if name in T:\n        return 1\n"

OPEN = {
    "no refusal": "def __getattr__(name):\n    return 1\n",
    "falls off the end": TABLE + GUARD,
    "a prefix": "def __getattr__(name):\n    if name.startswith('x'):\n        return 1\n" + REFUSE,
    "another module": "def __getattr__(name):\n    return getattr(other, name)\n",
    "another module's table": (
        "from .part import T\ndef __getattr__(name):\n    if name in T:\n        return 1\n"
        + REFUSE
    ),
    "a computed table": ("T = {n: 'm' for n in make()}\n" + GUARD + REFUSE),
    "a table that functions fill": (
        "T = {'a': 'b'}\ndef register(n):\n    T[n] = 1\n" + GUARD + REFUSE
    ),
    "a table with a computed part": ("T = {'a': 'b'}\nT.update(make())\n" + GUARD + REFUSE),
    "an unknown factory": "__getattr__ = make(__name__)\n",
    "a lazy factory without a table": "__getattr__ = lazy_exports(__name__, other.TABLE)\n",
    "a swallowed error": (
        "T = {'a': 'b'}\ndef __getattr__(name):\n    try:\n        return T[name]\n"
        "    except KeyError:\n        return None\n"
    ),
    "a handler of what a call may raise": (
        "T = {'a': 'b'}\ndef __getattr__(name):\n    try:\n        found = lookup(name)\n"
        "    except LookupError:\n        return None\n" + REFUSE
    ),
    "a handler that passes, beside an else": (
        "T = {'a': 'b'}\ndef __getattr__(name):\n    try:\n        lookup(name)\n"
        "    except KeyError:\n        pass\n    else:\n        raise AttributeError(name)\n"
        "    return name\n"
    ),
    "a handler that looks elsewhere": (
        "T = {'a': 'b'}\ndef __getattr__(name):\n    try:\n        found = lookup(name)\n"
        "    except LookupError:\n        found = T.get(name)\n"
        "    if found is None:\n    " + REFUSE + "    return found\n"
    ),
    "a branch that looks elsewhere": (
        "T = {'a': 'b'}\ndef __getattr__(name):\n    if is_new(name):\n"
        "        found = lookup(name)\n    else:\n        found = T.get(name)\n"
        "    if found is None:\n    " + REFUSE + "    return found\n"
    ),
    "a loop that may not run": (
        "T = {'a': 'b'}\ndef __getattr__(name):\n    found = lookup(name)\n"
        "    for _ in RETRIES:\n        found = T.get(name)\n"
        "    if found is None:\n    " + REFUSE + "    return found\n"
    ),
    "an unknown loop": (
        "def __getattr__(name):\n    for m in MODULES:\n        if hasattr(m, name):\n"
        "            return 1\n" + REFUSE
    ),
}


def test_a_handler_that_refuses_leaves_nothing_open(index_of: IndexOf) -> None:
    hook = (
        "T = {'a': 'b'}\ndef __getattr__(name):\n    try:\n        found = T.get(name)\n"
        "    except TypeError:\n        raise AttributeError(name) from None\n"
        "    if found is None:\n    " + REFUSE + "    return found\n"
    )
    assert index_of({**OTHERS, "pkg/__init__.py": hook}).find("pkg.gone").kind == "missing"


@pytest.mark.parametrize("shape", OPEN)
def test_what_may_give_more_leaves_it_open(index_of: IndexOf, shape: str) -> None:
    index = index_of({**OTHERS, "pkg/__init__.py": OPEN[shape]})
    found = index.find("pkg.gone")
    assert found.kind == "undecided"
    assert "pkg/__init__.py" in found.evidence


def test_keys_that_a_comprehension_makes_are_not_known(index_of: IndexOf) -> None:
    """`areal.workflow` names its classes so, from the targets of its table."""
    source = (
        "from pkg.lazy import lazy_exports\n"
        'TABLE = {"a": "pkg.a:Alpha"}\n'
        'NAMES = {each.partition(":")[2]: each.partition(":")[0] for each in TABLE.values()}\n'
        "__getattr__, _ = lazy_exports(__name__, NAMES)\n"
    )
    assert index_of({"pkg/__init__.py": source}).find("pkg.Alpha").kind == "undecided"
