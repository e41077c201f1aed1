"""Every verdict of an audit: two small releases and a use that earns it, and uses that do not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from scaffold.analysis.files.files import Files
from scaffold.deps.audit import judge_tree, meanings
from scaffold.deps.import_names import Names
from scaffold.deps.python_uses import uses_in
from scaffold.deps.release import Release
from scaffold.deps.source_code import Tree
from scaffold.deps.use import LEVELS, VERDICTS, Judgement, Use
from tests.deps_places import write

Sources = str | Mapping[str, str]
"""The text of `pkg/__init__.py` or `use.py`, or files by path."""


@dataclass(frozen=True)
class Case:
    """Is a change between two releases, the use that it breaks, and uses that it leaves alone.

    Args:
        old: The old release.
        new: The new one.
        use: A source of the tree.
        said: The names that the verdict falls on, each with its level and the likely name.
        silent: Sources that use the package too, and get no verdict at all.
    """

    old: Sources
    new: Sources
    use: Sources
    said: tuple[tuple[str, str, str], ...]
    silent: tuple[Sources, ...]


CASES: dict[str, Case] = {
    "removed": Case(
        "def gone(a): ...\ndef kept(a): ...\n",
        "def kept(a): ...\n",
        "import pkg\npkg.gone(1)\n",
        (("pkg.gone", "breaks", ""),),
        ("import pkg\npkg.kept(1)\n", "import pkg\ndef gone(a): ...\ngone(1)\npkg.kept(1)\n"),
    ),
    "moved": Case(
        {"pkg/__init__.py": "class Thing: ...\n", "pkg/things.py": ""},
        {"pkg/__init__.py": "", "pkg/things.py": "class Thing: ...\n"},
        "import pkg\npkg.Thing()\n",
        (("pkg.Thing", "breaks", "pkg.things.Thing"),),
        ("try:\n    from pkg.things import Thing\nexcept ImportError:\n    pass\n",),
    ),
    "renamed": Case(
        "def old_name(a):\n    '''Deprecated: use `new_name` instead.'''\n",
        "def new_name(a): ...\n",
        "import pkg\npkg.old_name(1)\n",
        (("pkg.old_name", "breaks", "new_name"),),
        ("import pkg\npkg.new_name(1)\n", "import pkg\nhasattr(pkg, 'new_name')\n"),
    ),
    "kind-changed": Case(
        "class C:\n    def size(self): ...\n    def area(self): ...\n",
        "class C:\n    @property\n    def size(self): ...\n    def area(self): self.mine = 1\n",
        "from pkg import C\nC().size()\n",
        (("pkg.C().size", "breaks", ""),),
        ("from pkg import C\nC().size\n", "from pkg import C\nC().area()\n"),
    ),
    "parameter-removed": Case(
        "def f(a, strict=False, loud=False): ...\n",
        "def f(a, loud=False): ...\n",
        "import pkg\npkg.f(1, strict=True)\n",
        (("pkg.f", "breaks", ""),),
        ("import pkg\npkg.f(1)\n", "import pkg\npkg.f(a=1, loud=True)\n"),
    ),
    "parameter-renamed": Case(
        "def f(a, timeout=1): ...\n",
        "def f(a, time_out=1): ...\n",
        "import pkg\npkg.f(1, timeout=2)\n",
        (("pkg.f", "breaks", "time_out"),),
        ("import pkg\npkg.f(1, 2)\n", "import pkg\npkg.f(1)\n"),
    ),
    "parameter-required": Case(
        "def f(a, mode='r'): ...\n",
        "def f(a, mode): ...\n",
        "import pkg\npkg.f(1)\n",
        (("pkg.f", "breaks", ""),),
        (
            "import pkg\npkg.f(1, 'r')\n",
            "import pkg\npkg.f(1, mode='r')\n",
            "import pkg\npkg.f(1, **{'mode': 'r'})\n",
        ),
    ),
    "too-many-arguments": Case(
        "def f(a, b=0, c=0): ...\n",
        "def f(a, *, b=0, c=0): ...\n",
        "import pkg\npkg.f(1, 2)\n",
        (("pkg.f", "breaks", ""),),
        ("import pkg\npkg.f(1, b=2)\n", "import pkg\npkg.f(1)\n"),
    ),
    "reordered": Case(
        "def f(a, first, second=2): ...\n",
        "def f(a, second=2, first=None): ...\n",
        "import pkg\npkg.f(1, 2)\n",
        (("pkg.f", "breaks", "first"),),
        ("import pkg\npkg.f(1, first=2)\n", "import pkg\npkg.f(1, first=2, second=3)\n"),
    ),
    "keyword-refused": Case(
        "def f(a, **more): ...\n",
        """
        def f(a, **more):
            quiet = more.pop("quiet", None)
            if quiet is not None:
                raise TypeError("`quiet` is removed, use `verbose` instead")
        """,
        "import pkg\npkg.f(1, quiet=True)\n",
        (("pkg.f", "breaks", "verbose"),),
        ("import pkg\npkg.f(1, loud=True)\n", "import pkg\npkg.f(1)\n"),
    ),
    "keyword-unread": Case(
        "def f(a, *, colour=None, size=1, **more): return more\n",
        "def f(a, *, size=1, **more): return None\n",
        "import pkg\npkg.f(1, colour='red')\n",
        (("pkg.f", "breaks", ""),),
        ("import pkg\npkg.f(1, size=2)\n", "import pkg\npkg.f(1)\n"),
    ),
    "absence-hidden": Case(
        {
            "pkg/__init__.py": "def gone(): ...\n",
            "pkg/configs.py": """
                class Base: ...
                class Config(Base):
                    def __init__(self):
                        self.theta = 1
                        self.size = 2
                        self.call()
                """,
        },
        {
            "pkg/__init__.py": "",
            "pkg/configs.py": """
                class Base:
                    size: int = 2
                class Config(Base): ...
                """,
        },
        """
        import pkg
        def f(config):
            return getattr(config, "theta", 10_000)
        getattr(pkg, "gone", None)
        """,
        (("theta", "check", ""), ("pkg.gone", "check", "")),
        (
            "import pkg.configs\ndef f(config):\n    getattr(config, 'size', 1)\n",
            "import pkg.configs\ndef f(config):\n    getattr(config, 'other', 1)\n",
            "import pkg.configs\ndef f(config):\n    getattr(config, 'call', 1)\n",
            "import pkg.configs\nclass A:\n    def f(self):\n        getattr(self, 'theta', 1)\n",
        ),
    ),
    "default-changed": Case(
        "def f(a, mode='r', kind=None): ...\n",
        "def f(a, mode='rb', kind=()): ...\n",
        "import pkg\npkg.f(1)\n",
        (("pkg.f", "check", ""),),
        ("import pkg\npkg.f(1, 'r')\n", "import pkg\npkg.f(1, mode='rb')\n"),
    ),
    "override-gone": Case(
        "class C:\n    def setup(self): ...\n    def close(self): ...\n",
        "class C:\n    def close(self): ...\n",
        "from pkg import C\nclass Mine(C):\n    def setup(self): ...\n",
        (("pkg.C.setup", "breaks", ""),),
        (
            "from pkg import C\nclass Mine(C):\n    def close(self): ...\n",
            "from pkg import C\nclass Mine(C):\n    def mine(self): ...\n",
            "from pkg import C\nclass Mine(C):\n    def __len__(self): ...\n",
        ),
    ),
    "override-signature": Case(
        "class C:\n    def setup(self, path): ...\n",
        "class C:\n    def setup(self, path, mode): ...\n",
        "from pkg import C\nclass Mine(C):\n    def setup(self, path): ...\n",
        (("pkg.C.setup", "breaks", "mode"),),
        (
            "from pkg import C\nclass Mine(C):\n    def setup(self, path, mode): ...\n",
            "from pkg import C\nclass Mine(C):\n    def setup(self, *args): ...\n",
            "from pkg import C\nclass Mine(C):\n    def setup(self, path, **more): ...\n",
        ),
    ),
    "abstract-added": Case(
        "import abc\nclass C(abc.ABC):\n    def run(self): ...\n",
        "import abc\nclass C(abc.ABC):\n    @abc.abstractmethod\n    def run(self): ...\n",
        "from pkg import C\nclass Mine(C): ...\n",
        (("pkg.C", "breaks", ""),),
        ("from pkg import C\nclass Mine(C):\n    def run(self): ...\n",),
    ),
    "deprecated": Case(
        "def make(a): ...\ndef kept(a):\n    '''Deprecated: no more.'''\n",
        "def make(a):\n    '''Deprecated: use `build`.'''\n"
        "def kept(a):\n    '''Deprecated: no more.'''\n",
        "import pkg\npkg.make(1)\n",
        (("pkg.make", "deprecated", "build"),),
        ("import pkg\npkg.kept(1)\n",),
    ),
    "parameter-deprecated": Case(
        "def f(a, loud=None): ...\n",
        """
        import warnings
        def f(a, loud=None):
            if loud is not None:
                warnings.warn("`loud` is deprecated, use `level`", DeprecationWarning)
        """,
        "import pkg\npkg.f(1, loud=True)\n",
        (("pkg.f", "deprecated", "level"),),
        ("import pkg\npkg.f(1)\n", "import pkg\npkg.f(a=1)\n"),
    ),
    "unclear": Case(
        "def f(a): ...\ndef g(a): ...\n",
        "from elsewhere import table\nglobals().update(table)\ndef g(a): ...\nNAMES = ['f']\n",
        "import pkg\npkg.f(1)\n",
        (("pkg.f", "check", ""),),
        ("import pkg\npkg.g(1)\n", "import pkg\nhasattr(pkg, 'g')\n"),
    ),
    "undecided": Case(
        "def f(a): ...\ndef g(a): ...\n",
        "from elsewhere import wrap\n@wrap\ndef f(a): ...\ndef g(a): ...\n",
        "import pkg\npkg.f(1)\n",
        (("pkg.f", "undecided", ""),),
        ("import pkg\npkg.g(1)\n", "from pkg import f\n"),
    ),
}


STORE = """
    class Client:
        def __getitem__(self, name):
            return Base(self)
    class Base:
        def __getitem__(self, name):
            return Rows(self)
        def ensure_index(self, key): ...
        def update(self, row): ...
    class Rows:
        def __getattr__(self, name): ...
        def find(self): ...
        def insert(self, row): ...
    """
CHANNEL = """
    from pkg import Client
    class Channel:
        def _open(self):
            base = Client()["a"]
            return base
        @property
        def client(self):
            return self._open()
        @cached_property
        def rows(self):
            return self.client["rows"]
        def put(self):
            self.rows.find()
            self.rows.insert(1)
    """
MIGRATIONS = {
    "a method that is a coroutine now, as of fastmcp 3": Case(
        "class C:\n    def get(self): ...\n    def rows(self): ...\n"
        "    def soon(self) -> Future: ...\n",
        "class C:\n    async def get(self): ...\n    async def rows(self):\n        yield 1\n"
        "    async def soon(self): ...\n",
        "from pkg import C\ndef f(c: C):\n    c.get()\n",
        (("pkg.C().get", "breaks", ""),),
        (
            "from pkg import C\nasync def f(c: C):\n    await c.get()\n",
            "from pkg import C\nasync def f(c: C):\n    async for x in c.rows(): ...\n",
            "from pkg import C\ndef f(c: C):\n    run(c.soon())\n",
        ),
    ),
    "a coroutine that something else may await": Case(
        "class C:\n    def get(self): ...\n",
        "class C:\n    async def get(self): ...\n",
        "from pkg import C\nasync def f(c: C):\n    run(c.get())\n    t = c.get()\n    await t\n"
        "    [c.get() for x in 'ab']\n    c.get().rows\n",
        (
            ("pkg.C().get", "breaks", ""),
            ("pkg.C().get", "check", ""),
            ("pkg.C().get", "check", ""),
            ("pkg.C().get", "check", ""),
        ),
        (),
    ),
    "a star, of which a name is gone": Case(
        "def gone(): ...\ndef kept(): ...\n",
        "def kept(): ...\n",
        "from pkg import *\ngone()\n",
        (("pkg", "check", ""),),
        (),
    ),
    "a star": Case(
        "def kept(): ...\n",
        "def kept(a): ...\n",
        "from pkg import *\nkept()\n",
        (("pkg", "undecided", ""),),
        (),
    ),
    "a class of which a method warns": Case(
        "class Model:\n    def b(self): ...\n",
        "class Model:\n    def b(self):\n        "
        "warn('b() of the class `Model` is deprecated', DeprecationWarning)\n",
        "",
        (),
        ("from pkg import Model\nModel()\n",),
    ),
    "elements, and what the tree's own members give, as of pymongo 4": Case(
        STORE,
        STORE.replace("def insert", "def insert_one").replace(
            "class Client:\n        def __getitem__(self, name):",
            "class Client:\n        def __getitem__(self, name) -> 'Base[int]':",
        ),
        CHANNEL,
        (("pkg.Client()[][].insert", "breaks", "insert_one"),),
        (CHANNEL.replace("insert", "find"), CHANNEL.replace("return base", "return other(base)")),
    ),
    "a method that no class has any more, of what does not show": Case(
        STORE,
        STORE.replace("def ensure_index", "def create_index").replace("def update", "def change"),
        "import pkg\ndef f(base):\n    base.ensure_index('a')\n    {}.update(a=1)\n",
        (("ensure_index", "check", ""),),
        (
            "def f(base):\n    base.ensure_index('a')\n",
            "import pkg\nclass Own:\n    def ensure_index(self, key): ...\n"
            "def f(base):\n    base.ensure_index('a')\n",
            "import pkg\ndef f(base):\n    base.update(a=1)\n",
        ),
    ),
    "a method whose new name was an attribute's, as of click 8": Case(
        "class C:\n    def __init__(self):\n        self.result_callback = None\n"
        "    def resultcallback(self, replace=False): ...\n",
        "class C:\n    def result_callback(self, replace=False): ...\n",
        "from pkg import C\nC().resultcallback()\n",
        (("pkg.C().resultcallback", "breaks", "result_callback"),),
        (),
    ),
    "a deprecation of a part, as attrs and fastmcp write them": Case(
        "def f(a, old=1): ...\ndef g(a): ...\ndef h(a): ...\n",
        "def f(a, old=1):\n    '''Do.\n\n    .. versionadded:: 1.1 *a*\n"
        "    .. deprecated:: 1.2 *old* is deprecated in favor of *a*.\n    '''\n"
        "def g(a):\n    '''Do.\n\n    .. deprecated:: 1.3\n       Comparing them warns.\n"
        "    .. versionchanged:: 1.10 It compares again.\n    '''\n"
        "def h(a):\n    '''Do.\n\n    Args:\n        a: What it is.\n"
        "            Deprecated: Use `b` instead.\n    '''\n",
        "",
        (),
        ("from pkg import f, g, h\nf(1)\ng(1)\nh(1)\n",),
    ),
    "a deprecation beside an earlier change": Case(
        "def f(a): ...\n",
        "def f(a):\n    '''Do.\n\n    .. deprecated:: 2.0\n       Use `good` instead.\n\n"
        "    .. versionchanged:: 1.9 It is faster.\n    '''\n",
        "from pkg import f\n",
        (("pkg.f", "deprecated", "good"),),
        (),
    ),
}


@pytest.mark.parametrize("name", MIGRATIONS)
def test_what_real_migrations_met_is_told_and_no_more(tmp_path: Path, name: str) -> None:
    case = MIGRATIONS[name]
    _, findings = judged(tmp_path, case, case.use)
    assert tuple((each.use.name, each.level, each.likely) for each in findings) == case.said
    for number, source in enumerate(case.silent):
        assert judged(tmp_path / str(number), case, source)[1] == []


def judged(
    folder: Path, case: Case, use: str | Mapping[str, str | bytes]
) -> tuple[list[Use], list[Judgement]]:
    """Returns the uses in a tree, and what there is to say of them."""
    releases = [
        Release(version, write(folder / version, _files(files, "pkg/__init__.py")))
        for version, files in (("1.0", case.old), ("2.0", case.new))
    ]
    tree = _files(use, "use.py")
    files = Files(write(folder / "tree", tree), list(tree), has_git=False)
    names = Names("pkg", ("pkg",), "the test")
    found = judge_tree(files, names, *releases)
    assert found.unread == []
    return found.uses, found.findings


def _files(sources: str | Mapping[str, str | bytes], path: str) -> dict[str, str | bytes]:
    return {path: sources} if isinstance(sources, str) else dict(sources)


@pytest.mark.parametrize("verdict", CASES)
def test_a_use_gets_its_verdict_and_no_other(tmp_path: Path, verdict: str) -> None:
    case = CASES[verdict]
    _, findings = judged(tmp_path, case, case.use)
    found = [(each.verdict, each.use.name, each.level, each.likely) for each in findings]
    assert found == [(verdict, *row) for row in case.said]
    assert all(each.why for each in findings)


@pytest.mark.parametrize(
    ("verdict", "number"),
    [(verdict, number) for verdict, case in CASES.items() for number in range(len(case.silent))],
)
def test_a_near_miss_is_left_alone(tmp_path: Path, verdict: str, number: int) -> None:
    case = CASES[verdict]
    uses, findings = judged(tmp_path, case, case.silent[number])
    assert uses, "silence about a tree that does not use the package says nothing"
    assert findings == []


@pytest.mark.parametrize("verdict", CASES)
def test_the_same_release_twice_changes_nothing(tmp_path: Path, verdict: str) -> None:
    case = CASES[verdict]
    same = Case(case.old, case.old, case.use, (), ())
    uses, findings = judged(tmp_path, same, case.use)
    assert uses
    assert findings == []


def test_the_table_has_every_verdict_and_each_level() -> None:
    assert CASES.keys() == VERDICTS.keys()
    assert all(case.silent and case.said for case in CASES.values())
    levels = {level for case in CASES.values() for _, level, _ in case.said}
    assert levels == LEVELS.keys() - {"guarded"}


@pytest.mark.parametrize(
    ("new", "said"),
    [
        ({"pkgs/__init__.py": "class Thing: ...\n"}, ("moved", "pkgs.Thing")),
        ({"other.py": ""}, ("removed", "")),
        ({}, ("removed", "")),
    ],
)
def test_a_top_module_that_is_gone_takes_its_names_along(
    tmp_path: Path, new: dict[str, str], said: tuple[str, str]
) -> None:
    case = Case("class Thing: ...\n", new, "", (), ())
    _, findings = judged(tmp_path, case, "import pkg\npkg.Thing()\n")
    found = [(each.use.name, each.verdict, each.likely) for each in findings]
    assert found == [("pkg", "removed", ""), ("pkg.Thing", *said)]


@pytest.mark.parametrize(
    ("old", "new", "asked", "levels"),
    [
        ("", " -> str", "decode('utf-8')", ["breaks"]),
        ("", " -> str", "encode()", []),
        (" -> bytes", " -> str", "decode()", ["breaks"]),
        (" -> str", " -> str", "decode()", []),
        ("", " -> bytes", "decode()", []),
    ],
)
def test_what_a_call_gives_may_lack_what_is_asked_of_it(
    tmp_path: Path, old: str, new: str, asked: str, levels: list[str]
) -> None:
    """PyJWT 2 gives text where 1.7 gave bytes."""
    case = Case(f"def make(a){old}: ...\n", f"def make(a){new}: ...\n", "", (), ())
    _, findings = judged(tmp_path, case, f"import pkg\npkg.make(1).{asked}\n")
    assert [each.level for each in findings if each.level != "undecided"] == levels


STUBS = """
    class Gone(Exception): ...
    class Stub:
        def __init__(self, name):
            self.name = name
        def __call__(self, *args):
            raise Gone("it is gone, see the guide")
    NAMES = ["Old", "Older"]
    here = locals()
    for name in NAMES:
        here[name] = Stub(name)
    class Kept: ...
    """


@pytest.mark.parametrize("name", ["Old", "Older", "Kept", "module"])
def test_a_stub_that_a_loop_leaves_behind_is_no_name(tmp_path: Path, name: str) -> None:
    """openai 1.0 keeps the classes of 0.28 in this way, and drops the module `error`."""
    old = {"pkg/__init__.py": "class Old: ...\nclass Older: ...\nclass Kept: ...\n"}
    case = Case({**old, "pkg/module.py": ""}, {"pkg/__init__.py": STUBS}, "", (), ())
    _, findings = judged(tmp_path, case, f"import pkg.{name}\n" if name == "module" else
                         f"import pkg\npkg.{name}()\n")  # fmt: skip
    expected = [] if name == "Kept" else [("removed", "breaks")]
    assert [(each.verdict, each.level) for each in findings] == expected
    if name.startswith("Old"):
        assert "it is gone, see the guide" in findings[0].why


def test_a_name_that_is_taken_from_another_package_now_is_there(tmp_path: Path) -> None:
    case = Case("class Thing: ...\n", "from others import Thing\n", "", (), ())
    assert judged(tmp_path, case, "import pkg\npkg.Thing\n")[1] == []


def test_a_method_called_without_its_instance_fits_neither_release(tmp_path: Path) -> None:
    case = Case(
        "class Thing:\n    def run(self, a, b=1): ...\n",
        "class Thing:\n    def run(self, a, b=1, *, c): ...\n",
        "",
        (),
        (),
    )
    _, findings = judged(tmp_path, case, "import pkg\npkg.Thing.run(b=1)\n")
    assert [each.verdict for each in findings] == ["undecided"]


@pytest.mark.parametrize(
    ("new", "call", "verdict", "says"),
    [
        ("def f(a, mode): ...\n", "f(*rows)", "parameter-required", "*rows may lack it"),
        ("def f(a, mode): ...\n", "f(1, **options)", "parameter-required", "**options may lack"),
        ("def f(a, mode='w'): ...\n", "f(1, **options)", "default-changed", "'r' and is 'w'"),
        ("def f(a): ...\n", "f(1, **options)", "parameter-removed", "what **options holds"),
    ],
)
def test_what_a_call_spreads_may_meet_a_change(
    tmp_path: Path, new: str, call: str, verdict: str, says: str
) -> None:
    """Flask 1.1 hands **kwargs to click's CliRunner, which lost mix_stderr in 8.2."""
    case = Case("def f(a, mode='r'): ...\n", new, "", (), ())
    _, findings = judged(tmp_path, case, f"import pkg\npkg.{call}\n")
    assert [(each.verdict, each.level) for each in findings] == [(verdict, "check")]
    assert says in findings[0].why


