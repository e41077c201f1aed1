from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from scaffold.analysis.files.files import list_files
from scaffold.skills.blocks.expected import Problem, Repository, expected
from scaffold.skills.blocks.markers import Block, parse_blocks
from scaffold.skills.blocks.output import with_output
from scaffold.skills.blocks.settings import read_settings

FILES = {
    "pkg/__init__.py": """
        from typing import TYPE_CHECKING
        if TYPE_CHECKING:
            from .shapes import Square
        _LAZY = {"Circle": "pkg.shapes", "round": ("pkg.shapes", "make_round")}
        def __getattr__(name): ...
        """,
    "pkg/shapes.py": '''
        """Shapes of all kinds."""
        from __future__ import annotations
        import os as system

        class Shape:
            """Is a shape."""

            name: str = "shape"  # what it is called
            sides: int

            def __init__(self, name: str) -> None:
                self.name = name

            def area(
                self,
                scale: float = 1.0,
            ) -> float:
                """Returns the area.

                More of it.
                """
                return scale

        class Square(Shape):
            """Is a square."""

            def sides(self) -> int: return 4

        class Circle(Shape): ...

        def make_round(x):
            # a comment in place of a docstring
            return x
        ''',
    "pkg/table.py": """
        from pkg.shapes import Square
        from .nothing import Lost
        SHAPES: dict[str, object] = {
            "square": "pkg.shapes:Square",
            "circle": "pkg.shapes.Circle",
            "round": ("pkg.shapes", "make_round"),
            "here": Square,
            "lost": Lost,
            "other": 3,
        }
        NAMES = ["pkg.shapes", "pkg.nothing"]
        COMPUTED = dict(SHAPES)
        MERGED = {**SHAPES}
        """,
    "pkg/called.py": '''
        import abc
        import functools
        from contextlib import contextmanager
        from dataclasses import dataclass

        @functools.cache
        @dataclass(
            frozen=True,  # nothing changes it
        )
        class Point:
            """Is a point."""

            x: int

            @property
            @abc.abstractmethod
            def length(self) -> int: return abs(self.x)

            @length.setter
            def length(self, value: int) -> None: ...

            @functools.lru_cache
            @staticmethod
            def zero(
                x: int = 0,
            ) -> Point: return Point(x)

            @classmethod
            async def read(cls) -> Point:
                """Reads one."""

        class Line:
            @property
            def ends(self) -> int: ...

        @contextmanager
        def opened(): yield
        ''',
    "libs/inner/pyproject.toml": "",
    "libs/inner/src/deep/mod.py": "def far(a, /, *, b=1):\n    '''Is far away.'''\n",
    "src/flat.py": "def near(): pass\n",
    "broken.py": "def (:\n",
    "round_a.py": "from round_b import x\n",
    "round_b.py": "from round_a import x\n",
    "docs/guide.md": "text\n",
    "cli.json": """
        {"schema": 1, "programs": [{"name": "tool", "commands": [{"name": "run", "options": [
          {"names": ["--fast", "-f"], "help": "Be fast | loud."},
          {"names": ["--level"], "metavar": "N", "choices": ["low", "high"], "default": "low"}]},
          {"name": "wait", "options": [
          {"names": ["--limit"], "metavar": "S", "help": "Limit. [default: 60]", "default": "60.0"},
          {"names": ["--name"], "metavar": "N", "help": "Its name. [default: the folder's]"},
          {"names": ["--quiet"], "help": "Say nothing. [default: False]"},
          {"names": ["--color/--plain"], "help": "In colours. [default: True]"},
          {"names": ["--keep"], "metavar": "IT", "help": "Keep it. [default: False]"}]},
          {"name": "stop", "options": [
          {"names": ["--hard"], "help": "At once. [default: False]"}]}]}]}
        """,
    "newer.json": '{"schema": 2}',
    "pyproject.toml": '[tool.scaffold.skills]\ncli = ["cli.json"]\n',
}


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    root = tmp_path_factory.mktemp("repository")
    for path, text in FILES.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(dedent(text).lstrip("\n"))
    files = list_files(root)
    return Repository(files, read_settings(files))


def block(spec: str) -> Block:
    (found,) = parse_blocks(f"<!-- scaffold:begin {spec} -->\n<!-- scaffold:end -->\n")
    return found


def text(spec: str, repository: Repository) -> str:
    found = expected(block(spec), repository)
    assert isinstance(found, str), found
    return found


