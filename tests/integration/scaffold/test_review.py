"""`scaffold review` on repositories built here: what it finds, what it stays silent about."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from scaffold.cli.main import main
from tests.reports import REPORTS
from tests.sarif import Place, read_places
from tests.unit.scaffold.verify.test_process import ends

from .conftest import Outcome, run_scaffold

pytestmark = pytest.mark.heavy

IDENTITY = {
    "GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@example.org",
    "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull,
}  # fmt: skip

ENGINE = '''"""An engine."""

LIMIT = 3


class Engine:
    def __init__(self, size: int, name: str = "x") -> None:
        self.size = size

    def generate(self, prompt: str, limit: int = LIMIT) -> str:
        return self._cut(prompt, limit)

    def _cut(self, text: str, limit: int) -> str:
        return text[:limit]


def make(size: int, fast: bool = False) -> Engine:
    if size < 0:
        raise ValueError("size")
    return Engine(size)


def old_way(size: int) -> Engine:
    return make(size)
'''
FILES = {
    "requirements-train.txt": "torch\n",
    "pkg/__init__.py": "from pkg.engine import Engine as Engine, make as make\n",
    "pkg/engine.py": ENGINE,
    "pkg/use.py": (
        "import pkg as p\nfrom pkg import Engine as E\n\n\n"
        "def run(prompt: str) -> str:\n    engine = E(3)\n"
        "    return engine.generate(prompt, limit=2)\n"
        "\n\ndef quick() -> E:\n    return p.make(3, fast=True)\n"
    ),
    "tests/test_engine.py": (
        "from pkg import make\n\n\ndef test_make():\n    assert make(1).size == 1\n"
    ),
    "README.md": "# A package\n",
}


class Repository:
    """Is a repository that a test makes step by step."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.git("init", "-q", "-b", "main")

    def git(self, *argv: str) -> str:
        done = subprocess.run(
            ["git", *argv], cwd=self.folder, env={**os.environ, **IDENTITY},
            capture_output=True, check=True,
        )  # fmt: skip
        return done.stdout.decode("utf-8", "replace")

    def write(self, files: dict[str, str | bytes | None]) -> None:
        for path, content in files.items():
            place = self.folder / path
            if content is None:
                place.unlink()
                continue
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content.encode() if isinstance(content, str) else content)

    def commit(self, files: dict[str, str | bytes | None], subject: str = "feat: x") -> None:
        self.write(files)
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", subject)

    def review(self, *argv: str, quick: bool = True) -> dict[str, Any]:
        """Run the command, and return its report; nothing may have been written."""
        argv = (*argv, "--quick") if quick else argv
        before = self.state()
        done = self.run(*argv)
        assert done.status == 0, done.text
        assert self.state() == before
        return done.report["review"]

    def run(self, *argv: str) -> Outcome:
        """Runs the command in this process, as a person would on the command line."""
        done = CliRunner().invoke(main, ["review", *argv, "--target", str(self.folder), "--json"])
        report = json.loads(done.stdout)
        REPORTS.validate(report)
        return Outcome(done.exit_code, report, done.output)

    def state(self) -> dict[str, tuple[int, str]]:
        """Returns every file of the tree and of .git, with its mode and content."""
        return {
            str(path.relative_to(self.folder)): (
                path.lstat().st_mode,
                hashlib.sha256(path.read_bytes()).hexdigest(),
            )
            for path in sorted(self.folder.rglob("*"))
            if path.is_file()
        }


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path / "repository")
    made.commit({**FILES}, "feat: begin")
    made.git("switch", "-q", "-c", "change")
    return made


# --- what a change breaks -------------------------------------------------------------------------


def test_a_keyword_that_callers_still_pass_is_a_finding(repository: Repository) -> None:
    repository.commit({"pkg/engine.py": ENGINE.replace(", fast: bool = False", "")})
    report = repository.review()
    assert [(each["fact"], each["path"], each["line"]) for each in report["findings"]] == [
        ("call-broken", "pkg/use.py", 11)
    ]
    (change,) = [each for each in report["symbols"] if each["name"] == "make"]
    assert change["breaks"] == "make takes no 'fast' any more"
    assert "has no parameter 'fast'" in report["findings"][0]["claim"]
    assert report["severity"] == "HIGH"


def test_only_what_is_public_breaks_callers_outside(repository: Repository) -> None:
    repository.commit({"pkg/own.py": "def _cut(a): ...\n\n\ndef cut(a): ...\n"})
    repository.git("branch", "-f", "main")
    repository.commit({"pkg/own.py": "def _cut(a, b): ...\n\n\ndef cut(a, b): ...\n"})
    told = {each["name"]: each["breaks"] for each in repository.review()["symbols"]}
    assert told == {"_cut": None, "cut": "cut requires 'b'"}