def test_what_a_call_spreads_meets_nothing_where_nothing_changed(tmp_path: Path) -> None:
    case = Case("def f(a, mode='r'): ...\n", "def f(a, mode='r', new=1): ...\n", "", (), ())
    assert judged(tmp_path, case, "import pkg\npkg.f(1, **options)\npkg.f(*rows)\n")[1] == []


GUARDS = {
    "the module is gone": (
        "try:\n    import pkg.sub\nexcept ModuleNotFoundError:\n    pass\n",
        ["guarded"],
    ),
    "the name is gone, and only a module may lack": (
        "try:\n    from pkg import gone\nexcept ModuleNotFoundError:\n    pass\n",
        ["breaks"],
    ),
    "the name is gone": (
        "try:\n    from pkg import gone\nexcept ImportError:\n    pass\n",
        ["guarded"],
    ),
    "what is raised again": (
        "try:\n    from pkg import gone\nexcept ImportError as e:\n    raise Exit() from e\n",
        ["breaks"],
    ),
    "an attribute is no import": (
        "import pkg\ntry:\n    pkg.gone()\nexcept ImportError:\n    pass\n",
        ["breaks"],
    ),
    "an argument is no attribute": (
        "import pkg\ntry:\n    pkg.f(old=1)\nexcept AttributeError:\n    pass\n",
        ["breaks"],
    ),
    "an argument": (
        "import pkg\ntry:\n    pkg.f(old=1)\nexcept (KeyError, TypeError):\n    pass\n",
        ["guarded"],
    ),
    "a guarded import leaves its members": (
        "try:\n    from pkg import Kept\nexcept ImportError:\n    Kept = None\nKept.gone()\n",
        ["breaks"],
    ),
    "another name was asked for": (
        "import pkg\nif hasattr(pkg, 'f'):\n    pkg.gone()\n",
        ["breaks"],
    ),
    "the name was asked for": (
        "import pkg\nif hasattr(pkg, 'gone'):\n    pkg.gone()\n",
        ["guarded"],
    ),
    "a question that is kept under a name": (
        "import pkg\nIS_OLD = pkg.__version__ < '2'\nif IS_OLD:\n    pkg.gone()\n",
        ["guarded"],
    ),
    "a question that is kept under a name of a function": (
        "import pkg\ndef f():\n    old = pkg.__version__ < '2'\n    if old:\n        pkg.gone()\n"
        "def g(old):\n    if old:\n        pkg.gone()\n",
        ["breaks", "guarded"],
    ),
    "the new name was asked for": (
        "import pkg\nif not hasattr(pkg, 'come'):\n    pkg.gone()\n",
        ["guarded"],
    ),
    "a name of something else was asked for": (
        "import pkg\ndef f(me):\n    if not hasattr(me, 'come'):\n        pkg.gone()\n",
        ["breaks"],
    ),
    "the name that is gone was asked for": (
        "import pkg\nif hasattr(pkg, 'gone'):\n    pkg.gone()\nelse:\n    pkg.f(old=1)\n",
        ["breaks", "guarded"],
    ),
    "its parameters were asked for": (
        "import inspect\nimport pkg\nif 'old' in inspect.signature(pkg.f).parameters:\n"
        "    pkg.f(old=1)\n",
        ["guarded"],
    ),
    "how many parameters something takes": (
        "import inspect\nimport pkg\ndef g(me):\n"
        "    if len(inspect.signature(me).parameters) > 1:\n        pkg.f(old=1)\n",
        ["breaks"],
    ),
    "the other release left before": (
        "import pkg\ndef f():\n    if pkg.__version__ >= '2':\n        return 1\n"
        "    return pkg.gone()\n",
        ["guarded"],
    ),
    "older releases are refused before": (
        "import pkg\ndef f():\n    if pkg.__version__ < '1':\n        raise ImportError\n"
        "    return pkg.gone()\n",
        ["breaks"],
    ),
    "the way without another package": (
        "try:\n    import other\nexcept ImportError:\n    from pkg import gone\n",
        ["breaks"],
    ),
    "the way of the other release": (
        "import pkg\ntry:\n    pkg.f(new=1)\nexcept TypeError:\n    pkg.f(old=1)\n",
        ["guarded"],
    ),
}


