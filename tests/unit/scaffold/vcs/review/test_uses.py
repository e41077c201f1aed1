"""Who uses a definition: through which names it is found, and what is left alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from scaffold.analysis.files.files import list_files
from scaffold.vcs.review.uses import Uses, Watched

FILES = {
    "pkg/__init__.py": "from .core import Engine, run as start\n",
    "pkg/core.py": (
        "class Engine:\n    def step(self):\n        return 1\n\n    def go(self):\n"
        "        return self.step()\n\n\n"
        "def run():\n    return Engine()\n\n\ndef name():\n    ...\n"
    ),
}
RUN, STEP = (
    Watched("pkg/core.py", "run", "pkg/core.py"),
    Watched("pkg/core.py", "Engine.step"),
)
ENGINE = Watched("pkg/core.py", "Engine", "pkg/core.py")

SEEN: dict[str, tuple[Watched, str, tuple[int, str, str]]] = {
    "a re-export under another name": (RUN, "from pkg import start\nstart()\n", (2, "", "call")),
    "an alias": (RUN, "from pkg.core import run as r\n\n\ndef f():\n    r()\n", (5, "f", "call")),
    "a module": (RUN, "import pkg.core as c\nc.run()\n", (2, "", "call")),
    "an import in a function": (
        RUN, "def f():\n    from pkg.core import run\n    run()\n", (3, "f", "call"),
    ),
    "what is handed on": (RUN, "from pkg.core import run\nx = [run]\n", (2, "", "name")),
    "a decorator": (RUN, "import pkg\n\n\n@pkg.start\nclass A:\n    ...\n", (4, "A", "name")),
    "a dotted name in a text": (RUN, 'TABLE = {"a": "pkg.core:run"}\n', (1, "", "name")),
    "an instance": (
        STEP, "from pkg import Engine\n\n\ndef f():\n    e = Engine()\n    e.step()\n",
        (6, "f", "call"),
    ),
    "a parameter with a type": (
        STEP, "from pkg import Engine\n\n\ndef f(e: Engine | None):\n    e.step()\n",
        (5, "f", "call"),
    ),
    "a call of what is made at once": (
        STEP, "from pkg import Engine\nEngine().step()\n", (2, "", "call"),
    ),
    "a subclass": (
        STEP, "from pkg import Engine\n\n\nclass A(Engine):\n    def f(self):\n"
        "        self.step()\n", (6, "A.f", "call"),
    ),
    "what a decorator keeps is no call of it": (
        RUN, "from pkg.core import run\nrun.fn(1)\n", (2, "", "name"),
    ),
    "a module of a package": (RUN, "from pkg import core\ncore.run()\n", (2, "", "call")),
    "a module by its whole name": (RUN, "import pkg.core\npkg.core.run()\n", (2, "", "call")),
    "a module in a function": (
        RUN, "def f():\n    import pkg.core as c\n    c.run()\n", (3, "f", "call"),
    ),
    "a name with a fallback": (
        RUN, "try:\n    from pkg.core import run\nexcept ImportError:\n    run = None\nrun()\n",
        (5, "", "call"),
    ),
    "a base of its own method": (
        STEP, "from pkg import Engine\n\n\nclass A(Engine):\n    def step(self):\n"
        "        super().step()\n", (6, "A.step", "call"),
    ),
    "what one line sets on self": (
        STEP, "from pkg import Engine\n\n\nclass A:\n    def __init__(self):\n"
        "        self.e = Engine()\n\n    def f(self):\n        self.e.step()\n",
        (9, "A.f", "call"),
    ),
    "a variable with a type": (
        STEP, "from pkg import Engine\n\n\ndef f():\n    e: Engine = make()\n    e.step()\n",
        (6, "f", "call"),
    ),
    "an attribute that only it has": (STEP, "def f(e):\n    e.step()\n", (2, "f", "likely")),
}  # fmt: skip
QUIET: dict[str, tuple[Watched, str]] = {
    "a local name": (RUN, "from pkg.core import run\n\n\ndef f(run):\n    run()\n"),
    "a function of its own": (RUN, "def run(): ...\n\n\nrun()\n"),
    "a method of the name": (RUN, "def f(x):\n    x.run()\n"),
    "another package": (RUN, "from subprocess import run\nrun()\n"),
    "an attribute of many": (
        Watched("pkg/core.py", "Engine.go"),
        "def f(x):\n    x.go()\n\n\ndef go(): ...\n",
    ),
    "no call where calls count": (
        ENGINE._replace(calls_only=True),
        "from pkg import Engine\nx = Engine\n",
    ),
    "a word in a text": (RUN, 'x = "run"\n'),
    "a broken file": (RUN, "from pkg.core import run\nrun(\n"),
}


def uses_in(folder: Path, wanted: Watched, text: str) -> list[tuple[int, str, str]]:
    for path, content in {**FILES, "other.py": text}.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(content, encoding="utf-8")
    found, lost = Uses(list_files(folder)).find([wanted])
    assert lost == []
    places = [each for each in found if each.path == "other.py" and each.how != "import"]
    return [(each.line, each.inside, each.how) for each in places]


@pytest.mark.parametrize("name", SEEN)
def test_a_use_is_found(name: str, tmp_path: Path) -> None:
    wanted, text, place = SEEN[name]
    assert uses_in(tmp_path, wanted, text) == [place]


@pytest.mark.parametrize("name", QUIET)
def test_what_means_something_else_is_no_use(name: str, tmp_path: Path) -> None:
    wanted, text = QUIET[name]
    assert uses_in(tmp_path, wanted, text) == []


def test_of_a_common_word_only_files_that_name_where_it_is_are_read(tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    for path, content in FILES.items():
        (tmp_path / path).write_text(content, encoding="utf-8")
    (tmp_path / "top").mkdir()
    (tmp_path / "top/__init__.py").write_text("from pkg.core import run\n", encoding="utf-8")
    for number in range(310):
        (tmp_path / f"m{number}.py").write_text("def run(): ...\n", encoding="utf-8")
    users = {
        "a.py": "from pkg.core import run\nrun()\n",
        "b.py": "from top import run\nrun()\n",
        "c.py": "import top as t\nt.run()\n",
        "d.py": "from pkg import core as c\nc.run()\n",
    }
    for path, content in users.items():
        (tmp_path / path).write_text(content, encoding="utf-8")
    uses = Uses(list_files(tmp_path))
    found, _ = uses.find([RUN])
    assert [(each.path, each.line) for each in found if each.how == "call"] == [
        (path, 2) for path in users
    ]
    assert uses.notes == [
        "'run' is in 317 files: only those that also name core or top were read for it"
    ]


def test_what_is_gone_is_lost_where_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "core.py").write_text("x = 1\n", encoding="utf-8")
    users = {
        "a.py": "from core import gone\ngone()\n",
        "b.py": "import core\ncore.gone()\n",
        "c.py": "import core, pytest\nwith pytest.raises(AttributeError):\n    core.gone()\n",
        "d.py": "try:\n    from core import gone\nexcept ImportError:\n    gone = None\n",
        "e.py": "gone = 1\n",
        "f.py": "import core\nif hasattr(core, 'gone'):\n    core.gone()\n",
        "g.py": "import core\n\n\ndef f():\n    if not hasattr(core, 'gone'):\n"
        "        return\n    core.gone()\n",
        "h.py": "import core\nassert hasattr(core, 'other')\ncore.gone()\n",
    }
    for path, text in users.items():
        (tmp_path / path).write_text(text, encoding="utf-8")
    _, lost = Uses(list_files(tmp_path)).find([Watched("core.py", "gone", "core.py", is_gone=True)])
    assert [(each.path, each.line) for each in lost] == [
        ("a.py", 1), ("b.py", 2), ("h.py", 3),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("other", "is_lost"), [("def stop(self): ...", True), ("def go(self): ...", False)]
)
def test_a_method_of_self_is_lost_where_no_class_has_it(
    other: str, is_lost: bool, tmp_path: Path
) -> None:
    """Whoever takes in a mixin may bring what the mixin calls."""
    text = "class A: ...\n\n\nclass B:\n    def run(self):\n        self.go()\n"
    (tmp_path / "core.py").write_text(text, encoding="utf-8")
    (tmp_path / "view.py").write_text(f"class View:\n    {other}\n", encoding="utf-8")
    gone = [Watched("core.py", f"{name}.go", "core.py", is_gone=True) for name in "AB"]
    _, lost = Uses(list_files(tmp_path)).find(gone)
    assert {(each.path, each.line) for each in lost} == ({("core.py", 6)} if is_lost else set())


@pytest.mark.parametrize(
    ("text", "is_lost"),
    [
        ("def run():\n    return gone(1)\n", True),
        ("def run():\n    return call(gone=gone)\n", True),
        ("from other import gone as here\nhere(gone(1))\n", True),
        ("def run(gone):\n    return gone(1)\n", False),
        ("from other import *\n\n\ndef run():\n    return gone(1)\n", False),
        ("try:\n    gone\nexcept NameError:\n    pass\n", False),
    ],
)
def test_what_is_gone_is_lost_in_its_own_source(text: str, is_lost: bool, tmp_path: Path) -> None:
    (tmp_path / "core.py").write_text(text, encoding="utf-8")
    _, lost = Uses(list_files(tmp_path)).find([Watched("core.py", "gone", "core.py", is_gone=True)])
    assert [(each.path, each.line) for each in lost] == [("core.py", 2)] * is_lost


@pytest.mark.parametrize(
    ("line", "is_lost"),
    [
        ('mock.patch("core.gone")', True),
        ('monkeypatch.setattr("core.gone", 1)', True),
        ('monkeypatch.setattr("core.gone", 1, raising=False)', False),
        ('mock.patch("core.gone", create=True)', False),
        ('logging.getLogger("core.gone")', False),
        ('MOVED = {"core.gone": "core.x"}', False),
        ('raise RuntimeError("core.gone")', False),
    ],
)
def test_a_text_is_lost_only_where_it_is_looked_up(
    line: str, is_lost: bool, tmp_path: Path
) -> None:
    (tmp_path / "core.py").write_text("x = 1\n", encoding="utf-8")
    (tmp_path / "user.py").write_text(f"{line}\n", encoding="utf-8")
    _, lost = Uses(list_files(tmp_path)).find([Watched("core.py", "gone", "core.py", is_gone=True)])
    assert [each.path for each in lost] == ["user.py"] * is_lost


@pytest.mark.parametrize(
    ("code", "is_expected"),
    [
        ("with pytest.raises(TypeError):\n    core.run(1)", True),
        ("with pytest.raises((ValueError, TypeError)):\n    core.run(1)", True),
        ("with pytest.raises(ValueError):\n    core.run(1)", False),
        ("self.assertRaises(TypeError, lambda: core.run(1))", True),
        ("with self.assertRaisesRegex(TypeError, 'x'):\n    core.run(1)", True),
        ("try:\n    core.run(1)\nexcept TypeError:\n    pass", True),
        ("try:\n    core.run(1)\nexcept Exception:\n    pass", False),
        ("try:\n    pass\nexcept TypeError:\n    core.run(1)", False),
        ("core.run = max\ncore.run(1)", True),
        ("monkeypatch.setattr(core, 'run', max)\ncore.run(1)", True),
        ("monkeypatch.setattr('core.run', max)\ncore.run(1)", True),
        ("with mock.patch.object(core, 'run'):\n    core.run(1)", True),
        ("core.other = max\ncore.run(1)", False),
        ("core.run(1)  # pyright: ignore[reportCallIssue]", True),
        ("core.run(\n    1,  # type: ignore[arg-type, call-arg]\n)", True),
        ("core.run(1)  # type: ignore[no-untyped-call]", False),
    ],
)
def test_a_call_that_may_fail_or_was_replaced_is_expected(
    code: str, is_expected: bool, tmp_path: Path
) -> None:
    (tmp_path / "core.py").write_text("def run(x, y): ...\n", encoding="utf-8")
    (tmp_path / "user.py").write_text(f"import core\n{code}\n", encoding="utf-8")
    found, _ = Uses(list_files(tmp_path)).find([Watched("core.py", "run", "core.py")])
    assert [each.is_expected for each in found if each.how == "call"] == [is_expected]


def test_who_imports_a_module_is_known_by_the_whole_name(tmp_path: Path) -> None:
    """In browser-use, 283 files import some `service`, `views` or `utils`."""
    files = {
        "pkg/__init__.py": "",
        "pkg/a/__init__.py": "",
        "pkg/a/views.py": "class View: ...\n",
        "pkg/a/near.py": "from .views import View\n",
        "pkg/a/folder.py": "from . import views\n",
        "pkg/b/__init__.py": "",
        "pkg/b/views.py": "class Other: ...\n",
        "pkg/b/own.py": "from .views import Other\n",
        "pkg/b/far.py": "def f():\n    import pkg.a.views as v\n",
        "tests/test_b.py": "from pkg.b.views import Other\n# of pkg.a.views\n",
        "pkg/b/moved.py": "from pkg.a.gone import x\n",
    }
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    uses = Uses(list_files(tmp_path))
    assert sorted(uses.importers(["pkg/a/views.py"])) == [
        "pkg/a/folder.py", "pkg/a/near.py", "pkg/b/far.py",
    ]  # fmt: skip
    assert list(uses.importers(["pkg/a/gone.py"])) == ["pkg/b/moved.py"]
    assert list(uses.importers(["README.md"])) == []


def test_importers_of_a_package_that_offers_a_module_are_found(tmp_path: Path) -> None:
    files = {
        "pkg/__init__.py": "from .core import Engine\n",
        "pkg/core.py": "class Engine: ...\n",
        "pkg/near.py": "from . import Engine\n",
        "pkg/other.py": "x = 1\n",
        "all/__init__.py": "from pkg import *\n",
        "run.py": "import pkg\npkg.Engine()\n",
        "top.py": "from all import Engine\n",
        "apart.py": "import pkg.other\n",
    }
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    found = Uses(list_files(tmp_path)).importers(["pkg/core.py"])
    assert list(found) == [
        "pkg/__init__.py", "all/__init__.py", "pkg/near.py", "run.py", "top.py",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text", ["    run = partial(run, 1)\n", "    def run(): ...\n", "    class run: ...\n"]
)
def test_a_name_that_its_own_block_binds_anew_is_another(tmp_path: Path, text: str) -> None:
    source = (
        f"from functools import partial\ndef f():\n    from pkg.core import run\n{text}    run()\n"
    )
    for path, content in {**FILES, "use.py": source}.items():
        place = tmp_path / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(content)
    uses, _ = Uses(list_files(tmp_path)).find([RUN], "use.py".__eq__)
    assert [each.line for each in uses if each.how == "call"] == []