def test_a_parameter_that_a_constructor_now_needs_is_found_through_aliases(
    repository: Repository,
) -> None:
    repository.commit({"pkg/engine.py": ENGINE.replace('name: str = "x"', "name: str")})
    places = {(each["path"], each["line"]) for each in repository.review()["findings"]}
    assert places == {("pkg/use.py", 6), ("pkg/engine.py", 20)}


def test_a_method_s_argument_is_found_on_what_a_constructor_made(repository: Repository) -> None:
    renamed = ENGINE.replace("limit: int = LIMIT", "most: int = LIMIT")
    renamed = renamed.replace("self._cut(prompt, limit)", "self._cut(prompt, most)")
    repository.commit({"pkg/engine.py": renamed})
    findings = repository.review()["findings"]
    assert [(each["path"], each["line"]) for each in findings] == [("pkg/use.py", 7)]


def test_a_name_that_is_gone_is_found_where_it_is_imported(repository: Repository) -> None:
    gone = ENGINE.replace("def make(", "def build(").replace("return make(", "return build(")
    repository.commit({"pkg/engine.py": gone})
    report = repository.review()
    assert [(each["fact"], each["path"]) for each in report["findings"]] == [
        ("name-gone", "pkg/__init__.py")
    ]


@pytest.mark.parametrize("is_defined", [True, False])
def test_a_name_that_a_package_took_from_a_module_is_found_where_the_package_lost_it(
    repository: Repository, is_defined: bool
) -> None:
    text = ENGINE if is_defined else ENGINE.replace("make(", "build(")
    package = FILES["pkg/__init__.py"].replace(", make as make", "")
    repository.commit({"pkg/engine.py": text, "pkg/__init__.py": package})
    findings = repository.review()["findings"]
    assert [(each["fact"], each["path"], each["line"]) for each in findings] == [
        ("name-gone", "pkg/use.py", 11),
        ("name-gone", "tests/test_engine.py", 1),
    ]
    assert "pkg/__init__.py does not have it any more" in findings[0]["claim"]


def test_a_name_of_a_module_that_is_gone_is_no_name_that_its_package_lost(
    repository: Repository,
) -> None:
    text = "from pkg.engine import make\n\n\ndef run():\n    return make(1)\n"
    repository.commit({"pkg/own.py": text})
    repository.git("mv", "pkg/engine.py", "pkg/motor.py")
    package = "from pkg.motor import Engine as Engine\n"
    repository.commit({"pkg/__init__.py": package})
    found = repository.review("HEAD~1..HEAD")["findings"]
    assert [(each["path"], each["line"]) for each in found if each["path"] == "pkg/own.py"] == [
        ("pkg/own.py", 1)
    ]


def test_a_module_that_moved_is_found_where_its_old_name_is_imported(
    repository: Repository,
) -> None:
    repository.git("mv", "pkg/engine.py", "pkg/motor.py")
    repository.commit({})
    report = repository.review()
    assert ("name-gone", "pkg/__init__.py", 1) in {
        (each["fact"], each["path"], each["line"]) for each in report["findings"]
    }


def test_what_the_work_tree_holds_is_no_part_of_an_older_commit(repository: Repository) -> None:
    repository.commit({"pkg/engine.py": None})
    repository.commit({"pkg/engine.py": ENGINE})
    found = repository.review("HEAD~2..HEAD~1")["findings"]
    assert ("name-gone", "pkg/__init__.py", 1) in {
        (each["fact"], each["path"], each["line"]) for each in found
    }


def test_a_module_that_became_a_link_is_not_gone(repository: Repository) -> None:
    repository.git("mv", "pkg/engine.py", "pkg/motor.py")
    (repository.folder / "pkg" / "engine.py").symlink_to("motor.py")
    repository.commit({})
    repository.commit({"pkg/engine.py": None})
    assert repository.review("main..HEAD~1")["findings"] == []


def test_a_change_that_breaks_nothing_has_no_findings(repository: Repository) -> None:
    longer = ENGINE.replace("fast: bool = False", "fast: bool = False, slow: bool = False")
    repository.commit({"pkg/engine.py": longer})
    report = repository.review()
    assert report["findings"] == []
    assert report["defaults"] == []
    assert [(each["name"], each["how"]) for each in report["symbols"]] == [("make", "head")]


def test_a_call_that_a_test_expects_to_fail_is_no_finding(repository: Repository) -> None:
    repository.commit(
        {
            "pkg/use.py": "",
            "tests/test_refusal.py": "import pytest\nfrom pkg.engine import make\n\n\n"
            "def test_refusal():\n    with pytest.raises(TypeError):\n        make(1)\n",
        }
    )
    renamed = ENGINE.replace("fast: bool = False", "fast: bool")
    repository.commit({"pkg/engine.py": renamed})
    broken = {each["path"] for each in repository.review()["findings"]}
    assert broken == {"pkg/engine.py", "tests/test_engine.py"}


