"""What argparse and click programs take, read as text: as the real parsers judge the same lines."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import sys
from collections.abc import Generator, Sequence
from pathlib import Path

import pytest

from scaffold.analysis.cli.argument_check import fit
from scaffold.analysis.cli.commands import Command
from scaffold.analysis.cli.shell_words import Word
from scaffold.analysis.files.files import list_files
from scaffold.analysis.repository import Repository

PLAIN = """
import argparse

parser = argparse.ArgumentParser()
parser.add_argument("path")
parser.add_argument("-n", "--number", type=int, choices=[0, 1, 2])
parser.add_argument("-q", "--quiet", action="store_true")
parser.add_argument("--pair", nargs=2)
parser.add_argument("--many", nargs="+")
parser.add_argument("--color", action=argparse.BooleanOptionalAction)
parser.parse_args()
"""
NESTED = """
import argparse as ap


def main(argv=None):
    parser = ap.ArgumentParser(allow_abbrev=False)
    inner = parser.add_subparsers(required=True)
    make = inner.add_parser("make")
    make.add_argument("--log")
    group = make.add_argument_group("shared")
    group.add_argument("--root", required=True)
    group.add_argument("--mode", choices=["fast", "slow"])
    make.add_argument("names", nargs="*")
    mend = inner.add_parser("mend")
    mend.add_argument("--root", required=True)
    mend.add_argument("names", nargs="*")
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
"""
CLICK = """
import click

verbose = click.option("-v", "--verbose", count=True)


@click.group()
@verbose
def cli(verbose):
    pass


@cli.command("make")
@click.option("--root", required=True)
@verbose
@click.argument("names", nargs=-1, required=True)
@click.option("--mode", type=click.Choice(["fast", "slow"], case_sensitive=False))
@click.option("--shout/--whisper", " /-w")
def make_it(**given):
    pass


@click.command()
@click.argument("first")
@click.argument("second", required=False)
@click.option("--point", nargs=2)
def mend_things_cmd(**given):
    pass


cli.add_command(mend_things_cmd, name="mend")

if __name__ == "__main__":
    cli()
