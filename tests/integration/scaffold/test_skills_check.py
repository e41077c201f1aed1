"""The command `scaffold skills check` on small repositories: forms, fixes, baselines, bad input."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.reports import REPORTS

pytestmark = pytest.mark.heavy

ROOT = Path(__file__).parents[3]
SKILL = """---
name: tidy
description: Tidies the package. Use when it is untidy.
---

Read `pkg/__init__.py` and `pkg/gone.py` first.

Then run `pkg/Tidy.py` on [the notes](notes.md).
"""
PATH = ".agents/skills/tidy/SKILL.md"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Makes a repository with a skill that names a missing file and a misspelled one."""
    root = tmp_path / "repository"
    write(root, PATH, SKILL)
    write(root, ".agents/skills/tidy/notes.md", "# Notes\n")
    write(root, "pkg/__init__.py", "")
    write(root, "pkg/tidy.py", "def tidy(rows):\n    return rows\n")
    write(root, "pkg/gone.py", "def gone():\n    return 1\n")
    git(root, "init", "--quiet")
    commit(root)
    (root / "pkg/gone.py").unlink()
    commit(root)
    return root


def write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def git(root: Path, *argv: str) -> None:
    who = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "core.hooksPath=/dev/null"]
    subprocess.run(["git", *who, *argv], cwd=root, check=True, capture_output=True)


def commit(root: Path) -> None:
    git(root, "add", "--all", "--force")
    git(root, "commit", "--quiet", "--message", "state")