def test_sources_whose_names_are_no_text_come_and_go(repository: Repository) -> None:
    name = os.fsencode(repository.folder / "pkg" / "caf") + b"\xe9.py"
    Path(os.fsdecode(name)).write_text("def brew(): ...\n", encoding="utf-8")
    repository.commit({})
    assert [each["name"] for each in repository.review()["symbols"]] == ["brew"]
    Path(os.fsdecode(name)).unlink()
    repository.commit({})
    gone = repository.review("HEAD~1..HEAD")
    assert [(each["name"], each["how"]) for each in gone["symbols"]] == [("brew", "removed")]


def test_an_import_that_may_fail_is_no_finding(repository: Repository) -> None:
    guarded = "try:\n    from pkg.engine import old_way\nexcept ImportError:\n    old_way = None\n"
    repository.commit({"pkg/compat.py": guarded})
    cut = ENGINE[: ENGINE.index("\n\ndef old_way")]
    repository.commit({"pkg/engine.py": cut})
    assert repository.review()["findings"] == []


# --- who uses what changed, and which tests reach it ----------------------------------------------


def test_callers_are_found_through_re_exports_and_aliases(repository: Repository) -> None:
    repository.commit({"pkg/engine.py": ENGINE.replace("if size < 0", "if size < 1")})
    report = repository.review()
    callers = {
        (each["path"], each["line"], each["inside"], each["how"])
        for each in report["callers"]
        if each["of"] == {"path": "pkg/engine.py", "name": "make"}
    }
    assert callers == {
        ("pkg/__init__.py", 1, "", "import"),
        ("pkg/engine.py", 24, "old_way", "call"),
        ("pkg/use.py", 11, "quick", "call"),
        ("tests/test_engine.py", 1, "", "import"),
        ("tests/test_engine.py", 5, "test_make", "call"),
    }
    assert report["untested"] == []


def test_a_public_function_that_no_test_reaches_is_named(repository: Repository) -> None:
    fresh = ENGINE + "\n\ndef lonely(size: int) -> int:\n    return size\n"
    repository.commit({"pkg/engine.py": fresh})
    assert repository.review()["untested"] == [
        {"path": "pkg/engine.py", "line": 27, "name": "lonely"}
    ]


def test_tests_that_addopts_deselects_are_named(repository: Repository) -> None:
    """Whoever runs the file that is named sees `1 deselected`, which reads like a pass."""
    text = (
        '"""Tests."""\n\nimport pytest\n\nfrom pkg import make\n\n\ndef test_make():\n    make(1)\n'
    )
    text += "\n\n@pytest.mark.slow\ndef test_many():\n    make(100)\n"
    settings = "[tool.pytest.ini_options]\naddopts = \"-m 'not slow'\"\n"
    files = {"tests/test_engine.py": text, "pyproject.toml": settings}
    repository.commit({**files, "pkg/engine.py": ENGINE.replace("size < 0", "size < 1")})
    assert repository.review()["deselected"] == [
        {"path": "tests/test_engine.py", "runs": 1, "tests": 2, "markers": "not slow"}
    ]
    argv = ["review", "--quick", "--target", str(repository.folder)]
    told = CliRunner().invoke(main, argv).output
    assert "- pytest runs 1 of 2 tests of `tests/test_engine.py` unless -m selects others" in told


# --- pyright and ruff -----------------------------------------------------------------------------

UNTYPED = """import os


def read(path):
    data = {}
    data.missing = 1
    return data
"""
BUGS = {
    "an undefined name": ("def use(path):\n    return os.stat(pth)\n", ("pyright", 11)),
    "a call that does not fit": ("def use(path):\n    return read(path, 1)\n", ("call-broken", 11)),
    "a name that a module lacks": ("from os import statt\n", ("pyright", 10)),
    "an attribute of a module": ("def use():\n    return os.statt\n", ("pyright", 11)),
    "an attribute before its value": ("def use():\n    print(x)\n    x = 1\n", ("pyright", 11)),
    "a percent format": ('def use():\n    return "%s %s" % (1,)\n', ("ruff", 11)),
    "a keyword twice": ("def use():\n    return dict(a=1, a=2)\n", ("syntax-broken", 11)),
    "return outside": ("return 1\n", ("syntax-broken", 10)),
}