"""
LINES = {
    "plain": [
        "x", "", "x y", "x -n 2", "x -n 7", "x -n2", "x -qn2", "x -qz", "x --num 1", "x --number",
        "x --number=1", "x --nmber 1", "--pair a b x", "x --pair a", "x --many a b --quiet",
        "x --no-color", "x --no-quiet", "-- x", "-- -x", "x --help", "x -h", "-5", "x --q",
    ],
    "nested": [
        "make --root r", "make", "mend --root r a b", "break", "make --root r --mode fast",
        "make --root r --mode medium", "make --root r --log l", "--log l make --root r",
        "make --roo r", "mend --root r --unknown", "make --root", "make --help",
    ],
    "click": [
        "make --root r n", "make --root r", "make n", "-v make --root r n m", "make --root=r n -vv",
        "make --root r n --mode FAST", "make --root r n --mode medium", "make --root r n -w",
        "make --root r n --whisper --shout", "make --rot r n", "mend a", "mend a b", "mend a b c",
        "mend", "mend a --point 1 2", "mend a --point 1", "brake", "make --help", "make-it -v",
    ],
}  # fmt: skip
UNKNOWN = re.compile(r"unrecognized arguments: -|No such (?:option|command)")
TEXTS = {"plain": PLAIN, "nested": NESTED, "click": CLICK}


@pytest.mark.parametrize(
    ("name", "line"), [(name, line) for name, lines in LINES.items() for line in lines]
)
def test_a_line_fits_where_the_program_takes_it(name: str, line: str, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.py"
    path.write_text(TEXTS[name])
    command = Repository.at(tmp_path).programs.command_of(path.name, "")
    assert command is not None
    assert not command.is_open, command.why_open
    words = shlex.split(line)
    result = fit(command, [Word(word, 0, 0) for word in words])
    told = [problem.message for problem in result.problems.values()]
    assert bool(told) == refused(path, words), told


def refused(path: Path, words: Sequence[str]) -> bool:
    """Runs the real program; tells whether it calls the words a wrong usage."""
    code = compile(path.read_text(), str(path), "exec")
    out, err = contextlib.redirect_stdout(io.StringIO()), io.StringIO()
    with argv(path, words), out, contextlib.redirect_stderr(err):
        try:
            exec(code, {"__name__": "__main__"})
        except SystemExit as exit_:
            # Options and commands are read, and not what they take.
            return exit_.code == 2 and UNKNOWN.search(err.getvalue()) is not None
    return False


@contextlib.contextmanager
def argv(path: Path, words: Sequence[str]) -> Generator[None]:
    before = sys.argv
    sys.argv = [path.name, *words]
    try:
        yield
    finally:
        sys.argv = before


def command(root: Path, files: dict[str, str], path: str, function: str = "") -> Command | None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return Repository(list_files(root)).programs.command_of(path, function)


PARSE = "\nparser.parse_args()\n"
MAKE = "import argparse\nparser = argparse.ArgumentParser()\n"


@pytest.mark.parametrize(
    "text",
    [
        "import elsewhere\nelsewhere.fill(parser)",
        "setattr(parser, 'x', 1)",
        "parser.add_argument(*names())",
        "parser.add_argument('--' + name())",
        "for name in names():\n    parser.add_argument(f'--{name}')",
        "parser.add_argument('rest', nargs=argparse.REMAINDER)",
        "parsers = {'a': parser}\nfill(parsers)",
        "import sys\nif sys.argv[1] == 'x':\n    sys.argv.remove('x')",
        "for name in ('a', 'b'):\n    parser.add_argument(f'--{name}')",
        "def wrap(*names):\n    parser.add_argument(*names)\nwrap('--x')",
        "add = parser.add_argument\nadd('--x')",
        "def fill(p):\n    p.add_argument('--x')\nfill(parser)",
        "def build(p):\n    return p\nsame = build(parser)",
        "own: argparse.ArgumentParser = argparse.ArgumentParser()\nfill(own)",
        "commands = parser.add_subparsers()\nclass Run:\n    register(commands)",
        "from argparse import REMAINDER\nparser.add_argument('rest', nargs=REMAINDER)",
        "parser.add_argument('rest', nargs='...')",
        "parser = parser or argparse.ArgumentParser()",
        "one = argparse.ArgumentParser() if parser is None else parser",
        "same = parser",
        "fill(new := argparse.ArgumentParser())",
        "make = lambda: argparse.ArgumentParser()",
        "def given():\n    yield parser",
        "all_of = {}\nall_of['a'] = argparse.ArgumentParser()",
        "def run():\n    parser = Parser()\n    parser.parse_args()",
        "options = {'parents': [parser]}\nargparse.ArgumentParser(**options)",
        "parser.add_argument('--x', action=Negated)",
        "parser.add_argument('--x', **FLAG)",
        "argv = sys.argv[1:]\nargv.remove('--x')",
        "from sys import argv\nargv.remove('--x')",
        "class A:\n    def __init__(self):\n        self.parser = argparse.ArgumentParser()",
    ],
)
def test_a_parser_that_may_take_more_is_open(text: str, tmp_path: Path) -> None:
    found = command(tmp_path, {"a.py": MAKE + text + PARSE}, "a.py")
    assert found is not None
    assert found.is_open
    assert found.why_open


@pytest.mark.parametrize(
    "text",
    [
        "from other import Parser\nParser().parse_args()\n",
        "import argparse\ndef add(subs):\n    subs.add_parser('x').parse_args()\n",
        "print(1)\n",
        "def broken(:\n",
    ],
)
def test_what_cannot_be_told_is_none(text: str, tmp_path: Path) -> None:
    assert command(tmp_path, {"a.py": text}, "a.py") is None


def test_commands_come_from_the_modules_that_a_group_leads_to(tmp_path: Path) -> None:
    files = {
        "pkg/__init__.py": "",
        "pkg/cli.py": "import click\nfrom pkg.sub import inner\n\n@click.group()\ndef cli(): ...\n"
        "cli.add_command(inner)\ncli.command('late')(click.argument('x')(print))\n"
        "def main():\n    cli(obj={})\n",
        "pkg/sub.py": "import click\n@click.group('in')\ndef inner(): ...\n@inner.command()\n"
        "def go_on(): ...\n",
    }
    found = command(tmp_path, files, "pkg/cli.py", "main")
    assert found is not None
    assert found.commands is not None
    assert list(found.commands["in"].commands or ()) == ["go-on"]
    assert found.is_open, "what `late` runs is not known"


@pytest.mark.parametrize(
    "text",
    [
        "@click.group(cls=Lazy)\ndef cli(): ...\n",
        "@click.group()\n@elsewhere.options\ndef cli(): ...\n",
        "@click.group()\ndef cli(): ...\nregister(cli)\n",
        "@click.group()\ndef cli(): ...\nfor each in found():\n    cli.add_command(each)\n",
        "@click.command(context_settings={'allow_extra_args': True})\ndef cli(): ...\n",
        "@click.command()\n@click.option(*NAMES)\ndef cli(): ...\n",
        "def many(f):\n    for each in NAMES:\n        f = click.option(each)(f)\n    return f\n"
        "@click.command()\n@many\ndef cli(): ...\n",
        "def more(f):\n    return elsewhere(f)\n@click.command()\n@more\ndef cli(): ...\n",
        "@click.group()\ndef cli(): ...\ncli.command('x')(print)\n",
        "def more(f):\n    f = click.option('-v')(f)\n    return elsewhere(f)\n"
        "@click.command()\n@more\ndef cli(): ...\n",
        "def more(f):\n    f = click.option('-v')(f)\n    return elsewhere(func=f)\n"
        "@click.command()\n@more\ndef cli(): ...\n",
        "def more(f):\n    @click.option('-v')\n    @wraps(f)\n    def g(): ...\n"
        "    return elsewhere(g)\n@click.command()\n@more\ndef cli(): ...\n",
        "@click.group()\ndef cli(): ...\n@cli.command(NAME)\ndef go(): ...\n",
        "@click.group()\ndef cli(): ...\nif __name__ == '__main__':\n    cli(words())\n",
        "import sys\n@click.group()\ndef cli(): ...\nsys.argv.insert(1, 'go')\n",
        "@click.group(context_settings=SETTINGS)\ndef cli(): ...\n",
    ],
)
def test_a_click_command_that_may_take_more_is_open(text: str, tmp_path: Path) -> None:
    found = command(tmp_path, {"a.py": f"import click\n{text}"}, "a.py", "cli")
    assert found is not None
    assert found.is_open


def test_a_command_that_is_an_object_cannot_be_told(tmp_path: Path) -> None:
    text = "import click\ncli = click.Command('x', params=[click.Option(['-n', '--num'])])\n"
    assert command(tmp_path, {"a.py": text}, "a.py", "cli") is None


SPREAD = {
    "pkg/__init__.py": "",
    "pkg/base.py": "import click\n@click.group()\ndef cli(): ...\n",
    "pkg/commands/__init__.py": "from pkg.commands import go\n",
    "pkg/main.py": "from pkg import commands\nfrom pkg.base import cli\ndef main():\n    cli()\n",
}


@pytest.mark.parametrize(
    "text",
    [
        "import pkg.base\npkg.base.cli.add_command(go)\n",
        "from pkg import base\nregister(base.cli)\n",
    ],
)
def test_a_group_that_another_module_may_fill_is_open(text: str, tmp_path: Path) -> None:
    found = command(tmp_path, {**SPREAD, "pkg/commands/go.py": text}, "pkg/main.py", "main")
    assert found is not None
    assert found.is_open


@pytest.mark.parametrize(
    "text",
    [
        "from pkg.base import cli\n@cli.command()\ndef go(): ...\n",
        "from ..base import (\n    cli as top,\n)\n@top.command()\ndef go(): ...\n",
        "import click\nfrom pkg.base import cli\n@click.command()\ndef go(): ...\n"
        "cli.add_command(go)\n",
        "import copy\nfrom pkg.base import cli\ncli.add_command(copy.copy(other), 'go')\n",
    ],
)
def test_commands_that_another_module_adds_are_read(text: str, tmp_path: Path) -> None:
    found = command(tmp_path, {**SPREAD, "pkg/commands/go.py": text}, "pkg/main.py", "main")
    assert found is not None
    assert (found.is_open, [*(found.commands or {})]) == (False, ["go"])


def test_a_function_that_adds_several_options_is_read(tmp_path: Path) -> None:
    text = (
        "import click\n"
        "def shared(f):\n"
        "    f = click.option('-v', '--verbose', count=True)(f)\n"
        "    return click.option('--depth', type=int)(f)\n"
        "@click.command()\n@shared\ndef cli(verbose, depth): ...\n"
    )
    found = command(tmp_path, {"a.py": text}, "a.py", "cli")
    assert found is not None
    assert not found.is_open
    assert {name for each in found.options for name in each.names} > {"-v", "--depth"}


def test_a_group_that_tests_invoke_is_read(tmp_path: Path) -> None:
    files = {
        "pkg/__init__.py": "",
        "pkg/base.py": "import click\n@click.group()\ndef cli(): ...\n"
        "@cli.command()\ndef go(): ...\n",
        "tests/test_base.py": "from pkg.base import cli\ncheck(cli)\n",
        "pkg/check.py": "from pkg.base import cli\nrunner.invoke(cli, ['go'])\n",
        "other/base.py": "from other import cli\n@cli.command()\ndef more(): ...\n",
    }
    found = command(tmp_path, files, "pkg/base.py", "cli")
    assert found is not None
    assert not found.is_open
    assert list(found.commands or {}) == ["go"]


@pytest.mark.parametrize("target", ["app = other", "apps['a']", "self.app"])
def test_an_app_without_one_plain_name_is_not_read(target: str, tmp_path: Path) -> None:
    name = target.partition(" ")[0]
    text = f"import typer\n{target} = typer.Typer()\n@{name}.command()\ndef go(): ...\n"
    text += f"if __name__ == '__main__':\n    {name}()\n"
    assert command(tmp_path, {"a.py": text}, "a.py") is None


@pytest.mark.parametrize(
    "text",
    [
        "app = typer.Typer(callback=common)\n@app.command()\ndef a(): ...\n",
        "app = typer.Typer()\n@app.command()\ndef one(): ...\n",
        "app, sub = typer.Typer(), typer.Typer()\n@app.command()\ndef a(): ...\n",
        "app = typer.Typer()\nsub = typer.Typer()\napp.add_typer(sub)\n",
        "app = typer.Typer()\n@app.callback()\n@wraps(f)\ndef first(): ...\n",
        "app = typer.Typer()\n@app.callback()\ndef first(a: str = typer.Option('', NAME)): ...\n",
    ],
)
def test_an_app_that_may_take_more_refutes_nothing(text: str, tmp_path: Path) -> None:
    found = command(tmp_path, {"a.py": f"import typer\n{text}"}, "a.py", "app")
    assert found is None or found.is_open


@pytest.mark.parametrize(
    "text",
    [
        "import click\n@click.group()\n@click.argument('name')\ndef app(name): ...\n",
        "import typer\napp = typer.Typer()\n@app.callback()\ndef first(name: str): ...\n",
        "import typer\napp = typer.Typer()\n@app.callback()\n"
        "def first(ctx: typer.Context, name: str = typer.Argument('x')): ...\n",
    ],
)
def test_the_first_word_of_a_group_with_an_argument_is_no_command(
    text: str, tmp_path: Path
) -> None:
    text += "@app.command()\ndef go(): ...\n@app.command()\ndef stop(): ...\n"
    found = command(tmp_path, {"a.py": text}, "a.py", "app")
    assert found is not None
    assert not found.is_open
    assert not fit(found, [Word("me", 0, 0), Word("go", 0, 3)]).problems


def test_a_group_that_a_function_imports_is_read(tmp_path: Path) -> None:
    files = {
        **SPREAD,
        "pkg/main.py": "def main():\n    from pkg.base import cli\n    cli()\n",
        "pkg/commands/go.py": "def register():\n    from pkg.base import cli\n"
        "    @cli.command()\n    def go(): ...\n",
    }
    found = command(tmp_path, files, "pkg/main.py", "main")
    assert found is not None
    assert (found.is_open, [*(found.commands or {})]) == (False, ["go"])


def test_an_option_behind_an_annotation_by_name_is_read(tmp_path: Path) -> None:
    files = {
        "a.py": "import typer\nfrom kinds import Mode\napp = typer.Typer()\n"
        "@app.callback()\ndef first(mode: Mode = 'x'): ...\n@app.command()\ndef go(): ...\n",
        "kinds.py": "import typer\nfrom typing import Annotated\n"
        "Mode = Annotated[str, typer.Option('--kind', '-k')]\n",
    }
    found = command(tmp_path, files, "a.py", "app")
    assert found is not None
    assert not found.is_open
    assert {"--kind", "-k"} <= {*found.option_names()}


def test_a_command_of_itself_ends_the_reading(tmp_path: Path) -> None:
    text = "import click\n@click.group()\ndef cli(): ...\ncli.add_command(cli, 'again')\n"
    found = command(tmp_path, {"a.py": text}, "a.py", "cli")
    assert found is not None
    assert (found.commands or {})["again"].is_open
    assert command(tmp_path, {"b.py": "@a.command()\ndef a(): ...\n"}, "b.py", "a") is None


def test_who_holds_all_commands_may_fill_each(tmp_path: Path) -> None:
    text = MAKE + (
        "subs = parser.add_subparsers()\nsubs.add_parser('go')\n"
        "for each in subs.choices.values():\n    fill(each)\n"
    )
    found = command(tmp_path, {"a.py": text + PARSE}, "a.py")
    assert found is not None
    assert found.is_open


@pytest.mark.parametrize(
    "text",
    [
        "other = argparse.ArgumentParser()\nother.add_argument('--far')",
        "def fill():\n    parser.add_argument('--far')\nfill()",
        "subs = parser.add_subparsers()\nsubs.add_parser('go').add_argument('--far')",
        "class A:\n    def fill(self, own):\n        own.add_argument('-f', '--far')",
    ],
)
def test_an_option_of_one_parser_is_one_of_the_program(text: str, tmp_path: Path) -> None:
    found = command(tmp_path, {"a.py": MAKE + text + PARSE}, "a.py")
    assert found is not None
    assert not found.is_open
    words = [Word(word, 0, 0) for word in ("go", "--far", "1", "--near", "2")]
    problems = fit(found, words).problems
    assert [(index, each.kind) for index, each in problems.items()] == [(3, "option-unknown")]


def test_a_typer_app_is_read_from_signatures(tmp_path: Path) -> None:
    text = (
        "from typing import Annotated, Literal\nimport typer\napp = typer.Typer()\n"
        "@app.command()\ndef run(path: str, num: int = 3, fast: bool = False,\n"
        "        mode: Annotated[str, typer.Option('--mode', '-m')] = 'x',\n"
        "        kind: Literal['a', 'b'] = 'a'): ...\n"
        "@app.command('halt')\ndef stop(ctx: typer.Context): ...\n"
    )
    found = command(tmp_path, {"a.py": text}, "a.py", "app")
    assert found is not None
    assert sorted(found.commands or ()) == ["halt", "run"]
    run = found.find(("run",))
    assert run is not None
    assert set(run.option_names()) >= {"--num", "--fast", "--no-fast", "--mode", "-m", "--kind"}


def test_commands_of_a_module_that_is_imported_with_its_dots_are_read(tmp_path: Path) -> None:
    files = {
        "pyproject.toml": "[project]\nname = 'm'\n[project.scripts]\nm = 'm.cli:cli'\n",
        "m/__init__.py": "",
        "m/cli/__init__.py": "import click\nimport m.runs\n@click.group()\ndef cli(): ...\n"
        "cli.add_command(m.runs.commands)\n",
        "m/runs.py": "import click\n@click.group('runs')\ndef commands(): ...\n"
        "@commands.command('get')\n@click.option('--id')\ndef get_run(id): ...\n",
    }
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    program = Repository.at(tmp_path).programs.console("m")
    assert program is not None
    assert program.command is not None
    runs = (program.command.commands or {})["runs"]
    assert list(runs.commands or {}) == ["get"]