@pytest.mark.parametrize("name", GUARDS)
def test_a_guard_covers_what_it_catches(tmp_path: Path, name: str) -> None:
    source, levels = GUARDS[name]
    old = {
        "pkg/__init__.py": "__version__ = '1'\ndef gone(): ...\ndef f(*, old=1, new=1): ...\n"
        "class Kept:\n    @staticmethod\n    def gone(): ...\n",
        "pkg/sub.py": "",
    }
    new = "__version__ = '2'\ndef come(): ...\ndef f(*, new=1): ...\nclass Kept: ...\n"
    _, findings = judged(tmp_path, Case(old, new, "", (), ()), source)
    assert [each.level for each in findings if each.verdict != "absence-hidden"] == levels


def test_an_attribute_of_a_known_class_is_told_where_only_code_sets_others(tmp_path: Path) -> None:
    """Config classes of transformers set keywords by name, so that nothing is ever certain."""
    base = "class Base:\n    def __init__(self, **kw):\n        for k in kw:\n"
    base += "            setattr(self, k, kw[k])\n"
    child = "class Config(Base):\n    def __init__(self, theta=1, **kw):\n"
    case = Case(
        base + child + "        self.theta = theta\n",
        base + child + "        self.ropes = theta\nclass Other:\n    theta = 1\n",
        "",
        (),
        (),
    )
    source = (
        "from pkg import Config\ndef f(c: Config | str):\n    c.theta\n    getattr(c, 'theta', 1)\n"
    )
    _, findings = judged(tmp_path, case, source)
    assert [(each.verdict, each.level, each.use.line) for each in findings] == [
        ("removed", "check", 3),
        ("absence-hidden", "check", 4),
    ]


