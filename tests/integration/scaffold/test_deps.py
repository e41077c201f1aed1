"""`scaffold deps` on trees and distributions made here: pip finds them in a folder, offline."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from scaffold.cli.main import main
from scaffold.deps.use import SEVERITIES
from tests.deps_places import NEW, OLD, TREE, make_sdist, make_wheel, use_index, write
from tests.integration.scaffold.git_places import ENV, commit, git
from tests.reports import REPORTS
from tests.sarif import read_places

pytestmark = pytest.mark.heavy

ROOT = Path(__file__).parents[3]


def deps(folder: Path, *argv: str, status: int = 0) -> dict[str, Any]:
    """Runs a command with --json and returns its one object, what is its own on top."""
    done = CliRunner().invoke(main, ["deps", *argv, "--target", str(folder), "--json"])
    assert done.exit_code == status, done.stdout + done.stderr
    report = json.loads(done.stdout)
    REPORTS.validate(report)
    assert report["ok"] == (status == 0)
    return {**report, **report.get("deps", {})}


def state_of(folder: Path) -> dict[str, str]:
    """Returns a digest of every file of a tree, git's own among them."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns the folder in which pip finds distributions, with two releases of toolbox."""
    folder = tmp_path / "index"
    use_index(monkeypatch, folder, tmp_path / "cache")
    make_wheel(folder, "toolbox", "1.0", OLD)
    make_wheel(folder, "toolbox", "2.0", NEW)
    return folder


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Returns a repository that uses toolbox in many ways."""
    folder = tmp_path / "tree"
    folder.mkdir()
    git(folder, "init", "-q")
    write(folder, TREE)
    commit(folder, "feat: begin", {})
    return folder


# --- catalog ------------------------------------------------------------------------------------


def test_a_catalog_lists_each_kind_of_use(tree: Path) -> None:
    before = state_of(tree)
    report = deps(tree, "catalog", "toolbox")
    assert state_of(tree) == before
    found = {(row["kind"], row["name"], row["file"], row["line"]) for row in report["uses"]}
    assert {
        ("import", "toolbox.Circle", "app/main.py", 3),
        ("subclass", "toolbox.Base", "app/models.py", 2),
        ("override", "toolbox.Base.Options.strict", "app/models.py", 4),
        ("call", "toolbox.Base().setup", "app/models.py", 6),
        ("reference", "toolbox.Runner", "app/main.py", 5),
        ("call", "toolbox.Runner().start().run().check", "app/main.py", 8),
        ("reference", "toolbox.VERSION", "app/main.py", 21),
        ("patch", "toolbox.core.Handler.handle", "tests/test_app.py", 3),
        ("patch", "toolbox.core.load", "tests/test_app.py", 5),
        ("string", "toolbox.shapes.Circle", "config.yaml", 1),
    } <= found
    assert not [row for row in report["uses"] if row["name"].endswith((".yaml", ".com"))]
    assert ("call", "toolbox.Base().own", "app/models.py", 8) not in found, "it is the tree's"
    assert ("call", "toolbox.Base().teardown", "app/main.py", 20) not in found, "it is the tree's"
    assert report["imports"] == ["toolbox"]


def test_a_catalog_is_a_checklist(tree: Path) -> None:
    done = CliRunner().invoke(main, ["deps", "catalog", "toolbox", "--target", str(tree)])
    assert '## Calls\n\n- [ ] app/main.py:6 `toolbox.Runner().run`: `runner.run(["a"], 5)`' in (
        done.stdout
    )
    assert "- [ ] app/compat.py:2 `toolbox.old_name`: " in done.stdout
    assert "(except ImportError)" in done.stdout


@pytest.mark.parametrize(
    ("package", "place", "text", "imports"),
    [
        ("pyyaml", "a.py", "import yaml\nyaml.safe_load('')\n", ["yaml"]),
        ("Pillow", "a.py", "from PIL import Image\n", ["PIL"]),
        (
            "odd-one",
            "pyproject.toml",
            '[tool.scaffold.deps.imports]\nodd_one = ["odd", "more.odd"]\n',
            ["odd", "more.odd"],
        ),
        (
            "own-name",
            ".venv/lib/python3.11/site-packages/own_name-1.dist-info/RECORD",
            "theirs/__init__.py,,\ntheirs/a.py,,\nown_name-1.dist-info/RECORD,,\n",
            ["theirs"],
        ),
        ("plain-name", "a.py", "", ["plain_name"]),
    ],
)
def test_import_names(tmp_path: Path, package: str, place: str, text: str, imports: list[str]):
    write(tmp_path, {place: text})
    report = deps(tmp_path, "catalog", package)
    assert report["imports"] == imports


def test_a_tree_that_does_not_use_it_has_an_empty_page(tmp_path: Path) -> None:
    assert deps(tmp_path, "catalog", "toolbox")["uses"] == []


def test_odd_sources_are_left_out_and_named(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "bad.py": "import toolbox\ndef (:\n",
            "latin.py": b"# -*- coding: latin-1 -*-\nimport toolbox  # \xe9\n",
            "null.py": b"import toolbox\0",
            "bad.yaml": "run: toolbox.load\n  : [",
            "deep.py": "import toolbox\nx = " + "(" * 80 + ")" * 80 + "\n",
        },
    )
    report = deps(tmp_path, "catalog", "toolbox")
    assert set(report["unread"]) >= {"bad.py", "null.py"}
    assert {row["file"] for row in report["uses"]} == {"deep.py", "latin.py", "bad.yaml"}
    assert any("bad.py" in row for row in report["warnings"])


# --- audit --------------------------------------------------------------------------------------

EXPECTED = {
    ("app/main.py", 3, "toolbox.old_name", "renamed", "new_name"),
    ("app/main.py", 6, "toolbox.Runner().run", "reordered", "time_out"),
    ("app/main.py", 7, "toolbox.Runner().run", "parameter-renamed", "time_out"),
    ("app/main.py", 8, "toolbox.Runner().start().run().check", "removed", ""),
    ("app/main.py", 9, "toolbox.load", "parameter-required", ""),
    ("app/main.py", 11, "toolbox.old_name", "renamed", "new_name"),
    ("app/main.py", 12, "toolbox.Circle().size", "kind-changed", ""),
    ("app/main.py", 12, "toolbox.Circle().grow", "parameter-required", ""),
    ("app/main.py", 17, "toolbox.Runner", "keyword-refused", "verbose"),
    ("app/main.py", 16, "toolbox.core.options", "keyword-unread", ""),
    ("app/main.py", 2, "toolbox.shapes", "removed", ""),
    ("app/main.py", 21, "toolbox.VERSION", "removed", ""),
    ("app/models.py", 2, "toolbox.Base", "abstract-added", ""),
    ("app/models.py", 4, "toolbox.Base.Options.strict", "override-gone", "is_strict"),
    ("app/models.py", 5, "toolbox.Base.setup", "override-signature", "mode"),
    ("app/models.py", 6, "toolbox.Base().setup", "parameter-required", ""),
    ("app/models.py", 7, "toolbox.Base.teardown", "override-gone", ""),
    ("config.yaml", 1, "toolbox.shapes.Circle", "moved", "toolbox.Circle"),
    ("tests/test_app.py", 3, "toolbox.core.Handler.handle", "renamed", "handle_event"),
}
"""What breaks in the tree: file, line, name, verdict, and the name to take instead."""


def test_an_audit_finds_what_breaks_and_nothing_else(index: Path, tree: Path) -> None:
    before = state_of(tree)
    report = deps(tree, "audit", "toolbox", "1.0", "2.0", status=1)
    assert state_of(tree) == before
    found = {
        (row["file"], row["line"], row["name"], row["verdict"], row["likely"])
        for row in report["findings"]
        if row["level"] == "breaks"
    }
    assert found ^ EXPECTED == {("app/models.py", 3, "toolbox.Base.Options", "override-gone", "")}
    levels = {(row["name"], row["verdict"], row["level"]) for row in report["findings"]}
    assert ("toolbox.text.upper", "deprecated", "deprecated") in levels
    assert ("toolbox.text.width", "default-changed", "check") in levels
    assert ("toolbox.Runner", "parameter-deprecated", "deprecated") in levels
    assert ("toolbox.old_name", "renamed", "guarded") in levels
    same = [row for row in report["findings"] if row["file"] == "app/main.py" and row["line"] > 21]
    assert same == []
    assert report["counts"]["unchanged"] > 10
    assert report["counts"]["breaks"] == len(report["next"])


def test_an_audit_is_written_for_code_hosts(index: Path, tree: Path) -> None:
    argv = ["deps", "audit", "toolbox", "1.0", "2.0", "--target", str(tree), "--format"]
    done = CliRunner().invoke(main, [*argv, "sarif"])
    assert done.exit_code == 1
    places = read_places(done.stdout)
    rows = deps(tree, "audit", "toolbox", "1.0", "2.0", status=1)["findings"]
    assert [(each.rule, each.level, each.path, each.line) for each in places] == [
        (row["verdict"], SEVERITIES[row["level"]], row["file"], row["line"])
        for row in rows
        if row["level"] != "undecided"
    ]
    everything = CliRunner().invoke(main, [*argv, "sarif", "--show-undecided"])
    assert len(read_places(everything.stdout)) == len(rows)
    annotated = CliRunner().invoke(main, [*argv, "github"]).stdout.splitlines()
    assert len(annotated) == len(places)
    assert annotated[0].startswith("::error file=")


def test_a_change_is_one_row_with_its_places(index: Path, tree: Path) -> None:
    write(tree, {"app/more.py": "import toolbox\n\ntoolbox.old_name()\ntoolbox.old_name()\n"})
    report = deps(tree, "audit", "toolbox", "1.0", "2.0", status=1)
    rows = [row for row in report["changes"] if row["name"] == "toolbox.old_name"]
    row = next(row for row in rows if row["level"] == "breaks")
    assert {"file": "app/more.py", "line": 4} in row["sites"]
    assert len(report["changes"]) < len(report["findings"])
    done = CliRunner().invoke(
        main, ["deps", "audit", "toolbox", "1.0", "2.0", "--target", str(tree)]
    )
    assert done.stdout.count("toolbox.old_name  renamed") == len(rows)
    assert "also app/more.py:3, 4" in done.stdout


def test_a_pinned_package_without_uses_is_no_all_clear(index: Path, tmp_path: Path) -> None:
    own = tmp_path / "tree"  # the cache of releases lies beside it
    write(own, {"requirements.txt": "toolbox==1.0\n", "app.py": "import sys\n"})
    argv = ["deps", "audit", "toolbox", "1.0", "2.0", "--json", "--target", str(own)]
    done = CliRunner().invoke(main, argv)
    assert done.exit_code == 1
    error = json.loads(done.stdout)["error"]
    assert error["code"] == "uses_missing"
    assert "requirements.txt:1 pins toolbox" in error["message"]
    listed = CliRunner().invoke(main, ["deps", "catalog", "toolbox", "--target", str(own)])
    assert (listed.exit_code, "pins toolbox" in listed.output) == (1, True)
    (own / "requirements.txt").unlink()
    assert deps(own, "audit", "toolbox", "1.0", "2.0")["counts"]["uses"] == 0


def test_uses_are_rewritten_after_a_diff(index: Path, tree: Path) -> None:
    before = state_of(tree)
    argv = ["deps", "apply", "toolbox", "1.0", "2.0", "--target", str(tree)]
    shown = CliRunner().invoke(main, argv)
    assert state_of(tree) == before
    assert "time_out=" in shown.stdout
    assert CliRunner().invoke(main, [*argv, "--write"]).exit_code == 1
    left = deps(tree, "audit", "toolbox", "1.0", "2.0", status=1)
    names = {row["verdict"] for row in left["findings"] if row["level"] == "breaks"}
    assert not names & {"parameter-renamed", "parameter-required"}
    assert "encoding=YOURS" in (tree / "app/main.py").read_text(encoding="utf-8")


def test_an_argument_that_is_dropped_is_left_to_look_at(index: Path, tmp_path: Path) -> None:
    for version, head in (("5.0", "url, proxies=None"), ("6.0", "url")):
        make_wheel(index, "toolbox", version, {"toolbox/__init__.py": f"def get({head}): ...\n"})
    text = 'import toolbox\n\ntoolbox.get("x", proxies="http://inner")\n'
    write(tmp_path / "own", {"app.py": text})
    argv = ["deps", "apply", "toolbox", "5.0", "6.0", "--target", str(tmp_path / "own")]
    done = CliRunner().invoke(main, argv)
    assert '+toolbox.get("x")' in done.stdout
    # What the argument did is not done any more: traffic goes out directly.
    assert "YOURS      app.py:3  parameter-removed: toolbox.get: " in done.stdout
    assert "1 of 1 places that break are rewritten, 1 left" in done.stdout
    assert done.exit_code == 1


def test_a_default_that_the_body_fills_in_is_no_change(index: Path, tree: Path) -> None:
    report = deps(tree, "audit", "toolbox", "1.0", "2.0", status=1)
    assert not [row for row in report["findings"] if "charset" in row["why"]]


def test_evidence_names_both_releases(index: Path, tree: Path) -> None:
    report = deps(tree, "audit", "toolbox", "1.0", "2.0", status=1)
    row = next(row for row in report["findings"] if row["verdict"] == "parameter-renamed")
    assert row["evidence"]["old"].startswith("toolbox/core.py:12 run(argv, timeout=10")
    assert row["evidence"]["new"].startswith("toolbox/core.py:18 run(argv, shell=False")


def test_the_same_release_changes_nothing(index: Path, tree: Path) -> None:
    report = deps(tree, "audit", "toolbox", "1.0", "1.0")
    assert [row for row in report["findings"] if row["level"] != "undecided"] == []


def test_a_source_archive_is_read_and_not_run(index: Path, tree: Path) -> None:
    make_sdist(index, "toolbox", "3.0", NEW)
    report = deps(tree, "audit", "toolbox", "1.0", "3.0", status=1)
    assert ("app/main.py", 9) in {(row["file"], row["line"]) for row in report["findings"]}


def test_a_wheel_for_another_platform_is_text_too(index: Path, tree: Path) -> None:
    make_wheel(index, "toolbox", "4.0", NEW, tag="cp27-cp27m-win32")
    assert deps(tree, "audit", "toolbox", "1.0", "4.0", status=1)["new"] == "4.0"


def test_a_release_is_downloaded_once(index: Path, tree: Path) -> None:
    deps(tree, "audit", "toolbox", "1.0", "1.0")
    for each in index.iterdir():
        each.unlink()
    deps(tree, "audit", "toolbox", "1.0", "1.0")


@pytest.mark.parametrize(
    ("argv", "code", "status"),
    [
        (("toolbox", "1.0", "9.9"), "release_unknown", 1),
        (("no-such-thing", "1.0", "2.0"), "release_unknown", 1),
        (("toolbox", "one", "2.0"), "requirement_invalid", 2),
        (("../toolbox", "1.0", "2.0"), "requirement_invalid", 2),
        (("toolbox", "1.0", "2.0", "--python", "/no/such/python"), "interpreter_lacks", 1),
    ],
)
def test_wrong_requests(
    index: Path, tree: Path, argv: tuple[str, ...], code: str, status: int
) -> None:
    assert deps(tree, "audit", *argv, status=status)["error"]["code"] == code


def test_no_network(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_index(monkeypatch, tmp_path / "none", tmp_path / "cache")
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    error = deps(tree, "audit", "toolbox", "1.0", "2.0", status=1)["error"]
    assert error["code"] == "index_unreachable"
    assert "network" in error["hint"]


@pytest.mark.parametrize("path", ["../evil.py", "/evil.py", "a/../../evil.py"])
def test_an_archive_that_leads_outside_is_refused(
    index: Path, tree: Path, tmp_path: Path, path: str
) -> None:
    make_wheel(index, "toolbox", "6.6", {path: "x = 1\n"})
    error = deps(tree, "audit", "toolbox", "1.0", "6.6", status=1)["error"]
    assert error["code"] == "release_unreadable"
    assert not list(tmp_path.rglob("evil.py"))


def test_a_broken_archive(index: Path, tree: Path) -> None:
    (index / "toolbox-7.0-py3-none-any.whl").write_bytes(b"no zip")
    error = deps(tree, "audit", "toolbox", "1.0", "7.0", status=1)["error"]
    assert error["code"] in ("release_unreadable", "release_unknown")


# --- plan ---------------------------------------------------------------------------------------

MANIFESTS = {
    "pyproject.toml": """[build-system]
