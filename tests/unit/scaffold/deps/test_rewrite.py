"""Call sites that are rewritten for a new release, and those that are left to a person."""

from __future__ import annotations

from pathlib import Path

import pytest

from scaffold.analysis.files.files import Files
from scaffold.deps.apply import rewrite, rewrite_data, taken_elsewhere
from tests.deps_places import write
from tests.unit.scaffold.deps.test_verdicts import Case, judged

OLD = {
    "pkg/__init__.py": """
        def load(path, mode='r', encoding='utf-8'): ...
        def run(argv, timeout=10, shell=False): ...
        def get_item(key, default=None): ...
        def item_filter(f):
            '''Mark a filter.

            .. deprecated:: 1.0
               Use :func:`pkg.pass_item` instead.
            '''
        class Runner:
            def __init__(self, env: str = '', mix: bool = True): ...
            def start(self, a): ...
        def each(rows): ...
        """,
    "pkg/manager.py": """
        import warnings
        class Manager:
            def __init__(self, prefix=None):
                if prefix:
                    warnings.warn("prefix is deprecated, use Marker", DeprecationWarning)
        """,
    "pkg/hook_caller.py": "class Hook: ...\n",
    "pkg/shapes.py": "class Circle: ...\nclass Square: ...\n",
    "pkg/geometry.py": "",
    "pkg/v1/__init__.py": "",
}
NEW = {
    "pkg/__init__.py": """
        def load(path, *, encoding, mode='r'): ...
        def run(argv, time_out=10): ...
        def get_items(key, default=None): ...
        def pass_item(f): ...
        class Marker: ...
        class Runner:
            def __init__(self, env: str = '', catch: bool = True): ...
            def start_(self, a): ...
        def each(rows, mode): ...
        """,
    "pkg/_manager.py": "class Manager: ...\n",
    "pkg/hookcaller.py": "class Hook: ...\n",
    "pkg/geometry.py": "class Circle: ...\n",
    "pkg/shapes.py": "",
    "pkg/v1/__init__.py": "",
    "pkg/v1/shapes.py": "class Square: ...\n",
}
CASES = {
    "a renamed argument, and one that is gone": (
        "import pkg\npkg.run(\n    [f(timeout=1)],  # why\n    timeout=5,\n    shell=True,\n)\n",
        "import pkg\npkg.run(\n    [f(timeout=1)],  # why\n    time_out=5,\n)\n",
    ),
    "a call behind letters of two bytes": (
        "import pkg\nx = '\u00e9\u4e2d', pkg.run([], timeout=5)\n",
        "import pkg\nx = '\u00e9\u4e2d', pkg.run([], time_out=5)\n",
    ),
    "a new required argument": (
        "import pkg\npkg.load('a')\n",
        "import pkg\npkg.load('a', encoding=YOURS)\n",
    ),
    "a new required argument, on a line of its own": (
        "import pkg\npkg.load(\n    'a'\n)\npkg.load(\n    'a',\n)\npkg.load()\n",
        "import pkg\npkg.load(\n    'a',\n    encoding=YOURS\n)\n"
        "pkg.load(\n    'a',\n    encoding=YOURS,\n)\npkg.load()\n",
    ),
    "a renamed name, and its import": (
        "from pkg import get_item\nget_item('a', default=1)\n",
        "from pkg import get_items\nget_items('a', default=1)\n",
    ),
    "a name that the package sends on with its module": (
        "from pkg import item_filter\n\n\n@item_filter\ndef f(): ...\n",
        "from pkg import pass_item\n\n\n@pass_item\ndef f(): ...\n",
    ),
    "a module that is spelt otherwise": (
        "from pkg.hook_caller import Hook\n",
        "from pkg.hookcaller import Hook\n",
    ),
    "an argument that shares only a common type with a new one": (
        "import pkg\npkg.Runner(mix=False)\n",
        "import pkg\npkg.Runner()\n",
    ),
    "a name that the source hands on": (
        "from pkg import get_item as get_item\n",
        "from pkg import get_items as get_item\n",
    ),
    "a name that a fallback binds, too": (
        "try:\n    from pkg import load, get_item\nexcept AttributeError:\n    get_item = None\n"
        "get_item(1)\n",
        "try:\n    from pkg import load, get_items as get_item\nexcept AttributeError:\n"
        "    get_item = None\nget_item(1)\n",
    ),
    "an attribute": ("import pkg\npkg.get_item(1)\n", "import pkg\npkg.get_items(1)\n"),
    "a target and a keyword of the name": (
        "import pkg\nget_item = pkg.get_item(get_item=1)\n",
        "import pkg\nget_item = pkg.get_items(get_item=1)\n",
    ),
    "a chain over several lines": (
        "from pkg import Runner\nstart = (Runner()\n  .start(1))\n",
        "from pkg import Runner\nstart = (Runner()\n  .start_(1))\n",
    ),
    "letters of two bytes, and a separator that ends no line": (
        "import pkg\nx = '\u00e9\u2028', pkg.get_item(1)\n",
        "import pkg\nx = '\u00e9\u2028', pkg.get_items(1)\n",
    ),
    "two of a name on a line": (
        "import pkg\nx, y = pkg.get_item, pkg.get_item\n",
        "import pkg\nx, y = pkg.get_items, pkg.get_items\n",
    ),
    "a generator": (
        "import pkg\npkg.each(x for x in y)\n",
        "import pkg\npkg.each((x for x in y), mode=YOURS)\n",
    ),
    "a name that is handed on in __all__": (
        "from pkg import get_item\n__all__ = ['get_item']\n",
        "from pkg import get_items as get_item\n__all__ = ['get_item']\n",
    ),
    "a name in a quoted annotation": (
        "from pkg import get_item\ndef f(x: 'list[get_item]'): ...\n",
        "from pkg import get_items as get_item\ndef f(x: 'list[get_item]'): ...\n",
    ),
    "a name in a comment of types": (
        "from pkg import get_item\nx = []  # type: list[get_item]\n",
        "from pkg import get_items as get_item\nx = []  # type: list[get_item]\n",
    ),
    "an import over two lines that moved": (
        "from pkg.shapes import (\n    Circle,\n)\n",
        "from pkg.geometry import (\n    Circle,\n)\n",
    ),
    "an import that moved": (
        "from pkg.shapes import Circle as C\nC()\n",
        "from pkg.geometry import Circle as C\nC()\n",
    ),
}
LEFT = {
    "a class that only warns of one of its arguments": "from pkg.manager import Manager\n",
    "a copy of the older self": "from pkg.shapes import Square\n",
    "an import over two lines that is a copy": "from pkg.shapes import (\n    Square,\n)\n",
    "two names of one import": "from pkg.shapes import Circle, Square\n",
}