def test_a_method_may_come_from_a_base_that_is_not_read(tmp_path: Path) -> None:
    old = "from other import Base\nclass C(Base):\n    def exists_so(self): ...\n"
    new = "from other import Base\nclass C(Base): ...\n"
    use = "import pkg\ndef f(x):\n    x.exists_so()\n"
    (told,) = judged(tmp_path, Case(old, new, "", (), ()), use)[1]
    assert (told.verdict, told.level) == ("removed", "check")
    assert "no source of 2.0 has 'exists_so'" in told.why, (
        "and of no class it says that it lacks it"
    )


def test_a_route_is_no_use(tmp_path: Path) -> None:
    case = Case("def make(): ...\n", "", "", (), ())
    source = "@app.post('/pkg/make')\ndef make(): ...\nsession.post(url + '/pkg/make')\n"
    assert judged(tmp_path, case, source) == ([], [])


def test_what_no_text_shows_is_told_between_the_releases_alone(tmp_path: Path) -> None:
    files = Files(tmp_path, [], has_git=False)
    told = meanings("click", "8.1.8", "8.2.0", files, ())
    assert [each["since"] for each in told] == ["8.2", "8.2"]
    assert meanings("click", "8.2.0", "8.3.0", files, ()) == []
    assert meanings("click", "7.1", "8.1.8", files, ()) == []