def test_each_bug_that_a_change_brings_in_is_a_finding(repository: Repository) -> None:
    paths = {f"pkg/plain{number}.py": bug for number, bug in enumerate(BUGS.values())}
    repository.commit(dict.fromkeys(paths, UNTYPED))
    repository.git("branch", "-f", "main")
    repository.commit({path: f"{UNTYPED}\n\n{text}" for path, (text, _) in paths.items()})
    report = repository.review(quick=False)
    assert {path: sorted(found) for path, found in _by_path(report["findings"]).items()} == {
        # A call that never fitted was not broken by a change of what it calls.
        path: [("pyright", 11) if wanted[0] == "call-broken" else wanted]
        for path, (_, wanted) in paths.items()
    }
    unread = {path for path, (_, wanted) in paths.items() if wanted[0] == "syntax-broken"}
    assert set(report["not_read"]) <= {
        f"the definitions of {path}: it cannot be parsed" for path in unread
    }


def _by_path(findings: list[dict[str, Any]]) -> dict[str, set[tuple[str, int]]]:
    found: dict[str, set[tuple[str, int]]] = {}
    for each in findings:
        found.setdefault(each["path"], set()).add((each["fact"], each["line"]))
    return found


def test_what_was_reported_before_is_no_finding_wherever_it_stands_now(
    repository: Repository,
) -> None:
    repository.commit({"pkg/plain.py": UNTYPED + "\n\nprint(undefined)\n"})
    repository.git("branch", "-f", "main")
    repository.git("mv", "pkg/plain.py", "pkg/moved.py")
    repository.commit({"pkg/moved.py": "# moved\n\n" + UNTYPED + "\n\nprint(undefined)\n"})
    assert repository.review(quick=False)["findings"] == []


def test_a_line_that_was_reported_is_no_finding_in_other_words(repository: Repository) -> None:
    text = "class Config:\n    rate: bool\n\n    def fix(self):\n        self.rate = b''\n"
    repository.commit({"pkg/plain.py": text})
    repository.git("branch", "-f", "main")
    repository.commit({"pkg/plain.py": text.replace("bool", "str")})
    assert repository.review(quick=False)["findings"] == []


def test_a_file_that_did_not_change_is_checked_where_it_uses_what_did(
    repository: Repository,
) -> None:
    user = "from pkg.engine import make\n\n\ndef name() -> int:\n    return make(1).size\n"
    repository.commit({"pkg/user.py": user})
    repository.git("branch", "-f", "main")
    repository.commit({"pkg/engine.py": ENGINE.replace("self.size = size", "self.extent = size")})
    findings = repository.review(quick=False)["findings"]
    assert ("pyright", "pkg/user.py", 5) in {
        (each["fact"], each["path"], each["line"]) for each in findings
    }


def test_a_review_that_is_killed_ends_its_checkers(repository: Repository, tmp_path: Path) -> None:
    repository.commit({"pkg/engine.py": ENGINE + "\n\nLAST = 1\n"})
    started = tmp_path / "started"
    pyright = tmp_path / "bin" / "pyright"
    pyright.parent.mkdir()
    # As pyright's launcher does, it waits for a process of its own.
    pyright.write_text(f"#!/bin/sh\nsleep 600 &\necho $! >> {started}\nwait\n")
    pyright.chmod(0o755)
    argv = [sys.executable, "-m", "scaffold", "review", "main..HEAD"]
    path = f"{pyright.parent}{os.pathsep}{os.environ['PATH']}"
    with subprocess.Popen(argv, cwd=repository.folder, env={**os.environ, "PATH": path}) as review:
        while not started.exists() or len(started.read_text().split()) < 2:
            assert review.poll() is None
            time.sleep(0.05)
        review.terminate()
    assert all(ends(int(pid)) for pid in started.read_text().split())


def test_the_configuration_of_the_repository_counts(repository: Repository) -> None:
    table = '[tool.ruff.lint]\nselect = ["T20"]\n[tool.pyright]\nreportReturnType = "error"\n'
    repository.commit({"pyproject.toml": table})
    repository.git("branch", "-f", "main")
    fresh = "\n\ndef name(size: int) -> str:\n    print(size)\n    return size\n"
    repository.commit({"pkg/engine.py": ENGINE + fresh})
    findings = repository.review(quick=False)["findings"]
    assert [(each["fact"], each["line"]) for each in findings] == [("ruff", 28), ("pyright", 29)]


def test_what_a_newer_ruff_turns_on_unasked_does_not_count(repository: Repository) -> None:
    config = 'target-version = "py38"\nlint.extend-select = ["T20"]\n'
    repository.commit({"ruff.toml": config})
    repository.git("branch", "-f", "main")
    # F401 is a default of every ruff; BLE001, FA100 and S110 are defaults of newer ones alone.
    fresh = "\n\ntry:\n    import os\n\n    print(1)\nexcept Exception:\n    pass\n"
    fresh += "from typing import Optional\nx: Optional[int] = 1\n"
    repository.commit({"pkg/engine.py": ENGINE + fresh})
    findings = repository.review(quick=False)["findings"]
    assert [(each["fact"], each["line"]) for each in findings] == [("ruff", 28), ("ruff", 30)]