SIGNATURES = {
    "pkg.shapes.Shape.area": '''
        def area(
            self,
            scale: float = 1.0,
        ) -> float:
            """Returns the area.

            More of it.
            """
        ''',
    "pkg.shapes.Shape.area doc=first": '''
        def area(
            self,
            scale: float = 1.0,
        ) -> float:
            """Returns the area."""
        ''',
    "pkg.shapes:Shape doc=none": """
        class Shape:

            name: str = "shape"  # what it is called
            sides: int

            def __init__(self, name: str) -> None: ...
        """,
    "pkg.Square members=sides,area doc=none": """
        class Square(Shape):

            def sides(self) -> int: ...

            def area(
                self,
                scale: float = 1.0,
            ) -> float: ...
        """,
    "pkg.Circle": "class Circle(Shape):\n",
    "pkg.round": "def make_round(x): ...\n",
    "pkg.called.Point members=zero,read": '''
        @dataclass(
            frozen=True,  # nothing changes it
        )
        class Point:
            """Is a point."""

            x: int

            @staticmethod
            def zero(
                x: int = 0,
            ) -> Point: ...

            @classmethod
            async def read(cls) -> Point:
                """Reads one."""
        ''',
    "pkg.called.Point.length": """
        @property
        @abc.abstractmethod
        def length(self) -> int: ...
        """,
    "pkg.called.Line members=ends": """
        class Line:

            @property
            def ends(self) -> int: ...
        """,
    "pkg.called.opened": """
        @contextmanager
        def opened(): ...
        """,
    "deep.mod.far": '''
        def far(a, /, *, b=1):
            """Is far away."""
        ''',
    "flat.near": "def near(): ...\n",
}


@pytest.mark.parametrize("spec", SIGNATURES)
def test_signatures(spec: str, repository: Repository) -> None:
    body = dedent(SIGNATURES[spec]).strip("\n")
    assert text(f"signature {spec}", repository) == f"```python\n{body}\n```"


def test_a_registry_names_the_file_of_each_entry(repository: Repository) -> None:
    assert text("registry pkg.table.SHAPES", repository).splitlines() == [
        "| name | file | what it is |",
        "|---|---|---|",
        "| `square` | `pkg/shapes.py` | Is a square. |",
        "| `circle` | `pkg/shapes.py` | Shapes of all kinds. |",
        "| `round` | `pkg/shapes.py` | Shapes of all kinds. |",
        "| `here` | `pkg/shapes.py` | Is a square. |",
        "| `lost` |  |  |",
        "| `other` |  |  |",
    ]
    assert text("registry pkg.table.NAMES", repository).splitlines()[2:] == [
        "| `pkg.shapes` | `pkg/shapes.py` | Shapes of all kinds. |",
        "| `pkg.nothing` |  |  |",
    ]


def test_options_come_from_the_description(repository: Repository) -> None:
    assert text("options tool run", repository).splitlines()[2:] == [
        "| `--fast / -f` | Be fast \\| loud. |  |",
        "| `--level low \\| high` |  | `low` |",
    ]
    assert "--fast" not in text("options tool run only=--level", repository)
    assert "--level" not in text("options tool run without=--level", repository)


def test_a_default_is_told_once(repository: Repository) -> None:
    assert text("options tool wait", repository).splitlines()[2:] == [
        "| `--limit S` | Limit. | `60` |",
        "| `--name N` | Its name. | the folder's |",
        "| `--quiet` | Say nothing. |  |",
        "| `--color/--plain` | In colours. | `True` |",
        "| `--keep IT` | Keep it. | `False` |",
    ]
    assert text("options tool stop", repository).splitlines() == [
        "| option | means |",
        "|---|---|",
        "| `--hard` | At once. |",
    ]


def test_a_tree_is_what_git_lists(repository: Repository) -> None:
    assert text("tree pkg", repository) == (
        "```text\npkg/\n    __init__.py\n    called.py\n    shapes.py\n    table.py\n```"
    )
    rows = text("tree depth=2 only=**/*.py,cli.json without=pkg,r*.py", repository).splitlines()
    assert rows[1:-1] == [
        "./", "    broken.py", "    cli.json", "    libs/", "        inner/", "    src/",
        "        flat.py",
    ]  # fmt: skip