def check(folder: Path, *argv: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Runs the command; what it remembers goes beside the repository."""
    known = {"XDG_CACHE_HOME": str(folder.parent / "cache"), "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-m", "scaffold", "skills", "check", *argv],
        cwd=folder,
        env={**os.environ, **known, **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def checked_json(folder: Path, *argv: str) -> dict[str, Any]:
    done = check(folder, "--json", *argv)
    loaded: dict[str, Any] = json.loads(done.stdout)
    REPORTS.validate(loaded)
    assert done.returncode == (0 if loaded["ok"] else 1)
    return loaded


def rules(loaded: dict[str, Any]) -> list[str]:
    return [each["rule"] for each in loaded["findings"]]


def test_people_see_the_place_the_claim_and_what_is_true_now(repository: Path) -> None:
    done = check(repository)
    assert done.returncode == 1
    commit = re.search(r"commit (\w{10}) of (\d{4}-\d\d-\d\d)", done.stdout)
    assert commit is not None, done.stdout
    assert done.stdout == (
        f"{PATH}:6:29  error  path-missing  'pkg/gone.py' does not exist  [removed]\n"
        f"    pkg has no 'gone.py'; {commit.group()} removed it from pkg/gone.py\n"
        f"{PATH}:8:11  error  path-case  'pkg/Tidy.py' is spelled differently on disk"
        "  [other spelling]\n"
        "    git lists pkg/tidy.py\n"
        "    now: it is pkg/tidy.py\n"
        "    fix: pkg/Tidy.py -> pkg/tidy.py (--fix writes it)\n"
        "4 claims in 2 documents: 2 true, 2 false, 0 undecided\n"
        "2 errors\n"
    )


def test_json_has_every_finding_with_a_fingerprint(repository: Path) -> None:
    loaded = checked_json(repository)
    assert rules(loaded) == ["path-missing", "path-case"]
    assert loaded["claims"] == {"true": 2, "false": 2}
    assert [each["reason"] for each in loaded["findings"]] == ["removed", "other spelling"]
    assert len({each["fingerprint"] for each in loaded["findings"]}) == 2
    same = json.loads(check(repository, "--format", "json").stdout)
    assert same["findings"] == loaded["findings"]


def test_sarif_names_rules_and_places(repository: Path) -> None:
    run = json.loads(check(repository, "--format", "sarif").stdout)["runs"][0]
    assert [each["id"] for each in run["tool"]["driver"]["rules"]] == ["path-case", "path-missing"]
    place = run["results"][0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == PATH
    assert place["region"] == {"startLine": 6, "startColumn": 29}
    assert run["results"][0]["properties"]["reason"] == "removed"


def test_github_gets_one_annotation_a_finding(repository: Path) -> None:
    first, second = check(repository, "--format", "github").stdout.splitlines()
    assert first.startswith(f"::error file={PATH},line=6,col=29,title=path-missing::'pkg/gone.py'")
    assert second.startswith(f"::error file={PATH},line=8,col=11,title=path-case::")


def test_fix_writes_what_is_certain_and_nothing_else(repository: Path) -> None:
    shown = check(repository, "--fix", "--dry-run")
    assert "+Then run `pkg/tidy.py`" in shown.stdout
    assert (repository / PATH).read_text() == SKILL
    done = check(repository, "--fix")
    assert done.returncode == 1
    assert (repository / PATH).read_text() == SKILL.replace("Tidy.py", "tidy.py")
    assert "path-case" not in done.stdout


def test_a_baseline_leaves_only_new_findings(repository: Path) -> None:
    assert check(repository, "--write-baseline", "known.json").returncode == 0
    moved = (
        SKILL.replace("Read", "A line above.\n\nRead")
        + "\nSee `pkg/__init__.py`, `pkg/also_gone.py`.\n"
    )
    (repository / PATH).write_text(moved)
    done = check(repository, "--baseline", "known.json")
    assert done.returncode == 0
    assert "also_gone" in done.stdout
    assert "pkg/Tidy.py" not in done.stdout
    (repository / PATH).write_text(SKILL.replace("`pkg/Tidy.py`", "it"))
    done = check(repository, "--baseline", "known.json")
    assert done.returncode == 0
    assert f"lists a finding that no longer exists: {PATH}: pkg/Tidy.py" in done.stderr


def test_a_broken_baseline_is_refused(repository: Path) -> None:
    write(repository, "known.json", "{}")
    done = check(repository, "--baseline", "known.json", "--json")
    assert json.loads(done.stdout)["error"]["code"] == "target_invalid"
    write(repository, "known.json", '{"schema": 9, "findings": []}')
    done = check(repository, "--baseline", "known.json", "--json")
    assert json.loads(done.stdout)["error"]["code"] == "target_newer"


def test_since_tells_only_what_the_change_broke(repository: Path) -> None:
    text = SKILL + "\nCall `tidy(rows)`.\n"
    (repository / PATH).write_text(text)
    commit(repository)
    write(repository, "pkg/tidy.py", "def clean(rows):\n    return rows\n")
    found = checked_json(repository, "--since", "HEAD")["findings"]
    assert [(each["rule"], each["line"]) for each in found] == [("symbol-deleted", 10)]
    assert found[0]["evidence"] == "it was in pkg/tidy.py:1"
    done = check(repository, "--since", "nowhere", "--json")
    assert done.returncode == 2
    assert "git has no revision 'nowhere'" in json.loads(done.stdout)["error"]["message"]


def test_rules_are_chosen_by_name_or_first_word(repository: Path) -> None:
    assert rules(checked_json(repository, "--select", "path")) == ["path-missing", "path-case"]
    assert rules(checked_json(repository, "--ignore", "path-missing")) == ["path-case"]
    assert rules(checked_json(repository, "--exclude", ".agents/**")) == []
    done = check(repository, "--select", "pathmissing", "--json")
    assert "did you mean 'path-missing'" in json.loads(done.stdout)["error"]["message"]


def test_the_repository_says_what_it_wants(repository: Path) -> None:
    settings = '[tool.scaffold.skills]\nignore = ["path-case"]\nline-budget = 7\n'
    write(repository, "pyproject.toml", settings)
    assert rules(checked_json(repository)) == ["path-missing", "line-budget"]
    write(repository, "pyproject.toml", '[tool.scaffold.skills]\nignore = "path-case"\n')
    done = check(repository, "--json")
    assert json.loads(done.stdout)["error"]["code"] == "target_invalid"


def test_memory_says_what_a_fresh_check_says(repository: Path) -> None:
    def both() -> list[str]:
        remembered = checked_json(repository)
        fresh = checked_json(repository, "--no-cache")
        assert remembered == fresh
        return rules(fresh)

    assert both() == ["path-missing", "path-case"]
    assert both() == ["path-missing", "path-case"]
    write(repository, "pkg/gone.py", "")  # the list of files changes
    assert both() == ["path-case"]
    write(repository, PATH, SKILL + "\nSee `pkg.tidy.tidy(table)` and `pkg.tidy.tidy(rows=1)`.\n")
    assert both() == ["path-case"]
    write(repository, "pkg/tidy.py", "def tidy(table):\n    return table\n")  # a text changes
    assert both() == ["path-case", "parameter-unknown"]


def test_what_is_remembered_stays_out_of_the_tree(repository: Path) -> None:
    before = sorted(repository.rglob("*"))
    check(repository)
    assert sorted(repository.rglob("*")) == before
    assert list((repository.parent / "cache").rglob("*.json"))
    done = check(repository, XDG_CACHE_HOME="/dev/null/nowhere")
    assert done.returncode == 1
    assert done.stderr == ""


def test_a_page_that_is_pointed_at_is_checked(repository: Path) -> None:
    write(repository, "docs/use.md", "Open `pkg/tidy.py`, `pkg/lost.py`.\n")
    assert rules(checked_json(repository, "docs")) == ["path-missing"]
    assert rules(checked_json(repository, "docs/use.md")) == ["path-missing"]
    done = check(repository, "docs/none.md", "--json")
    assert json.loads(done.stdout)["error"]["code"] == "target_missing"


def test_without_git_the_folder_is_the_repository(tmp_path: Path) -> None:
    root = tmp_path / "plain"
    write(root, PATH, SKILL)
    write(root, "pkg/__init__.py", "")
    write(root, "pkg/tidy.py", "")
    found = rules(checked_json(root))
    assert found == ["path-missing", "path-case", "link-missing"]
    assert checked_json(root)["notes"] == [
        "there is no git repository, so the history was not asked"
    ]


def test_nothing_to_check_is_clean(tmp_path: Path) -> None:
    done = check(tmp_path)
    assert done.returncode == 0
    assert done.stdout.startswith("0 claims in 0 documents")


BAD_INPUT = {
    "broken YAML": ("SKILL.md", b"---\nname: [\n---\n\ntext\n", "frontmatter-invalid"),
    "front matter without an end": ("SKILL.md", b"---\nname: tidy\n", "frontmatter-invalid"),
    "deep YAML": ("deep.md", b"```yaml\n" + b"[" * 60_000 + b"\n```\n", ""),
    "binary": ("SKILL.md", b"---\0\xff", "file-unreadable"),
    "ten megabytes": ("SKILL.md", b"x" * 10_000_000, "file-unreadable"),
    "a YAML bomb": (
        "SKILL.md",
        b"---\na: &a [x,x]\nb: &b [*a,*a]\nname: tidy\ndescription: *b\n---\nx\n",
        "frontmatter-type",
    ),
    "no UTF-8": ("SKILL.md", b"---\nname: tidy\ndescription: \xe9\n---\ntext\n", ""),
    "empty": ("SKILL.md", b"", "frontmatter-missing"),
    "a deep list": ("SKILL.md", SKILL.encode() + b"- " * 3000 + b"x\n", "path-missing"),
    "a deep quote": ("SKILL.md", SKILL.encode() + b">" * 3000 + b" x\n", "path-missing"),
}


@pytest.mark.parametrize(("name", "data", "rule"), BAD_INPUT.values(), ids=BAD_INPUT)
def test_bad_input_is_a_finding_and_no_traceback(
    repository: Path, name: str, data: bytes, rule: str
) -> None:
    (repository / ".agents/skills/tidy" / name).write_bytes(data)
    loaded = checked_json(repository)
    assert rule in [*rules(loaded), ""]


def test_links_that_lead_out_or_around_are_told(repository: Path) -> None:
    (repository.parent / "secret.md").write_text("---\nname: s\ndescription: d\n---\n`pkg/x.py`\n")
    for name, target in (("out", "../../../../secret.md"), ("loop", "SKILL.md")):
        (repository / ".agents/skills" / name).mkdir()
        (repository / ".agents/skills" / name / "SKILL.md").symlink_to(target)
    (repository / ".agents/skills/round").symlink_to("../skills")
    (repository / ".claude").mkdir()
    (repository / ".claude/skills").symlink_to("../.agents/skills")
    loaded = checked_json(repository)
    unreadable = [each for each in loaded["findings"] if each["rule"] == "file-unreadable"]
    assert {each["path"].split("/")[2] for each in unreadable} == {"out", "loop"}
    assert rules(loaded).count("path-missing") == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_what_may_not_be_read_is_told(repository: Path) -> None:
    (repository / PATH).chmod(0)
    assert rules(checked_json(repository)) == ["file-unreadable"]


def test_an_unreadable_file_is_told_to_root_too(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from scaffold.analysis.files import files
    from scaffold.analysis.repository import Repository
    from scaffold.skills.check.checking import check_repository

    def refuse(*_: object, **__: object) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(files, "open", refuse, raising=False)
    monkeypatch.setattr(Path, "read_bytes", refuse)
    outcome = check_repository(Repository.at(repository))
    found = [each for each in outcome.findings if each.path == PATH]
    assert [each.rule for each in found] == ["file-unreadable"]
    assert "Permission denied" in found[0].message


def test_a_skill_in_a_folder_of_any_name_is_found(repository: Path) -> None:
    write(repository, "a b/ö/SKILL.md", "---\nname: x\ndescription: d\n---\n[gone](gone.md)\n")
    found = checked_json(repository)["findings"]
    assert ("a b/ö/SKILL.md", "link-missing") in [(each["path"], each["rule"]) for each in found]


def test_options_that_do_not_go_together_are_refused(repository: Path) -> None:
    done = check(repository, "--write-baseline", "k.json", "--since", "HEAD", "--json")
    assert done.returncode == 2


def test_names_from_elsewhere_count_when_an_interpreter_is_named(repository: Path) -> None:
    text = SKILL.replace(
        "Read `pkg/__init__.py` and `pkg/gone.py` first.", "Call `click.commando()`."
    ).replace("`pkg/Tidy.py`", "it")
    code = "\n```python\nimport click\nfrom click import Group, Groop\n\nGroup(name='x')\n```\n"
    (repository / PATH).write_text(text + code)
    assert rules(checked_json(repository)) == []
    loaded = checked_json(repository, "--python", sys.executable)
    assert rules(loaded) == ["symbol-missing", "import-name-missing"]
    assert f"those that {sys.executable} has installed" in loaded["warnings"][0]
    done = check(repository, "--python", "/no/python", "--json")
    assert json.loads(done.stdout)["error"]["code"] == "interpreter_lacks"


def test_a_report_is_one_page_beside_nothing(repository: Path) -> None:
    known = {"XDG_CACHE_HOME": str(repository.parent / "cache"), "PYTHONPATH": str(ROOT)}

    def report(*argv: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "scaffold", "skills", "report", *argv],
            cwd=repository,
            env={**os.environ, **known},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    shown = report("--dry-run")
    assert shown.returncode == 0
    assert not (repository / "skills-report.html").exists()
    assert report("--output", "page.html").returncode == 0
    text = (repository / "page.html").read_text()
    assert "pkg/gone.py" in text
    assert "<script" not in text
    assert report("--format", "markdown", "--output", "page.md").returncode == 0
    assert "path-missing (removed)" in (repository / "page.md").read_text()
    done = report("--output", "no/folder/page.html", "--json")
    assert json.loads(done.stdout)["error"]["code"] == "write_failed"


def test_a_baseline_with_a_rule_that_is_gone_is_told_and_not_refused(repository: Path) -> None:
    assert check(repository, "--write-baseline", "known.json").returncode == 0
    loaded = json.loads((repository / "known.json").read_text())
    old = {"fingerprint": "0" * 16, "rule": "no-such-rule", "path": PATH, "claim": "a"}
    (repository / "known.json").write_text(
        json.dumps({**loaded, "findings": [*loaded["findings"], old]})
    )
    done = check(repository, "--baseline", "known.json")
    assert done.returncode == 0
    assert "has entries of the rule no-such-rule, which does not exist" in done.stderr


def test_a_repository_without_a_commit_is_checked_and_the_history_named(tmp_path: Path) -> None:
    root = tmp_path / "fresh"
    write(root, PATH, SKILL)
    write(root, "pkg/__init__.py", "")
    write(root, "pkg/tidy.py", "")
    git(root, "init", "--quiet")
    loaded = checked_json(root)
    assert "path-missing" in rules(loaded)
    assert loaded["notes"] == ["the repository has no commit, so the history was not asked"]


@pytest.mark.slow  # tests/unit/scaffold/skills/check/test_intent.py reads such a sentence
def test_sixteen_thousand_spans_in_one_sentence_come_to_an_end(repository: Path) -> None:
    spans = ", ".join(f"`pkg/step_{number}.py`" for number in range(8_000))
    names = ", ".join(f"`name_{number}`" for number in range(8_000))
    write(repository, "AGENTS.md", f"They are {spans} and {names}.\n")
    loaded = checked_json(repository)
    (page,) = [each for each in loaded["documents"] if each["path"] == "AGENTS.md"]
    assert sum(page["claims"].values()) == 16_000
    assert page["compared"] is False