def test_a_call_that_a_test_expects_to_fail_is_none_of_pyright_either(
    repository: Repository,
) -> None:
    text = "import pytest\nfrom pkg.engine import make\n\n\ndef test_refusal():\n"
    text += "    with pytest.raises(TypeError):\n        make()\n    make(1, 2, 3)\n"
    repository.commit({"tests/test_refusal.py": text})
    findings = repository.review(quick=False)["findings"]
    assert [(each["fact"], each["line"]) for each in findings] == [("pyright", 8)]


def test_an_overload_that_pyright_does_not_choose_is_no_finding(repository: Repository) -> None:
    text = "\n\ndef first(form: list[str], key):\n    key = 'a' if key else 'b'\n"
    repository.commit({"pkg/engine.py": f"{ENGINE}{text}    return form[key]\n"})
    assert repository.review(quick=False)["findings"] == []


def test_a_rule_that_the_change_turns_on_counts_for_its_own_lines(repository: Repository) -> None:
    repository.commit({"pkg/plain.py": "print(1)\n"})
    repository.git("branch", "-f", "main")
    repository.commit(
        {"ruff.toml": 'lint.select = ["T20"]\n', "pkg/plain.py": "print(1)\nprint(2)\n"}
    )
    findings = repository.review(quick=False)["findings"]
    assert [(each["fact"], each["line"]) for each in findings] == [("ruff", 2)]


def test_fields_of_a_dataclass_in_another_order_name_the_calls(repository: Repository) -> None:
    text = "from dataclasses import dataclass\n\n\n@dataclass\nclass Item:\n"
    user = "from pkg.item import Item\n\nx = Item('a', 1)\ny = Item(name='a', price=1)\n"
    repository.commit({"pkg/item.py": f"{text}    name: str\n    price: int\n", "pkg/buy.py": user})
    repository.git("branch", "-f", "main")
    repository.commit({"pkg/item.py": f"{text}    price: int\n    name: str\n"})
    review = repository.review()
    assert [(each["name"], each["breaks"]) for each in review["symbols"]] == [
        ("Item.__init__", "Item.__init__ takes its arguments in another order")
    ]
    callers = [(each["path"], each["line"]) for each in review["callers"]]
    assert callers == [("pkg/buy.py", 3), ("pkg/buy.py", 4)]


# --- defaults and domains -------------------------------------------------------------------------


def test_a_changed_default_names_who_relies_on_it(repository: Repository) -> None:
    config = "class Config:\n    rate: float = 0.1\n    name = 'a'\n"
    repository.commit({"pkg/config.py": config})
    repository.git("branch", "-f", "main")
    repository.commit(
        {
            "pkg/engine.py": ENGINE.replace("fast: bool = False", "fast: bool = True").replace(
                "LIMIT = 3", "LIMIT = 4"
            ),
            "pkg/config.py": config.replace("0.1", "0.2"),
        }
    )
    found = {
        (each["owner"], each["name"]): (each["old"], each["new"], each["reliers"])
        for each in repository.review()["defaults"]
    }
    assert found == {
        ("make", "fast"): ("False", "True", ["pkg/engine.py:24", "tests/test_engine.py:5"]),
        ("", "LIMIT"): ("3", "4", []),
        ("Config", "rate"): ("0.1", "0.2", []),
    }


def test_a_place_that_no_row_names_is_unknown_and_never_low(repository: Repository) -> None:
    repository.commit({"pkg/zebra.py": "x = 1\n"})
    report = repository.review()
    assert report["severity"] == "unknown"
    assert [(each["domain"], each["files"]) for each in report["readings"]] == [
        ("unknown", ["pkg/zebra.py"])
    ]


# --- silence --------------------------------------------------------------------------------------


def test_a_renamed_file_without_a_change_is_low(repository: Repository) -> None:
    repository.git("mv", "README.md", "READ.md")
    repository.commit({})
    report = repository.review()
    assert (report["severity"], report["findings"]) == ("LOW", [])
    assert report["files"][0]["status"] == "R"


def test_a_docstring_changes_no_definition(repository: Repository) -> None:
    text = 'def f():\n    """Does a."""\n    return 1\n'
    repository.commit({"pkg/a.py": text})
    repository.git("branch", "-f", "main")
    repository.commit({"pkg/a.py": text.replace("Does a.", "Does b.") + "# end\n"})
    report = repository.review()
    assert report["symbols"] == []


# --- which change is meant ------------------------------------------------------------------------


