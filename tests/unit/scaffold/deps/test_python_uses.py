"""What an expression names of a package: through scopes, classes, variables and guards."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from scaffold.analysis.files.files import Files
from scaffold.deps.python_uses import uses_in
from scaffold.deps.source_code import Tree
from tests.deps_places import write


def names(folder: Path, files: Mapping[str, str], path: str = "a.py") -> list[tuple[str, str, str]]:
    """Returns kind, name and guard of each use in one source of a tree.

    Imports are left out, and attributes of what does not show.
    """
    write(folder, files)
    tree = Tree(Files(folder, list(files), has_git=False), ["pkg"])
    code = tree.code(path)
    assert code is not None
    return [
        (each.kind, each.name, each.guard.text)
        for each in uses_in(code, tree)
        if each.kind != "import" and not (each.kind == "attribute" and each.node)
    ]


CASES = {
    "a class that a type variable bounds": (
        "from typing import Type, TypeVar\nfrom pkg import C\nT = TypeVar('T', bound=C)\n"
        "def f(a: Type[T], b: T, c: type[C]):\n    a.make()\n    b.x()\n    c.make()\n",
        [
            ("reference", "pkg.C", ""),
            *[("reference", "pkg.C", "")] * 3,
            ("call", "pkg.C.make", ""),
            ("call", "pkg.C().x", ""),
            ("call", "pkg.C.make", ""),
        ],
    ),
    "an __init__ that type checkers alone see": (
        "from pkg import C\nclass D(C):\n    if TYPE_CHECKING:\n        def __init__(self): ...\n"
        "D(1)\n",
        [("subclass", "pkg.C", ""), ("call", "pkg.C", "")],
    ),
    "a parameter shadows the module": ("import pkg\ndef f(pkg):\n    pkg.x()\n", []),
    "a loop variable shadows it": ("import pkg\n[pkg.x for pkg in rows]\n", []),
    "an import in a function is the function's": (
        "def f():\n    import pkg\n    pkg.x()\ndef g():\n    pkg.y()\n",
        [("call", "pkg.x", "")],
    ),
    "an alias": ("import pkg.sub as s\ns.x\n", [("reference", "pkg.sub.x", "")]),
    "a variable holds an instance": (
        "from pkg import C\nc = C(1)\nc.run().stop\n",
        [
            ("call", "pkg.C", ""),
            ("call", "pkg.C().run", ""),
            ("reference", "pkg.C().run().stop", ""),
        ],
    ),
    "a variable that is set from itself ends": (
        "from pkg import C\nc = C()\nc = c.next()\nc.run()\n",
        [("call", "pkg.C", "")],
    ),
    "an optional annotation": (
        "from typing import Optional\nfrom pkg import C\n"
        "def f(a: Optional[C], b: 'C | None'):\n    a.x()\n    b.y()\n",
        [
            ("reference", "pkg.C", ""),
            ("reference", "pkg.C", ""),
            ("call", "pkg.C().x", ""),
            ("call", "pkg.C().y", ""),
        ],
    ),
    "a union with what is not the package's": (
        "from typing import Union\nfrom pkg import C\n"
        "def f(a: C | str, b: Union[str, C, None], c: C | int | None):\n"
        "    a.x()\n    b.y()\n    c.z()\n",
        [
            ("reference", "pkg.C", ""),
            ("reference", "pkg.C", ""),
            ("reference", "pkg.C", ""),
            ("call", "pkg.C().x", ""),
            ("call", "pkg.C().y", ""),
            ("call", "pkg.C().z", ""),
        ],
    ),
    "what a subclass brings is its own": (
        "from pkg import C\nclass D(C):\n    def mine(self):\n        self.mine()\n"
        "        self.theirs()\n        self.held = 1\n        self.held\n",
        [("subclass", "pkg.C", ""), ("override", "pkg.C.mine", ""), ("call", "pkg.C().theirs", "")],
    ),
    "self of another class": ("import pkg\nclass D:\n    def f(self):\n        self.x()\n", []),
    "what is kept on self": (
        "from pkg import C\nclass T:\n    def a(self):\n        self.c = C()\n"
        "    def b(self):\n        self.c.x()\n",
        [("call", "pkg.C", ""), ("call", "pkg.C().x", "")],
    ),
    "a guard": (
        "import pkg\nif hasattr(pkg, 'x'):\n    pkg.x()\n",
        [
            ("reference", "pkg.x", "if hasattr(pkg, 'x')"),
            ("call", "pkg.x", "if hasattr(pkg, 'x')"),
        ],
    ),
    "a guarded import guards its uses": (
        "try:\n    from pkg import x\nexcept ImportError:\n    x = None\nx()\n",
        [("call", "pkg.x", "except ImportError")],
    ),
    "a question of Python's version is no guard": (
        "import sys, pkg\nif sys.version_info > (3, 8):\n    pkg.x()\n",
        [("call", "pkg.x", "")],
    ),
    "an exception": (
        "import pkg\ntry:\n    f()\nexcept pkg.Oops as error:\n    error.code\n",
        [("reference", "pkg.Oops", ""), ("reference", "pkg.Oops().code", "")],
    ),
    "a docstring is not a name": (
        '"""pkg.x"""\nimport pkg\n"say pkg.x"\n',
        [("string", "pkg.x", "")],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_names(tmp_path: Path, case: str) -> None:
    source, expected = CASES[case]
    assert sorted(names(tmp_path, {"a.py": source})) == sorted(expected)


def test_a_class_of_another_source_leads_to_the_package(tmp_path: Path) -> None:
    files = {
        "app/__init__.py": "from .base import Model\n",
        "app/base.py": "from pkg import C\nclass Model(C):\n    def mine(self): ...\n",
        "app/user.py": (
            "from app import Model\nfrom . import base\nModel().theirs()\nModel().mine()\n"
            "base.Model.make()\n"
        ),
    }
    assert sorted(names(tmp_path, files, "app/user.py")) == [
        ("call", "pkg.C", ""),
        ("call", "pkg.C", ""),
        ("call", "pkg.C().theirs", ""),
        ("call", "pkg.C.make", ""),
    ]


def test_a_name_is_told_from_those_of_the_comprehensions_before_it(tmp_path: Path) -> None:
    """What a name stands for is kept by its bindings, whose places in memory were used again."""
    rows = "".join(
        f"def f{number}(model: pkg.Model):\n    [each for each in model.rows]\n    model.name\n"
        for number in range(200)
    )
    (tmp_path / "a.py").write_text(f"import pkg\n{rows}", encoding="utf-8")
    tree = Tree(Files(tmp_path, ["a.py"], has_git=False), ["pkg"])
    code = tree.code("a.py")
    assert code is not None
    found = [use.name for use in uses_in(code, tree)]
    assert found.count("pkg.Model().name") == found.count("pkg.Model().rows") == 200