def test_a_name_that_another_source_takes_stays_bound(tmp_path: Path) -> None:
    text = "from pkg import get_item\nget_item(1)\n"
    others = {
        "app/__init__.py": "",
        "app/tools.py": text,
        "app/own.py": "from pkg import get_item\n",
        "app/main.py": "from .tools import (\n    other,\n    get_item,\n)\nfrom pkg import own\n",
    }
    files = Files(write(tmp_path, others), list(others), has_git=False)
    assert taken_elsewhere(files, "app/own.py") == set()
    taken = taken_elsewhere(files, "app/tools.py")
    assert taken == {"other", "get_item"}
    others["app/star.py"] = "from app.tools import *\n"
    others["app/test.py"] = "patch('app.own.name')\nimport app.seen as s\n"
    files = Files(write(tmp_path, others), list(others), has_git=False)
    assert taken_elsewhere(files, "app/tools.py") == {"other", "get_item", "*"}
    assert taken_elsewhere(files, "app/own.py") == {"name"}
    assert taken_elsewhere(files, "app/seen.py") == {"*"}
    _, findings = judged(tmp_path / "one", Case(OLD, NEW, "", (), ()), text)
    new, done = rewrite(text, findings, taken)
    assert new == "from pkg import get_items as get_item\nget_item(1)\n"
    assert len(done) == 2
    assert rewrite(text, findings, {"*"})[0] == new


def rewritten(folder: Path, text: str) -> tuple[str, int, int]:
    _, findings = judged(folder, Case(OLD, NEW, "", (), ()), text)
    broken = [each for each in findings if each.level == "breaks"]
    new, done = rewrite(text, broken)
    return new, len(done), len(broken)


@pytest.mark.parametrize("name", CASES)
def test_a_use_is_rewritten_and_fits_the_new_release(tmp_path: Path, name: str) -> None:
    text, expected = CASES[name]
    new, done, broken = rewritten(tmp_path, text)
    assert new == expected
    assert done == broken > 0
    _, again = judged(tmp_path / "again", Case(OLD, NEW, "", (), ()), new)
    assert [each for each in again if each.level == "breaks"] == []


@pytest.mark.parametrize("name", LEFT)
def test_what_is_not_certain_is_left(tmp_path: Path, name: str) -> None:
    new, done, broken = rewritten(tmp_path, LEFT[name])
    assert new == LEFT[name]
    assert done == 0 < broken