requires = ["hatchling"]

[project]
name = "mine"
version = "1"
dependencies = [
    'toolbox>=1,<2',  # keep me
    "plugin>=1,<3",
]
[project.optional-dependencies]
dev = ["ToolBox ; python_version < '4'", "Toolbox==1.0; python_version > '3'"]
[dependency-groups]
lint = ["toolbox ~= 1.0", {include-group = "other"}]
other = []
""",
    "requirements/base.txt": "# pins\r\ntoolbox==1.0  # why\r\nplugin==1.0\r\n",
    "requirements/dev.txt": "-r base.txt\n-e .\n",
    "Dockerfile": (
        "ARG TOOLBOX=1.0\nRUN pip install toolbox==${TOOLBOX} && pip install toolbox==1.0\n"
    ),
    ".github/workflows/ci.yml": "env:\n  TB: '1.0'\nrun: pip install toolbox==${{ env.TB }}\n",
    ".pre-commit-config.yaml": "additional_dependencies: [toolbox==1.0]\n",
    "setup.cfg": "[options]\ninstall_requires =\n    toolbox>=1.0,<2\n",
    "environment.yml": "dependencies:\n  - pip:\n    - toolbox==1.0\n",
    "tests/fixtures/requirements.txt": "toolbox==1.0\n",
}


@pytest.fixture
def pinned(tmp_path: Path, index: Path) -> Path:
    """Returns a repository whose manifests pin toolbox, and plugin, which wants toolbox<2."""
    make_wheel(index, "plugin", "1.0", {"plugin.py": ""}, requires=["toolbox<2"])
    make_wheel(index, "plugin", "2.0", {"plugin.py": ""}, requires=["toolbox>=2"])
    folder = tmp_path / "pinned"
    folder.mkdir()
    git(folder, "init", "-q")
    commit(folder, "build: pin", {path: text.encode() for path, text in MANIFESTS.items()})
    return folder


def test_a_plan_moves_every_pin_and_writes_nothing(pinned: Path) -> None:
    before = state_of(pinned)
    report = deps(pinned, "plan", "toolbox==2.0", "--no-resolve")
    assert state_of(pinned) == before
    added = {
        row[1:].strip()
        for change in report["changes"]
        for row in change["diff"].splitlines()
        if row.startswith("+") and not row.startswith("+++")
    }
    assert added == {
        "'toolbox>=2,<3',  # keep me",
        """dev = ["ToolBox ; python_version < '4'", "Toolbox==2.0; python_version > '3'"]""",
        'lint = ["toolbox ~= 2.0", {include-group = "other"}]',
        "toolbox==2.0  # why",
        "ARG TOOLBOX=2.0",
        "RUN pip install toolbox==${TOOLBOX} && pip install toolbox==2.0",
        "TB: '2.0'",
        "additional_dependencies: [toolbox==2.0]",
        "toolbox>=2.0,<3",
        "- toolbox==2.0",
    }
    assert report["dry_run"]


def test_a_conflict_writes_nothing_and_says_who_wants_what(pinned: Path) -> None:
    before = state_of(pinned)
    report = deps(pinned, "plan", "toolbox==2.0", "--apply", status=1)
    assert state_of(pinned) == before, "all or nothing"
    assert report["error"]["code"] == "pins_conflict"
    said = {row for each in report["deps"]["resolved"] for row in each["said"]}
    assert "plugin 1.0 depends on toolbox<2" in said


def test_what_resolves_is_written_with_every_other_byte_as_it_was(pinned: Path) -> None:
    report = deps(pinned, "plan", "toolbox==2.0", "plugin==2.0", "--apply")
    assert {row["ok"] for row in report["resolved"]} == {True}
    assert (pinned / "requirements/base.txt").read_bytes() == (
        b"# pins\r\ntoolbox==2.0  # why\r\nplugin==2.0\r\n"
    )
    changed = git(pinned, "diff", "--numstat").splitlines()
    assert sum(int(row.split()[0]) for row in changed) == 11
    assert deps(pinned, "plan", "toolbox==2.0", "plugin==2.0", "--apply")["changes"] == []


def test_locks_and_compiled_files_are_named_with_their_command(pinned: Path) -> None:
    compiled = "#\n# This file is autogenerated by pip-compile\n#    pip-compile in.txt\n#\n"
    commit(
        pinned,
        "build: lock",
        {
            "uv.lock": "version = 1\n",
            "requirements/all.txt": f"{compiled}toolbox==1.0 \\\n    --hash=sha256:aa\n",
        },
    )
    report = deps(pinned, "plan", "toolbox==2.0", "--no-resolve")
    assert {(row["file"], row["command"]) for row in report["locks"]} == {
        ("uv.lock", "uv lock --upgrade-package toolbox==2.0"),
        ("requirements/all.txt", "pip-compile in.txt"),
    }
    assert "requirements/all.txt" in {row["file"] for row in report["unmoved"]}


@pytest.mark.parametrize(
    ("argv", "code", "status"),
    [
        (("toolbox",), "requirement_invalid", 2),
        (("toolbox>=2",), "requirement_invalid", 2),
        (("toolbox==2.*",), "requirement_invalid", 2),
        (("toolbox==2.0", "Toolbox==1.0"), "requirement_invalid", 2),
        (("nothing-here==2.0",), "pins_missing", 1),
        (("toolbox==9.9",), "pins_conflict", 1),
    ],
)
def test_wrong_pins(pinned: Path, argv: tuple[str, ...], code: str, status: int) -> None:
    before = state_of(pinned)
    assert deps(pinned, "plan", *argv, status=status)["error"]["code"] == code
    assert state_of(pinned) == before


def test_a_resolver_that_says_nothing(pinned: Path, tmp_path: Path) -> None:
    mute = tmp_path / "mute"
    mute.write_text("#!/bin/sh\nexit 7\n")
    mute.chmod(0o755)
    report = deps(pinned, "plan", "toolbox==2.0", "--python", str(mute), status=1)
    assert report["error"]["code"] == "resolver_failed"


def test_what_is_not_asked_of_the_resolver_is_told(pinned: Path) -> None:
    report = deps(pinned, "plan", "toolbox==2.0", "plugin==2.0")
    assert report["warnings"] == [
        "requirements/dev.txt: -e .: not resolved, as it would be built or its tool alone reads it"
    ]


def test_a_requirements_file_that_takes_itself_in(tmp_path: Path, index: Path) -> None:
    text = "-r requirements.txt\ntoolbox==1.0\n"
    folder = write(tmp_path / "plain", {"requirements.txt": text})
    error = deps(folder, "plan", "toolbox==2.0", "--apply", status=1)["error"]
    assert error["code"] == "resolver_failed"
    assert "Error" in error["hint"]
    assert (folder / "requirements.txt").read_text() == text


def test_it_works_where_there_is_no_git_and_no_terminal(tmp_path: Path, index: Path) -> None:
    folder = write(tmp_path / "plain", {"requirements.txt": "toolbox==1.0\n"})
    done = subprocess.run(
        [sys.executable, "-m", "scaffold", "deps", "plan", "toolbox==2.0", "--apply"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": ENV["PYTHONPATH"]},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert (folder / "requirements.txt").read_text() == "toolbox==2.0\n"


@pytest.mark.parametrize("kind", ["empty", "detached", "shallow", "submodule"])
def test_odd_repositories(tree: Path, tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "odd"
    if kind == "empty":
        folder.mkdir()
        git(folder, "init", "-q")
        assert deps(folder, "catalog", "toolbox")["uses"] == []
        return
    if kind == "detached":
        folder = tree
        git(folder, "checkout", "-q", "--detach")
    elif kind == "shallow":
        git(tmp_path, "clone", "-q", "--depth", "1", tree.as_uri(), str(folder))
    else:
        folder.mkdir()
        git(folder, "init", "-q")
        git(folder, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(tree), "sub")
        assert deps(folder, "catalog", "toolbox")["uses"] == [], "a submodule is another tree"
        return
    assert len(deps(folder, "catalog", "toolbox")["uses"]) > 30


# --- summary ------------------------------------------------------------------------------------

LOCK = """\
version = 1
[[package]]
name = "toolbox"
version = "{}"
[[package]]
name = "below"
version = "{}"
[[package]]
name = "kept"
version = "3.0"
"""


def test_a_summary_audits_what_the_code_imports_and_names_the_rest(tree: Path, index: Path) -> None:
    commit(
        tree, "chore: lock", {"uv.lock": LOCK.format("1.0", "0.4.1"), "requirements.txt": "x==1\n"}
    )
    (tree / "uv.lock").write_text(LOCK.format("2.0", "0.5.0"))
    (tree / "requirements.txt").write_text("x==1\ncame==4\n")
    report = deps(tree, "summary", "--output", "upgrade.md", status=1)
    rows = {row["package"]: row for row in report["upgrades"]}
    assert {name: (row["old"], row["new"], row["major"]) for name, row in rows.items()} == {
        "toolbox": ("1.0", "2.0", True),
        "below": ("0.4.1", "0.5.0", True),
        "came": ("", "4", False),
    }
    audited = deps(tree, "audit", "toolbox", "1.0", "2.0", status=1)
    assert rows["toolbox"]["audit"]["counts"] == audited["counts"]
    assert rows["below"]["audit"] is None
    assert rows["below"]["why"] == "nothing here imports it"
    page = (tree / "upgrade.md").read_text()
    assert "| toolbox (major) | 1.0 | 2.0 | uv.lock |" in page
    assert "below 0.4.1 to 0.5.0: nothing here imports it" in page


def test_a_summary_of_what_did_not_change_says_so(tree: Path) -> None:
    done = CliRunner().invoke(main, ["deps", "summary", "--target", str(tree)])
    assert (done.exit_code, "No lock and no exact pin changed." in done.stdout) == (0, True)
    assert (
        deps(tree, "summary", "--since", "nowhere", status=2)["error"]["code"] == "revision_unknown"
    )