def test_the_states_are_those_that_the_command_line_names(repository: Repository) -> None:
    repository.commit({"a.txt": "1\n"})
    repository.write({"b.txt": "1\n", "c.txt": "1\n"})
    repository.git("add", "b.txt")

    def paths(*argv: str) -> list[str]:
        return [each["path"] for each in repository.review(*argv)["files"]]

    assert paths() == ["a.txt"]
    assert paths("--staged") == ["b.txt"]
    assert paths("--worktree") == ["a.txt", "b.txt", "c.txt"]
    assert paths("main..HEAD") == ["a.txt"]
    assert paths("--base", "main") == ["a.txt"]
    repository.git("switch", "-q", "main")
    assert paths("change") == ["a.txt"]


BAD: list[tuple[tuple[str, ...], int, str]] = [
    (("nowhere..HEAD",), 2, "revision_unknown"),
    (("nowhere",), 2, "revision_unknown"),
    (("--base", "nowhere"), 2, "revision_unknown"),
    (("--staged", "--worktree"), 2, "usage"),
    (("main..HEAD", "--staged"), 2, "usage"),
    (("main..HEAD", "--base", "main"), 2, "usage"),
    (("--pr", "3", "--staged"), 2, "usage"),
]


@pytest.mark.parametrize(("argv", "status", "code"), BAD)
def test_a_wrong_request_is_an_error_that_says_what_to_do(
    repository: Repository, argv: tuple[str, ...], status: int, code: str
) -> None:
    done = repository.run(*argv)
    assert (done.status, done.report["error"]["code"]) == (status, code)
    assert done.report["error"]["hint"]


def test_the_report_has_its_headings_and_says_the_same_twice(repository: Repository) -> None:
    repository.commit({"pkg/engine.py": ENGINE.replace(", fast: bool = False", "")})
    first, second = (run_scaffold(repository.folder, "review", "--quick") for _ in range(2))
    assert first == second
    assert first.status == 0
    headings = [line for line in first.text.splitlines() if line.startswith(("# ", "## "))]
    assert headings == [
        "# CHANGE_ANALYSIS_REPORT", "## Summary", "## Files", "## Findings", "## Changed defaults",
        "## Symbols", "## Callers", "## Tests", "## Readings", "## Not read",
        "## Findings template",
    ]  # fmt: skip


# --- odd places -----------------------------------------------------------------------------------


def test_in_an_empty_repository_there_is_only_what_is_staged(tmp_path: Path) -> None:
    made = Repository(tmp_path / "empty")
    assert made.run().report["error"]["code"] == "revision_unknown"
    made.write({"a.py": "def f():\n    return eval('1')\n", "b.py": "x = 1\n"})
    made.git("add", "a.py")
    assert [each["path"] for each in made.review("--staged")["files"]] == ["a.py"]
    assert [each["path"] for each in made.review("--worktree")["files"]] == ["a.py", "b.py"]


def test_outside_of_a_repository_the_error_says_so(tmp_path: Path) -> None:
    done = run_scaffold(tmp_path, "review", "--json")
    assert (done.status, done.report["error"]["code"]) == (1, "repository_missing")


def test_a_dirty_work_tree_is_read_and_its_index_is_left_alone(repository: Repository) -> None:
    """Git refreshes the index where times differ, unless it is told not to."""
    place = repository.folder / "README.md"
    os.utime(place, (1, 1))
    repository.write({"pkg/engine.py": ENGINE.replace("fast: bool = False", "quick: bool = False")})
    report = repository.review("--worktree")
    assert [each["fact"] for each in report["findings"]] == ["call-broken"]


def test_a_detached_head_is_compared_with_the_default_branch(repository: Repository) -> None:
    repository.commit({"a.txt": "1\n"})
    repository.git("switch", "-q", "--detach")
    assert [each["path"] for each in repository.review()["files"]] == ["a.txt"]


def test_the_default_branch_of_the_remote_comes_first(tmp_path: Path) -> None:
    origin = Repository(tmp_path / "origin")
    origin.git("branch", "-m", "stable")
    origin.commit({"a.txt": "1\n"})
    subprocess.run(["git", "clone", "-q", str(origin.folder), str(tmp_path / "clone")], check=True)
    clone = Repository(tmp_path / "clone")
    assert clone.review()["files"] == []
    clone.commit({"b.txt": "1\n"})
    report = clone.review()
    assert [each["path"] for each in report["files"]] == ["b.txt"]
    assert "origin/stable" in report["why"]


def test_without_any_base_the_error_says_how_to_name_one(tmp_path: Path) -> None:
    made = Repository(tmp_path / "lone")
    made.git("branch", "-m", "odd")
    made.commit({"a.txt": "1\n"})
    error = made.run().report["error"]
    assert error["code"] == "revision_unknown"
    assert "--base" in error["hint"]