def test_a_validator_that_the_new_release_refuses_is_named(tmp_path: Path) -> None:
    text = "from pydantic import BaseModel, root_validator\n\n\nclass A(BaseModel):\n"
    for mark in ("root_validator", "root_validator()", "root_validator(pre=True)"):
        text += f"    @{mark}\n    def f(cls, values): ...\n\n"
    files = Files(write(tmp_path, {"m.py": text}), ["m.py"], has_git=False)
    told = meanings("pydantic", "1.10.13", "2.5.0", files, ())
    (row,) = (each for each in told if "skip_on_failure" in each["says"])
    assert [each["line"] for each in row["sites"]] == [5, 8]


def test_the_lines_that_a_meaning_may_concern_are_named(tmp_path: Path) -> None:
    source = (
        "from typing import Optional\nimport pydantic\n"
        "class Row(pydantic.BaseModel):\n    a: Optional[int]\n    b: Optional[int] = None\n"
        "    c: int | None  # as before\n"
        "class Plain:\n    d: Optional[int]\n"
    )
    files = Files(write(tmp_path, {"a.py": source}), ["a.py"], has_git=False)
    tree = Tree(files, ["pydantic"])
    code = tree.code("a.py")
    assert code is not None
    told = meanings("pydantic", "1.10.13", "2.5.0", files, uses_in(code, tree))
    sites = [(each["file"], each["line"]) for row in told for each in row["sites"]]
    assert sites == [("a.py", 4), ("a.py", 6)]