def test_a_place_that_only_handed_a_name_on_before_is_where_it_is_now(tmp_path: Path) -> None:
    here = {"pkg/__init__.py": "", "pkg/core.py": "class Config: ...\n"}
    old = {**here, "pkg/legacy.py": "from pkg.core import Config\n"}
    _, findings = judged(tmp_path, Case(old, here, "", (), ()), "from pkg.legacy import Config\n")
    assert (
        rewrite("from pkg.legacy import Config\n", findings)[0] == "from pkg.core import Config\n"
    )


@pytest.mark.parametrize(
    "text",
    [
        "from app import compat\ncompat.get_item(1)\n",
        "from app.compat import get_item\nget_item(1)\n",
    ],
)
def test_what_the_tree_hands_on_keeps_its_name(tmp_path: Path, text: str) -> None:
    tree = {"app/__init__.py": "", "app/compat.py": "from pkg import get_item\n", "use.py": text}
    _, findings = judged(tmp_path, Case(OLD, NEW, "", (), ()), tree)
    own = [each for each in findings if each.use.path == "use.py"]
    assert own
    assert rewrite(text, own) == (text, [])


def test_a_variable_of_the_name_is_not_renamed(tmp_path: Path) -> None:
    text = "import pkg\nget_item = pkg.get_item\nget_item(1)\n"
    _, findings = judged(tmp_path, Case(OLD, NEW, "", (), ()), text)
    assert rewrite(text, findings)[0] == text.replace("pkg.get_item", "pkg.get_items")


# The old release, the new one, and a use that a guess would rewrite.
UNSURE = {
    "a method for many": (
        "class C:\n    def get(self, key): ...\n",
        "class C:\n    def get_many(self, keys): ...\n",
        "from pkg import C\nC().get('a')\n",
    ),
    "a coroutine": (
        "class C:\n    def load(self, path): ...\n",
        "class C:\n    async def load_async(self, path): ...\n",
        "from pkg import C\nC().load('a')\n",
    ),
    "a class that stood beside the decorator": (
        "class Option: ...\ndef option(n): ...\n",
        "class Option: ...\n",
        "import pkg\n@pkg.option('x')\ndef f(): ...\n",
    ),
    "a class with a constant's name": (
        "LEVEL = 3\n",
        "class Level: ...\n",
        "import pkg\nprint(pkg.LEVEL + 1)\n",
    ),
    "a constant of another unit": (
        "TIMEOUT = 5\n",
        "TIMEOUT_MS = 5000\n",
        "import pkg\nprint(pkg.TIMEOUT)\n",
    ),
    "an argument that can be given by name alone now": (
        "def f(url, size=1): ...\n",
        "def f(url, *, batch_size=1): ...\n",
        "import pkg\npkg.f('u', size=3)\n",
    ),
    "a name behind the one that is renamed": (
        "class C:\n    class inner:\n        class Run: ...\n",
        "class C:\n    class Inner:\n        class Run: ...\n",
        "import pkg\npkg.C.inner.Run()\n",
    ),
    "an argument with two heirs": (
        "def f(x, timeout=None): ...\n",
        "def f(x, connect_timeout=None, read_timeout=None): ...\n",
        "import pkg\npkg.f(1, timeout=4)\n",
    ),
    "a class of another place that stood there before": (
        {
            "pkg/__init__.py": "",
            "pkg/legacy.py": "class Config: ...\n",
            "pkg/cli.py": "class Config: ...\n",
        },
        {"pkg/__init__.py": "", "pkg/cli.py": "class Config: ...\n"},
        "from pkg.legacy import Config\n",
    ),
}


@pytest.mark.parametrize("name", UNSURE)
def test_a_guess_is_left_to_a_person(tmp_path: Path, name: str) -> None:
    old, new, text = UNSURE[name]
    _, findings = judged(tmp_path, Case(old, new, "", (), ()), text)
    broken = [each for each in findings if each.level == "breaks"]
    assert broken
    assert rewrite(text, broken) == (text, [])


def test_a_constant_of_the_same_value_is_renamed(tmp_path: Path) -> None:
    text = "import pkg\nprint(pkg.TIMEOUT)\n"
    case = Case("TIMEOUT = 5\n", "TIMEOUT_S = 5\n", "", (), ())
    _, findings = judged(tmp_path, case, text)
    assert rewrite(text, findings)[0] == "import pkg\nprint(pkg.TIMEOUT_S)\n"


@pytest.mark.parametrize(
    "head", [b"# coding: latin-1\nx = '\xe9'\n", b"\xef\xbb\xbfx = 1\r\n"], ids=["coding", "bom"]
)
def test_a_source_keeps_its_encoding(tmp_path: Path, head: bytes) -> None:
    data = head + b"import pkg\npkg.get_item(1)\n"
    _, findings = judged(tmp_path, Case(OLD, NEW, "", (), ()), {"use.py": data})
    assert rewrite_data(data, findings)[0] == data.replace(b"get_item", b"get_items")
