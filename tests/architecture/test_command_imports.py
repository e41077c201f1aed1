"""The packages that a command may import beside click and the standard library.

An import is most of what a short command costs. The time itself is judged by
``python -m benchmarks --only cli --only overhead``; this table fails before it on what costs most:
a package of somebody else on a way that did without it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAIN = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from scaffold.cli.main import main; main()"
# What comes with one of the packages below, in this release of it or that.
COMPANIONS = {
    *("click", "cython_runtime", "markupsafe", "mdurl", "typing_extensions"),
}

# The packages that a command brings, by its arguments; in their order, the later ones find the
# units of the earlier.
COMMANDS = {
    "--help": "",
    "--version": "",
    "add-reward --help": "",
    "verify --help": "",
    "deps audit --help": "",
    "pr --help": "",
    "docs check --help": "",
    "debug run --help": "",
    "list": "",
    "target": "",
    "status": "yaml",
    "show there": "",
    "add-reward there": "",
    "add-reward there --json": "",
    "add-reward other --dry-run --no-format": "jinja2 tomli_w yaml",
    "add-reward other": "jinja2 tomli_w yaml",
    "update edited --set ignore_case=false": "jinja2 tomli_w",
    "remove removed": "tomli_w yaml",
    "recover": "",
    f"skills list --target {ROOT}": "yaml",
    f"skills sync --check --target {ROOT}": "jinja2 pathspec tomli_w yaml",
    f"skills install --check --target {ROOT}": "",
    "deps catalog click": "packaging pathspec",  # without a use, pins are looked for
    f"review HEAD..HEAD --target {ROOT}": "pathspec yaml",
    f"docs plan docs/en/index.md --target {ROOT}": "markdown_it pathspec",
}
# The same for what ends in an error, with the exit status.
FAILING = {
    "add-reward class": (2, ""),
    "add-reward x --no-such": (2, ""),
    "show nothing": (1, ""),
    "deps audit click one two": (2, "packaging pathspec"),
    "deps plan click": (2, "packaging"),
    "commit-msg --check no-such-file": (2, ""),
    "commit-msg --target /": (1, "pathspec"),
    "pr --target /": (1, "pathspec"),
    "debug run -- no-such-program": (2, "psutil"),
    "debug compare a b": (2, ""),
    "debug env --mesh wrong": (2, "psutil"),
}
# The words before the cursor where a shell asks for completions.
COMPLETED = ["", "status --", "add-reward --", "show "]


def packages_of(folder: Path, argv: str, status: int = 0, **env: str) -> set[str]:
    """Return the third-party packages that a command has imported when it ends."""
    code = (
        "import atexit, sys\n"
        "atexit.register(lambda: print('\\n', *sys.modules, file=sys.stderr))\n"
        f"sys.argv = ['scaffold', *{argv.split()!r}]\n{MAIN}"
    )
    kept = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=kept | env, capture_output=True, text=True
    )
    assert ran.returncode == status, ran.stdout + ran.stderr
    tops = {name.split(".")[0] for name in ran.stderr.splitlines()[-1].split()}
    others = tops - sys.stdlib_module_names - {"scaffold"} - COMPANIONS
    return {name for name in others if not name.startswith("_")}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a project with the units that the commands above name."""
    folder = tmp_path_factory.mktemp("project")
    run = [sys.executable, "-c", MAIN]
    subprocess.run([*run, "new", "my_rl"], cwd=folder, check=True)
    for name in ("there", "edited", "removed"):
        argv = [*run, "add-reward", name, "--no-format"]
        subprocess.run(argv, cwd=folder / "my_rl", check=True)
    return folder / "my_rl"


@pytest.mark.parametrize("argv", COMMANDS)
def test_a_command_brings_the_packages_of_the_table(argv: str, project: Path) -> None:
    assert packages_of(project, argv) == set(COMMANDS[argv].split())


@pytest.mark.parametrize("argv", FAILING)
def test_a_failing_command_brings_the_packages_of_the_table(argv: str, project: Path) -> None:
    status, packages = FAILING[argv]
    assert packages_of(project, argv, status) == set(packages.split())


@pytest.mark.parametrize("words", COMPLETED)
def test_completion_brings_no_package(words: str, project: Path) -> None:
    line = f"scaffold {words}"
    env = {"_SCAFFOLD_COMPLETE": "bash_complete", "COMP_WORDS": line}
    assert packages_of(project, "", **env, COMP_CWORD=str(line.count(" "))) == set()