def test_a_line_that_does_as_before_is_not_named(tmp_path: Path) -> None:
    """Of what OpenRLHF changed for transformers 5 one call is on several lines."""
    source = (
        "tokenizer.batch_decode(\n    rows[0].unsqueeze(0),\n    skip_special_tokens=True,\n)\n"
        "AutoTokenizer.from_pretrained(a)\n"
        "AutoModel.from_pretrained(\n    a, torch_dtype='auto'\n)\n"
        "AutoModel.from_pretrained(a)\n"
        "def apply_chat_template(rows): ...\n"
        "t.apply_chat_template(rows, tokenize=False)\n"
        "t.apply_chat_template(rows)\n"
    )
    files = Files(write(tmp_path, {"a.py": source}), ["a.py"], has_git=False)
    told = meanings("transformers", "4.57.6", "5.0.0", files, ())
    assert sorted(each["line"] for row in told for each in row["sites"]) == [1, 9, 12]


@pytest.mark.parametrize(
    ("package", "old", "new", "source"),
    [
        (
            "pydantic",
            "1.10.13",
            "2.5.0",
            "class A(pydantic.BaseModel):\n    @validator('x')\n"
            "    def f(\n        cls, v, values, field\n    ): ...\n"
            "    @validator('x')\n    def g(cls, v, values): ...\n",
        ),
        ("packaging", "21.3", "24.2", "\nversion.parse(a)\nparse(b)\njson.parse(c)\n"),
    ],
)
def test_a_call_that_raises_now_is_named(
    tmp_path: Path, package: str, old: str, new: str, source: str
) -> None:
    source = f"import pydantic\nfrom packaging.version import parse\n{source}"
    files = Files(write(tmp_path, {"a.py": source}), ["a.py"], has_git=False)
    tree = Tree(files, [package])
    code = tree.code("a.py")
    assert code is not None
    told = meanings(package, old, new, files, uses_in(code, tree))
    found = [each["line"] for row in told if "raises" in row["says"] for each in row["sites"]]
    assert found == ([5] if package == "pydantic" else [4, 5])


def test_an_attribute_of_any_python_object_is_no_loss_of_a_class(tmp_path: Path) -> None:
    had = "class Wrapper:\n    def __init__(self, f):\n        self.{} = f\n"
    for name, count in (("__name__", 0), ("_label", 1), ("format", 1)):
        case = Case(had.format(name), "class Wrapper: ...\n", "", (), ())
        _, findings = judged(
            tmp_path / name, case, f"import pkg\ndef f(x):\n    getattr(x, '{name}', '')\n"
        )
        assert len(findings) == count