def test_a_shallow_clone_says_that_its_history_was_cut(repository: Repository) -> None:
    repository.commit({"a.txt": "1\n"})
    shallow = repository.folder.parent / "shallow"
    address = repository.folder.as_uri()
    subprocess.run(["git", "clone", "-q", "--depth=1", address, str(shallow)], check=True)
    clone = Repository(shallow)
    error = clone.run("HEAD~1..HEAD").report["error"]
    assert "shallow" in error["hint"]
    assert clone.review()["files"] == []


def test_binary_files_links_submodules_and_modes_are_told_apart(repository: Repository) -> None:
    repository.write({"image.bin": b"\0\1\2", "run.sh": "echo\n", "latin.py": b"x = '\xe9'\n"})
    (repository.folder / "run.sh").chmod(0o755)
    (repository.folder / "pointer").symlink_to("README.md")
    repository.git("add", "-A")
    commit = repository.git("rev-parse", "HEAD").strip()
    repository.git("update-index", "--add", "--cacheinfo", f"160000,{commit},inner")
    repository.git("commit", "-q", "-m", "feat: odd files")
    report = repository.review()
    assert {each["path"]: each["is_binary"] for each in report["files"]} == {
        "image.bin": True, "run.sh": False, "pointer": False, "inner": False, "latin.py": False,
    }  # fmt: skip
    text = run_scaffold(repository.folder, "review", "--quick").text
    assert "| submodule |" in text
    assert "| binary |" in text


def test_a_merge_is_what_it_brought_to_its_first_parent(repository: Repository) -> None:
    repository.commit({"a.txt": "1\n"})
    repository.git("switch", "-q", "main")
    repository.commit({"b.txt": "1\n"})
    repository.git("merge", "-q", "--no-ff", "-m", "merge", "change")
    assert [each["path"] for each in repository.review("HEAD~1..HEAD")["files"]] == ["a.txt"]


def test_an_unmerged_index_is_read_all_the_same(repository: Repository) -> None:
    repository.commit({"README.md": "# One\n"})
    repository.git("switch", "-q", "main")
    repository.commit({"README.md": "# Two\n"})
    with pytest.raises(subprocess.CalledProcessError):
        repository.git("merge", "-q", "change")
    assert {each["path"] for each in repository.review("--staged")["files"]} == {"README.md"}
    assert {each["path"] for each in repository.review("--worktree")["files"]} <= {"README.md"}


def test_a_repository_that_lacks_an_object_is_no_fault_of_the_tool(
    repository: Repository,
) -> None:
    repository.commit({"README.md": "# Another\n"})
    name = repository.git("rev-parse", "HEAD:README.md").strip()
    (repository.folder / ".git" / "objects" / name[:2] / name[2:]).unlink()
    done = repository.run()
    assert (done.status, done.report["error"]["code"]) == (1, "repository_missing")
    assert name[:7] in done.report["error"]["message"]


def test_odd_names_stay_on_their_line(repository: Repository) -> None:
    repository.commit({"a `b` |c\nd.py": "x = eval('1')\n"})
    assert [each["path"] for each in repository.review()["files"]] == ["a `b` |c\nd.py"]
    text = run_scaffold(repository.folder, "review", "--quick").text
    (row,) = [line for line in text.splitlines() if line.startswith("|") and "added" in line]
    assert row.count("|") - row.count("\\|") == 6


def test_a_source_that_breaks_is_a_finding(repository: Repository) -> None:
    repository.commit({"pkg/use.py": "def run(:\n"})
    report = repository.review()
    assert [each["fact"] for each in report["findings"]] == ["syntax-broken"]
    assert "the definitions of pkg/use.py: it cannot be parsed" in report["not_read"]


def test_findings_are_written_for_code_hosts(repository: Repository) -> None:
    repository.commit({"pkg/use.py": "def run(:\n"})
    done = run_scaffold(repository.folder, "review", "--quick", "--format", "sarif")
    assert read_places(done.text) == [Place("syntax-broken", "error", "pkg/use.py", 1, 1)]
    done = run_scaffold(repository.folder, "review", "--quick", "--format", "github")
    assert done.text.startswith("::error file=pkg/use.py,line=1,col=1,title=syntax-broken::it does")


