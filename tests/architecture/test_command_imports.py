"""What each command imports, as a list: a new import on a path is to be a conscious change.

Imports are most of what a short command costs. The lists name what is heavy (about a millisecond or
more) beyond what click brings itself, so they hold for other releases of click and Python too.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# Of the standard library. What is neither here nor in it is heavy as well: every other package.
HEAVY = {
    "argparse", "ast", "asyncio", "concurrent", "configparser", "csv", "ctypes", "dataclasses",
    "decimal", "difflib", "doctest", "email", "fractions", "glob", "hashlib", "html", "http",
    "importlib.metadata", "importlib.resources", "json", "logging", "multiprocessing", "numbers",
    "pathlib", "pdb", "pickle", "pkgutil", "pprint", "random", "select", "shlex", "shutil",
    "signal", "socket", "sqlite3", "ssl", "statistics", "subprocess", "tarfile", "tempfile",
    "textwrap", "tomllib", "traceback", "unittest", "urllib", "uuid", "xml", "zipfile",
}  # fmt: skip
# Of this package, what brings heavy things or is large, by its first two names.
OWN = {
    "scaffold.transaction.apply", "scaffold.units.add", "scaffold.edit", "scaffold.target.formatters",
    "scaffold.transaction.journal", "scaffold.templating.manifests", "scaffold.units.merge", "scaffold.units.plan", "scaffold.templating.render",
    "scaffold.debug", "scaffold.deps", "scaffold.analysis", "scaffold.units.sample",
    "scaffold.skills", "scaffold.translation", "scaffold.vcs", "scaffold.verify",
}  # fmt: skip
# Comes with others, in this release of them or that.
INDIRECT = {
    "cython_runtime", "numbers", "pickle", "random", "select", "shlex", "shutil", "signal",
    "tempfile", "textwrap", "urllib",
}  # fmt: skip

# Of click itself, where it writes help or is asked for completions.
HELP = {"shutil", "textwrap"}
COMPLETION = {"shlex"}
# A manifest is TOML, and pathlib brings urllib.
MANIFESTS = {"dataclasses", "pathlib", "scaffold.templating.manifests", "tomllib", "urllib"}
COMMANDS = MANIFESTS | {"scaffold.units.add"}
EDITS = COMMANDS | {"hashlib", "scaffold.edit", "scaffold.target.formatters"}
# Of jinja2, what it brings is listed with it.
RENDERS = {
    "jinja2", "json", "markupsafe", "numbers", "pickle", "random", "scaffold.templating.render", "shlex",
    "shutil", "tempfile",
}  # fmt: skip
PLANS = EDITS | RENDERS | {"difflib", "scaffold.units.plan", "tomli_w"}
WRITES = {"scaffold.transaction.apply", "scaffold.transaction.journal"}
KEEPS_UP = EDITS | WRITES | {"scaffold.units.merge"}
FORMATS = {"select", "signal", "subprocess"}
# YAML in front matter; git lists the files.
SKILLS = FORMATS | (MANIFESTS - {"scaffold.templating.manifests"})
SKILLS |= {"cython_runtime", "hashlib", "scaffold.analysis", "scaffold.skills", "shlex", "yaml"}

# Markdown and its parser; git lists the files.
DOCS = {
    "dataclasses", "decimal", "difflib", "hashlib", "html", "logging", "markdown_it", "mdurl",
    "numbers", "pathlib", "scaffold.analysis", "scaffold.translation", "select", "signal",
    "subprocess", "textwrap", "tomllib", "traceback", "urllib",
}  # fmt: skip

# Processes and their ports; `psutil` brings some of these.
RECORDS = {"dataclasses", "json", "pathlib", "scaffold.debug", "signal", "urllib"}
LOOKS = RECORDS | {"glob", "psutil", "select", "shutil", "socket", "subprocess"}
WATCHES = LOOKS | {"random", "tempfile", "textwrap"}
# A message is a file, and the form of messages stands in pyproject.toml.
CHECKS = (
    FORMATS
    | (MANIFESTS - {"scaffold.templating.manifests"})
    | {"scaffold.analysis", "scaffold.vcs"}
)
# git is asked through GitPython, which brings much of the standard library.
GITS = FORMATS | (MANIFESTS - {"scaffold.templating.manifests"})
GITS |= {"configparser", "git", "gitdb", "glob", "hashlib", "json", "logging", "random", "shlex"}
GITS |= {"scaffold.analysis", "scaffold.vcs", "shutil", "smmap", "tempfile", "textwrap"}
GITS |= {"traceback"}

CATALOGS = SKILLS - {"scaffold.skills"}
CATALOGS |= {"ast", "configparser", "csv", "difflib", "json", "scaffold.deps"}
# Versions are those of packaging, which brings logging.
VERSIONS = {"logging", "packaging", "random", "shutil", "tempfile", "textwrap", "traceback"}
AUDITS = CATALOGS | VERSIONS
PINS = (AUDITS - {"difflib", "yaml"}) | {"scaffold.edit"}


@dataclass(frozen=True)
class Way:
    """Is one way through the command line.

    Args:
        argv: The command line.
        brings: All that is heavy in it.
        status: The exit status.
        completes: The words before the cursor, where a shell asks for completions.
    """

    argv: str
    brings: frozenset[str] | set[str]
    status: int = 0
    completes: str | None = None


WAYS: dict[str, Way] = {
    "help": Way("--help", HELP),
    "version": Way("--version", set()),
    "help of a kind": Way("add-reward --help", HELP | MANIFESTS),
    "help of verify": Way("verify --help", HELP),
    "completion of a command": Way("", COMPLETION | {"textwrap"}, completes=""),
    "completion of an option": Way("", COMPLETION, completes="status --"),
    "completion of an answer": Way("", COMPLETION | MANIFESTS, completes="add-reward --"),
    "completion of an id": Way("", COMPLETION, completes="show "),
    "list": Way("list", COMMANDS),
    "target": Way("target", COMMANDS),
    "status": Way("status", COMMANDS | {"hashlib", "scaffold.edit"}),
    "show": Way("show there", COMMANDS | {"hashlib", "scaffold.edit"}),
    "add with nothing to do": Way("add-reward there", COMMANDS),
    "the same as JSON": Way("add-reward there --json", COMMANDS | {"json"}),
    "add, dry": Way("add-reward other --dry-run --no-format", PLANS),
    "add": Way("add-reward other --no-format", PLANS | WRITES),
    "add, formatted": Way("add-reward formatted", PLANS | WRITES | FORMATS),
    "update": Way("update edited --set ignore_case=false --no-format", PLANS | KEEPS_UP),
    "remove": Way("remove removed", KEEPS_UP | {"difflib", "json"}),
    "recover": Way("recover", KEEPS_UP - {"hashlib"}),
    "skills sync --check": Way(
        # Blocks of our own skills are templates and signatures.
        f"skills sync --check --target {ROOT}",
        SKILLS | {"textwrap"} | PLANS - {"scaffold.units.add", "scaffold.target.formatters"},
    ),
    "skills install --check": Way(
        f"skills install --check --target {ROOT}",
        MANIFESTS - {"scaffold.templating.manifests"}
        | WRITES
        | FORMATS
        | {"scaffold.skills", "shlex", "textwrap"},
    ),
    "help of deps audit": Way("deps audit --help", HELP),
    "deps catalog": Way("deps catalog click", CATALOGS),
    "deps audit of no version": Way("deps audit click one two", AUDITS, status=2),
    "deps plan of no pin": Way(
        "deps plan click", PINS | {"scaffold.transaction.journal"}, status=2
    ),
    "skills list": Way(f"skills list --target {ROOT}", SKILLS),
    "help of pr": Way("pr --help", HELP),
    "commit-msg --check": Way("commit-msg --check no-such-file", CHECKS, status=2),
    "commit-msg without a repository": Way("commit-msg --target /", GITS, status=1),
    "review of no change": Way(f"review HEAD..HEAD --target {ROOT}", GITS | {"difflib"}),
    "pr without a repository": Way("pr --target /", GITS, status=1),
    "docs plan": Way(f"docs plan docs/en/index.md --target {ROOT}", DOCS),
    "help of docs check": Way("docs check --help", HELP),
    "help of debug run": Way("debug run --help", HELP),
    "debug run of no program": Way("debug run -- no-such-program", WATCHES, status=2),
    "debug compare of no records": Way("debug compare a b", RECORDS, status=1),
    "debug env of no mesh": Way("debug env --mesh wrong", LOOKS, status=2),
    "a wrong name": Way("add-reward class", COMMANDS, status=2),
    "an unknown option": Way("add-reward x --no-such", MANIFESTS | {"difflib"}, status=2),
    "an unknown unit": Way("show nothing", COMMANDS | {"difflib", "scaffold.edit"}, status=1),
}


def modules_of(way: Way, folder: Path, out: Path) -> set[str]:
    """Runs a command in a fresh process and returns the modules that it left behind."""
    code = (
        f"import sys\nsys.path.insert(0, {str(ROOT)!r})\n"
        f"sys.argv = ['scaffold', *{way.argv.split()!r}]\n"
        "from scaffold.cli.main import main\nstatus = None\n"
        "try:\n    main()\nexcept SystemExit as end:\n    status = end.code or 0\n"
        f"with open({str(out)!r}, 'w') as file:\n    print(status, *sys.modules, file=file)\n"
    )
    env = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    if way.completes is not None:
        words = f"scaffold {way.completes}"
        env |= {"_SCAFFOLD_COMPLETE": "bash_complete", "COMP_WORDS": words}
        env |= {"COMP_CWORD": str(words.count(" "))}
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=env, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    status, *modules = out.read_text().split()
    assert status == str(way.status), ran.stdout + ran.stderr
    return set(modules)


def heavy(modules: set[str]) -> set[str]:
    """Returns what is heavy among modules: listed above, or another package's."""
    tops = {name.split(".")[0] for name in modules}
    others = {
        top for top in tops - sys.stdlib_module_names - {"scaffold"} if not top.startswith("_")
    }
    return others | (modules & (HEAVY | OWN))


@pytest.fixture(scope="module")
def brought_by_click(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Returns what a process has that imports click and does nothing."""
    code = "import sys, click; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return heavy(set(ran.stdout.split()))


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a project with units that the commands below work on, in their order."""
    folder = tmp_path_factory.mktemp("project")
    adds = [["add-reward", name, "--no-format"] for name in ("there", "edited", "removed")]
    for argv in (["new", "my_rl"], *adds):
        place = folder if argv[0] == "new" else folder / "my_rl"
        script = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import scaffold.cli.main as c; c.main()"
        subprocess.run([sys.executable, "-c", script, *argv], cwd=place, check=True)
    return folder / "my_rl"


@pytest.mark.parametrize("name", WAYS)
def test_a_command_brings_what_its_list_says(
    name: str, project: Path, brought_by_click: set[str], tmp_path: Path
) -> None:
    way = WAYS[name]
    found = heavy(modules_of(way, project, tmp_path / "modules.txt")) - brought_by_click
    assert sorted(found - way.brings) == [], "a new import; if it is meant, add it to the list"
    assert sorted(way.brings - found - INDIRECT - brought_by_click) == [], (
        "not needed; drop it from the list"
    )