def test_a_template_is_rendered_with_its_answers(repository: Repository) -> None:
    found = text("template reward/exact sums take=last_line ignore_case=false", repository)
    assert found.startswith('```python\n"""Reward: ')
    assert "def sums_reward_fn(" in found
    assert ".lower()" not in found
    test = text("template reward/exact sums package=lab file=test", repository)
    assert "from lab.reward.sums import" in test


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ("signature", "needs a subject"),
        ("signature a b", "names one symbol, not 2"),
        ("signature pkg.shapes.Shape docs=none", "signature has no docs=; known: doc, members"),
        ("signature pkg.shapes.Nothing", "pkg/shapes.py does not define 'Nothing'"),
        ("signature pkg.shapes.Shap", "did you mean 'pkg.shapes.Shape'?"),
        ("signature nowhere.x", "nowhere is not in this repository"),
        ("signature pkg.table.SHAPES", "is not a function or class"),
        ("signature broken.x", "broken.py: it does not parse"),
        ("signature round_a.x", "in a circle"),
        ("registry pkg.table.COMPUTED", "is not a literal table"),
        ("registry pkg.table.MERGED", "is not a literal table"),
        ("registry pkg.shapes.Square", "is not a literal table"),
        ("options tool walk", "cli.json has no command 'tool walk'"),
        ("options tool run only=--slow", "tool run has no option --slow"),
        ("options tool run cli=none.json", "none.json of a command line is not there"),
        ("options tool run cli=newer.json", "newer.json has schema 2"),
        ("options tool run cli=docs/guide.md", "docs/guide.md is not valid JSON"),
        ("tree nowhere", "no file of nowhere"),
        ("tree pkg depth=x", "depth must be a number from 1"),
        ("template reward sums", "template names KIND/STYLE"),
        ("template reward/nothing sums", "unknown reward style 'nothing'"),
        ("template reward/exact sums color=red", "has no option --color"),
        ("template reward/exact sums ignore_case=maybe", "must be bool"),
        ("template reward/exact sums file=docs", "no file=docs; there are: my_rl/reward/sums.py"),
        ("template reward/exact sums package=a-b", "not an importable name"),
        ("template archon-model/default x", "are written, and not rendered"),
        ("template reward/exact sums package=.", "needs a repository"),
        ("output", "needs a subject"),
        ('output "ls pkg"', "names the files that its text depends on"),
        ("output ls pkg inputs=pkg", "names one command, in quotes"),
        ('output "ls pkg" inputs=nowhere', "no file fits inputs=nowhere"),
        ('output "ls \'pkg" inputs=pkg', "is not a command"),
        ('output "" inputs=pkg', "an empty command"),
    ],
)
def test_what_cannot_be_made_is_a_problem(spec: str, problem: str, repository: Repository) -> None:
    found = expected(block(spec), repository)
    assert isinstance(found, Problem)
    assert problem in found.message
    assert not found.is_stale


def is_in_step(block: Block, repository: Repository) -> bool:
    """Return whether what is in a block is what ought to."""
    found = expected(block, repository)
    return found is None or (isinstance(found, str) and found.strip("\n") == block.content)


def test_a_stored_output_is_stale_once_anything_differs(tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text(name)
    files = list_files(tmp_path)
    repository = Repository(files, read_settings(files))
    asked = block('output "cat a.txt" inputs=a*')
    found = expected(asked, repository)
    assert isinstance(found, Problem)
    assert found.is_stale
    held = with_output(asked, "a.txt", files)
    assert held.body == "```console\n$ cat a.txt\na.txt\n```"
    (stored,) = parse_blocks(f"{held.opening()}\n{held.body}\n<!-- scaffold:end -->\n")
    assert is_in_step(stored, repository)
    (edited,) = parse_blocks(f"{held.opening()}\n{held.body}!\n<!-- scaffold:end -->\n")
    assert not is_in_step(edited, repository)
    opening = held.opening().replace("cat a.txt", "cat ./a.txt")
    (other,) = parse_blocks(f"{opening}\n{held.body}\n<!-- scaffold:end -->\n")
    assert not is_in_step(other, repository)
    (tmp_path / "b.txt").write_text("no input")
    assert is_in_step(stored, repository)
    (tmp_path / "a.txt").write_text("other")
    assert not is_in_step(stored, repository)


def test_blank_lines_around_a_text_are_no_difference(repository: Repository) -> None:
    body = text("tree pkg", repository)
    for around in ("", "\n", "\n\n"):
        written = f"<!-- scaffold:begin tree pkg -->\n{around}{body}\n{around}<!-- scaffold:end -->"
        (found,) = parse_blocks(written)
        assert is_in_step(found, repository)
    (found,) = parse_blocks("<!-- scaffold:begin tree pkg -->\nold\n<!-- scaffold:end -->")
    assert not is_in_step(found, repository)


CONFIG = """
[tool.scaffold]
schema = 1
package = "pkg"
[tool.scaffold.registries]
reward = "src/pkg/scores/__init__.py:SCORES"
"""


def test_a_template_can_be_that_of_this_repository(tmp_path: Path) -> None:
    own = tmp_path / ".scaffold/templates/reward/exact"
    own.mkdir(parents=True)
    (own / "template.toml").write_text(
        'schema = 1\nversion = 1\ntitle = "Own"\nhelp = "Ours."\n'
        '[[files]]\nfrom = "own.py.jinja"\nto = "{source}"\n'
    )
    (own / "own.py.jinja").write_text("from {{ module }} import {{ function }}\n")
    (tmp_path / "pyproject.toml").write_text(CONFIG)
    files = list_files(tmp_path)
    repository = Repository(files, read_settings(files))
    found = text("template reward/exact sums package=.", repository)
    assert found == "```python\nfrom pkg.scores.sums import sums_reward_fn\n```"
    named = text("template reward/exact sums package=. file=src/pkg/scores/sums.py", repository)
    assert named == found