def test_a_pull_request_is_fetched_without_moving_a_ref(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.commit({"a.txt": "1\n"})
    repository.git("update-ref", "refs/pull/7/head", "HEAD")
    subprocess.run(
        ["git", "clone", "-q", "-b", "main", "--single-branch", str(repository.folder), "clone"],
        cwd=tmp_path, check=True,
    )  # fmt: skip
    gh = tmp_path / "bin" / "gh"
    gh.parent.mkdir()
    url = f"{repository.folder}/pull/7"
    gh.write_text(f"#!/bin/sh\necho '{json.dumps({'url': url, 'baseRefName': 'main'})}'\n")
    gh.chmod(0o755)
    monkeypatch.setenv("PATH", str(gh.parent), prepend=os.pathsep)
    clone = Repository(tmp_path / "clone")
    refs = clone.git("for-each-ref")
    done = clone.run("--pr", "7", "--quick")
    assert done.status == 0, done.text
    assert [each["path"] for each in done.report["review"]["files"]] == ["a.txt"]
    assert done.report["review"]["why"] == "pull request 7 into main"
    assert clone.git("for-each-ref") == refs


# --- settings -------------------------------------------------------------------------------------

OWN = """
[[domain]]
id = "stripes"
title = "Stripes"
severity = "HIGH"
words = ["zebra"]
look = "Whether each stripe is there."
"""


def test_a_repository_has_domains_of_its_own(repository: Repository) -> None:
    table = (
        '[tool.scaffold.review]\ndomains = ["domains.toml"]\n'
        'severity = { documentation = "HIGH" }\n'
        'roles = { generated = ["made/"] }\nagents = { stripes = "reader" }\n'
    )
    repository.commit({"pyproject.toml": table, "domains.toml": OWN})
    repository.git("branch", "-f", "main")
    repository.commit({"made/a.py": "x = 1\n", "pkg/zebra.py": "x = 1\n", "README.md": "#\n"})
    report = repository.review()
    assert {each["path"]: (each["domains"][0], each["severity"]) for each in report["files"]} == {
        "made/a.py": ("assets", "LOW"),
        "pkg/zebra.py": ("stripes", "HIGH"),
        "README.md": ("documentation", "HIGH"),
    }
    agents = {each["domain"]: each["agent"] for each in report["readings"]}
    assert agents == {"stripes": "reader", "documentation": None, "assets": None}


def test_a_change_cannot_lower_its_own_severity(repository: Repository) -> None:
    table = '[tool.scaffold.review]\nseverity = { engine = "LOW" }\n'
    repository.commit({"pyproject.toml": table, "pkg/engine.py": ENGINE + "x = 1\n"})
    rows = {each["path"]: each["severity"] for each in repository.review()["files"]}
    assert rows["pkg/engine.py"] == "HIGH"


def test_words_of_training_mean_other_things_elsewhere(repository: Repository) -> None:
    (repository.folder / "requirements-train.txt").unlink()
    repository.commit({"pkg/plain.py": "x = 1\n"})
    repository.git("branch", "-f", "main")
    repository.commit({"pkg/backends/smtp.py": "x = 1\n", "pkg/worker_cache.py": "x = 1\n"})
    rows = {each["path"]: each["severity"] for each in repository.review()["files"]}
    assert rows == {"pkg/backends/smtp.py": "unknown", "pkg/worker_cache.py": "unknown"}
    repository.commit({"pkg/plain.py": "import torch.nn\n"})
    repository.git("branch", "-f", "main")
    repository.commit({"pkg/backends/smtp.py": "x = 2\n"})
    (reading,) = repository.review()["readings"]
    assert reading["domain"] == "engine"


def test_a_subagent_is_chosen_by_its_name_or_description(repository: Repository) -> None:
    agent = "---\nname: {}\ndescription: {}.\n---\nRead.\n"
    repository.commit(
        {
            ".claude/agents/a.md": agent.format("cook", "Cooks for the engine room"),
            ".claude/agents/b.md": agent.format("reader", "Reviews the trainer and its engine"),
        }
    )
    repository.git("branch", "-f", "main")
    repository.commit({"pkg/engine.py": ENGINE + "x = 1\n"})
    (reading,) = repository.review()["readings"]
    # One word of a description is chance, two are not.
    assert (reading["domain"], reading["agent"]) == ("engine", "reader")


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("rules = []", "unknown key 'rules'; did you mean 'roles'?"),
        ('domains = ["none.toml"]', "which are not there"),
        ('severity = { engin = "LOW" }', "did you mean 'engine'?"),
        ('severity = { engine = "SEVERE" }', "is none of HIGH, MEDIUM, LOW"),
        ('severity = { engine = "unknown" }', "is none of HIGH, MEDIUM, LOW"),
        ('roles = { tests = ["t/"] }', "did you mean 'test'?"),
        ('agents = "me"', "'agents' must be dict, not str"),
        ('domains = ["README.md"]', "README.md is not a table of domains"),
    ],
)
def test_wrong_settings_are_named(repository: Repository, table: str, said: str) -> None:
    repository.commit({"pyproject.toml": f"[tool.scaffold.review]\n{table}\n"})
    repository.git("branch", "-f", "main")
    repository.commit({"a.txt": "1\n"})
    done = repository.run()
    assert (done.status, done.report["error"]["code"]) == (2, "rules_invalid")
    assert said in done.report["error"]["message"]
