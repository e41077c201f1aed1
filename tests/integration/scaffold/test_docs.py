"""`scaffold docs` on real repositories: the whole way of a translation, and odd places."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from scaffold.cli.main import main
from tests.reports import REPORTS
from tests.sarif import Place, read_places

pytestmark = pytest.mark.heavy

ROOT = Path(__file__).parents[3]
GUIDE = "# Guide\n\nRun `make`.\n\n## Steps\n\n1. One reward.\n2. Two.\n"
CHINESE = "# 指南\n\n运行 `make`。\n\n## 步骤\n\n1. 一个 reward。\n2. 两个。\n"


def scaffold(folder: Path, *argv: str) -> Result:
    return CliRunner().invoke(main, [*argv, "--target", str(folder)])


def report(folder: Path, *argv: str, status: int = 0) -> dict[str, Any]:
    """Runs a command with --json, and returns its one object."""
    done = scaffold(folder, "docs", *argv, "--json")
    assert done.exit_code == status, done.stdout + done.stderr
    found = json.loads(done.stdout)
    REPORTS.validate(found)
    assert found["ok"] == (status == 0)
    return {**found, **found.get("docs", {})}


def git(folder: Path, *argv: str) -> str:
    who = ["-c", "user.name=a", "-c", "user.email=a@b.example"]
    run = ["git", *who, "-c", "commit.gpgsign=false", *argv]
    return subprocess.run(run, cwd=folder, capture_output=True, text=True, check=True).stdout


def commit(folder: Path, words: str = "docs: change") -> None:
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", words)


def write(root: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(text.encode())


def translate(root: Path, page: str, chinese: str) -> None:
    """Writes a translation with the marker lines that `plan` tells, as an agent does."""
    plan = report(root, "plan", page)
    markers = [section["marker"] for section in plan["sections"]]
    rows: list[str] = []
    for row in chinese.split("\n"):
        rows += [row, "", markers.pop(0)] if row.startswith("#") else [row]
    write(root, {plan["translation"]: "\n".join(rows)})


def everything(root: Path) -> dict[str, tuple[bytes, int]]:
    """Returns every file below a folder, that of git too, with its time."""
    files = [path for path in root.rglob("*") if path.is_file()]
    return {
        str(path.relative_to(root)): (path.read_bytes(), path.stat().st_mtime_ns) for path in files
    }


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Makes a repository with one page that is translated and committed."""
    root = tmp_path / "repository"
    write(root, {"docs/en/guide.md": GUIDE, "docs/zh/glossary.toml": 'keep = ["reward"]\n'})
    git(root, "init", "-q")
    translate(root, "docs/en/guide.md", CHINESE)
    commit(root)
    return root


def test_the_whole_way_of_a_translation(repository: Path) -> None:
    guide = repository / "docs/en/guide.md"
    assert report(repository, "status")["counts"]["sections"] == {"current": 2}
    assert report(repository, "check")["findings"] == []

    guide.write_text(GUIDE.replace("2. Two.", "2. Two.\n3. Three."), encoding="utf-8")
    (page,) = report(repository, "status", status=1)["pages"]
    assert [(s["key"], s["state"]) for s in page["sections"]] == [
        ("guide", "current"),
        ("steps", "stale"),
    ]
    (finding,) = report(repository, "check", status=1)["findings"]
    assert (finding["file"], finding["rule"], finding["line"]) == ("docs/zh/guide.md", "list", 11)
    assert finding["expected"] == "a numbered list of 3 items"

    plan = report(repository, "plan", "docs/zh/guide.md")
    (section,) = plan["sections"]
    assert section["old_source"] == "## Steps\n\n1. One reward.\n2. Two."
    assert "+3. Three.\n" in section["diff"]
    assert section["translation"] == "## 步骤\n\n1. 一个 reward。\n2. 两个。"
    assert plan["glossary"] == {"reward": "keep"}

    zh = repository / "docs/zh/guide.md"
    old = next(row for row in zh.read_text("utf-8").split("\n") if " steps " in row)
    text = zh.read_text("utf-8").replace(old, section["marker"])
    zh.write_text(text.replace("2. 两个。", "2. 两个。\n3. 三个。"), encoding="utf-8")
    report(repository, "status")
    report(repository, "check", "guide.md")


def test_a_check_is_written_for_code_hosts(repository: Path) -> None:
    guide = repository / "docs/en/guide.md"
    guide.write_text(GUIDE.replace("2. Two.", "2. Two.\n3. Three."), encoding="utf-8")
    done = scaffold(repository, "docs", "check", "--format", "sarif")
    assert done.exit_code == 1
    assert read_places(done.stdout) == [Place("list", "error", "docs/zh/guide.md", 11, 1)]
    done = scaffold(repository, "docs", "check", "--format", "github")
    assert done.stdout == (
        "::error file=docs/zh/guide.md,line=11,col=1,title=list::found a numbered list of 2 items, "
        "expected a numbered list of 3 items; the page has it at docs/en/guide.md:7\n"
    )
    told = report(repository, "check", status=1)
    told = {key: told[key] for key in ("ok", "docs")}
    same = json.loads(scaffold(repository, "docs", "check", "--format", "json").stdout)
    assert {key: same[key] for key in ("ok", "docs")} == told


def test_a_plan_tells_what_stays_and_where_links_lead(repository: Path) -> None:
    new = "# New\n\nA `key`: [up](#new), [guide](guide.md#steps), [other](other.md).\n"
    write(repository, {"docs/en/new.md": new, "docs/en/other.md": "# Other\n"})
    plan = report(repository, "plan", "new.md")
    assert plan["keep"] == {
        "code": ["key"],
        "links": {
            "#new": "#<the anchor of your heading for 'New'>",
            "guide.md#steps": "guide.md#步骤",
            "other.md": "../en/other.md",
        },
    }


def test_a_page_that_was_renamed_is_followed(repository: Path) -> None:
    git(repository, "mv", "docs/en/guide.md", "docs/en/manual.md")
    git(repository, "mv", "docs/zh/guide.md", "docs/zh/manual.md")
    commit(repository)
    page = repository / "docs/en/manual.md"
    page.write_text(GUIDE.replace("Two", "Two, then"), encoding="utf-8")
    commit(repository)
    (section,) = report(repository, "plan", "manual.md")["sections"]
    assert "-2. Two.\n" in section["diff"]


def test_nothing_is_written_and_nothing_of_the_repository_runs(repository: Path) -> None:
    ran = repository.parent / "ran"
    program = repository.parent / "program"
    program.write_text(f"#!/bin/sh\ntouch {ran}\ncat\n")
    program.chmod(0o755)
    for key in ("core.fsmonitor", "core.pager", "diff.external", "diff.x.textconv"):
        git(repository, "config", key, str(program))
    write(repository, {".gitattributes": "*.md diff=x\n"})
    (repository / "docs/en/guide.md").write_text(GUIDE.replace("Two", "2"), encoding="utf-8")
    before = everything(repository)
    for argv in (["status"], ["check"], ["plan", "guide.md"]):
        scaffold(repository, "docs", *argv)
    assert everything(repository) == before
    assert not ran.exists()


def test_a_shallow_clone_says_what_git_does_not_know(repository: Path, tmp_path: Path) -> None:
    (repository / "docs/en/guide.md").write_text(GUIDE.replace("Two", "2"), encoding="utf-8")
    commit(repository)
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{repository}", str(clone))
    done = scaffold(clone, "docs", "plan", "guide.md")
    assert done.exit_code == 0, done.stderr
    assert "the source that was translated is not in git" in done.stdout


def test_a_partial_clone_fetches_nothing(repository: Path, tmp_path: Path) -> None:
    """What it lacks, git would fetch on its own; the origin is there and would give it."""
    (repository / "docs/en/guide.md").write_text(GUIDE.replace("Two", "2"), encoding="utf-8")
    commit(repository)
    git(repository, "config", "uploadpack.allowFilter", "true")
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", "--filter=blob:none", f"file://{repository}", str(clone))
    before = everything(clone)
    (section,) = report(clone, "plan", "guide.md")["sections"]
    assert section["old_source"] is None
    assert everything(clone) == before


@pytest.mark.parametrize("place", ["detached", "bare of commits", "no git", "submodule", "deep"])
def test_odd_places(repository: Path, tmp_path: Path, place: str) -> None:
    root = repository
    if place == "detached":
        git(root, "checkout", "-q", "--detach")
    elif place == "bare of commits":
        shutil.rmtree(root / ".git")
        git(root, "init", "-q")
    elif place == "no git":
        shutil.rmtree(root / ".git")
    elif place == "submodule":
        outer = tmp_path / "outer"
        outer.mkdir()
        git(outer, "init", "-q")
        allow = ["-c", "protocol.file.allow=always"]
        git(outer, *allow, "submodule", "add", "-q", str(root), "inner")
        root = outer / "inner"
    elif place == "deep":
        root = root / "docs" / "en"
    assert report(root, "status")["counts"]["pages"] == {"current": 1}
    report(root, "check")


def test_pages_that_are_missing_or_left_over(repository: Path) -> None:
    write(repository, {"docs/en/new.md": "# New\n\nwords\n", "docs/zh/gone.md": "# 旧\n"})
    found = report(repository, "status", status=1)
    states = {page["translation"]: page["state"] for page in found["pages"]}
    assert states == {
        "docs/zh/guide.md": "current",
        "docs/zh/new.md": "missing",
        "docs/zh/gone.md": "orphan",
    }
    told = scaffold(repository, "docs", "status").stdout
    assert "docs/zh/new.md  missing: 1 section of docs/en/new.md" in told
    assert report(repository, "check")["warnings"] == [
        "no translation of 1 page; `scaffold docs status`"
    ]
    (finding,) = report(repository, "check", "new.md", status=1)["findings"]
    assert (finding["rule"], finding["file"]) == ("page", "docs/zh/new.md")


def test_a_translation_that_never_had_a_page_is_not_to_be_deleted(repository: Path) -> None:
    """XTuner writes its pages in Chinese first: 40 of them have no English one yet."""
    write(repository, {"docs/zh/first.md": "# 新\n", "docs/en/gone.md": "# Old\n"})
    write(repository, {"docs/zh/gone.md": "# 旧\n"})
    commit(repository)
    (repository / "docs/en/gone.md").unlink()
    commit(repository)
    rows = scaffold(repository, "docs", "status").stdout.splitlines()
    assert "docs/zh/gone.md  orphan: its page is gone; delete it" in rows
    never = "orphan: there is no docs/en/first.md, nor does git know of one"
    assert f"docs/zh/first.md  {never}" in rows


def test_a_translation_without_markers_is_taken_over(tmp_path: Path) -> None:
    write(tmp_path, {"README.md": GUIDE, "README.zh.md": CHINESE})
    (page,) = report(tmp_path, "status", status=1)["pages"]
    assert [s["state"] for s in page["sections"]] == ["unmarked", "unmarked"]
    assert report(tmp_path, "check")["warnings"] == ["2 sections behind; `scaffold docs status`"]
    translate(tmp_path, "README.md", CHINESE)
    report(tmp_path, "status")


@pytest.mark.parametrize(
    ("argv", "code", "status"),
    [
        (["plan", "nothing.md"], "page_unknown", 2),
        (["plan", "docs/en/api.md"], "page_unknown", 2),
        (["check", "../outside.md"], "page_unknown", 2),
        (["plan", "guide.md", "--section", "none"], "usage", 2),
        (["plan"], "usage", 2),
    ],
)
def test_wrong_input_is_an_error_with_a_hint(
    repository: Path, argv: list[str], code: str, status: int
) -> None:
    config = '[tool.scaffold.docs]\ngenerated = ["docs/en/api.md"]\n'
    write(repository, {"docs/en/api.md": "# API\n", "pyproject.toml": config})
    error = report(repository, *argv, status=status)["error"]
    assert error["code"] == code
    assert error["hint"]


def test_a_process_in_the_folder_prints_its_report(repository: Path) -> None:
    """The streams and the working folder are real ones here; any locale will do."""
    done = subprocess.run(
        [sys.executable, "-m", "scaffold", "docs", "plan", "guide.md", "--all"],
        cwd=repository / "docs" / "zh",
        env={**os.environ, "PYTHONPATH": str(ROOT), "LC_ALL": "C", "PYTHONUTF8": "0"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(b"docs/en/guide.md -> docs/zh/guide.md: 2 sections")


def test_a_page_that_is_misspelled_is_guessed(repository: Path) -> None:
    error = report(repository, "plan", "docs/en/giude.md", status=2)["error"]
    assert error["message"].endswith("; did you mean 'docs/en/guide.md'?")


def test_a_repository_without_translations_is_told_what_to_configure(tmp_path: Path) -> None:
    write(tmp_path, {"README.md": "# A\n"})
    assert report(tmp_path, "status", status=1)["error"]["code"] == "docs_missing"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"# A\0\n", "docs/zh/guide.md is not text: it has null bytes"),
        ("# \n\n指南".encode("gbk"), "docs/zh/guide.md is not UTF-8: line 3 holds the byte 0xc4"),
    ],
)
def test_a_page_that_is_no_text(repository: Path, data: bytes, message: str) -> None:
    (repository / "docs/zh/guide.md").write_bytes(data)
    error = report(repository, "status", status=2)["error"]
    assert (error["code"], error["message"]) == ("source_unreadable", message)


def test_a_link_out_of_the_repository_is_not_followed(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "outside.md").write_text("# Outside\n")
    (repository / "docs/en/link.md").symlink_to(tmp_path / "outside.md")
    error = report(repository, "status", status=2)["error"]
    assert "leads out of the repository" in error["message"]


def test_without_git_on_the_path_the_pages_are_still_read(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    assert report(repository, "status")["counts"]["pages"] == {"current": 1}
    report(repository, "plan", "guide.md", "--all")


def test_other_encodings_line_ends_and_escapes_are_read(repository: Path) -> None:
    zh = repository / "docs/zh/guide.md"
    zh.write_bytes(b"\xef\xbb\xbf" + zh.read_bytes().replace(b"\n", b"\r\n"))
    report(repository, "status")
    report(repository, "check")
    write(repository, {"docs/en/\x1b[31m.md": "# \x1b[31mred\n"})
    assert "\x1b" not in scaffold(repository, "docs", "status").stdout


def test_many_pages_are_read_at_once(tmp_path: Path) -> None:
    started = time.process_time()
    rows = "\n".join(f"## Part {n}\n\nWords `{n}`.\n\n- one\n- two\n" for n in range(10))
    for number in range(100):
        write(tmp_path, {f"docs/en/p{number}.md": f"# P\n\n{rows}", f"docs/zh/p{number}.md": rows})
    done = scaffold(tmp_path, "docs", "status", "--json")
    assert len(json.loads(done.stdout)["docs"]["pages"]) == 100
    assert time.process_time() - started < 10  # it takes one second


@pytest.fixture
def unmarked(tmp_path: Path) -> Path:
    """Makes a repository whose translation has no markers, and lags in one section."""
    root = tmp_path / "unmarked"
    write(root, {"docs/en/guide.md": GUIDE, "docs/zh/guide.md": CHINESE})
    git(root, "init", "-q")
    commit(root)
    write(root, {"docs/en/guide.md": GUIDE.replace("2. Two.", "2. Two.\n3. Three.")})
    commit(root)
    return root


def test_history_shows_which_sections_lag_without_markers(unmarked: Path) -> None:
    found = report(unmarked, "status", status=1)
    assert found["counts"]["sections"] == {"current": 1, "stale": 1}
    assert found["warnings"] == [
        "2 sections without a marker, judged by the commit that last changed the translation; "
        "`scaffold docs adopt` writes the markers"
    ]
    (section,) = report(unmarked, "plan", "guide.md")["sections"]
    assert section["key"] == "steps"
    assert "+3. Three.\n" in section["diff"]
    # A section that was translated again is in step with its page.
    zh = unmarked / "docs/zh/guide.md"
    zh.write_text(CHINESE.replace("2. 两个。", "2. 两个。\n3. 三个。"), encoding="utf-8")
    commit(unmarked)
    assert report(unmarked, "status")["counts"]["sections"] == {"current": 2}


LONG = "One reward is given for each of the answers that the model has written in this very step."


@pytest.mark.parametrize(
    ("new", "state"),
    [
        (LONG.replace("very ", ""), "reworded"),
        (LONG.replace("answers", "answers,"), "reworded"),
        (LONG.replace("One", "`One`"), "stale"),
        (LONG.replace("One reward", "Reward 3"), "stale"),
        ("Something else is said here now, and no word of the section is what it was.", "stale"),
    ],
)
def test_a_page_that_was_reworded_is_told_from_one_that_lags(
    tmp_path: Path, new: str, state: str
) -> None:
    """FastAPI's spelling is mended in 50 pages at once, which made every language look stale."""
    en = tmp_path / "docs/en/guide.md"
    write(
        tmp_path,
        {"docs/en/guide.md": f"# Guide\n\n{LONG}\n", "docs/zh/guide.md": "# 指南\n\n答案。\n"},
    )
    git(tmp_path, "init", "-q")
    commit(tmp_path)
    en.write_text(f"# Guide\n\n{new}\n", encoding="utf-8")
    commit(tmp_path)
    found = report(tmp_path, "status", status=1 if state == "stale" else 0)
    assert found["counts"]["sections"] == {state: 1}
    assert any("`reworded` in --json" in each for each in found["warnings"]) == (
        state == "reworded"
    )
    # Whoever adopts takes a section that was reworded to be in step, and is told where.
    adopted = report(tmp_path, "adopt")
    assert adopted["reworded"] == (["docs/zh/guide.md:1"] if state == "reworded" else [])
    after = report(tmp_path, "status", status=1 if state == "stale" else 0)
    assert after["counts"]["sections"] == {"current" if state == "reworded" else "stale": 1}


def test_what_a_translator_takes_out_counts_as_a_change(tmp_path: Path) -> None:
    """FastAPI dropped a note in May, its translations in August; no line is left to be blamed."""
    note, notiz = "\n**Note**: others need help too.\n", "\n**注意**：帮助他人。\n"
    en, zh = tmp_path / "docs/en/guide.md", tmp_path / "docs/zh/guide.md"
    english, chinese = "# Guide\n\nAsk a question.\n", "# 指南\n\n提问。\n"
    write(tmp_path, {"docs/en/guide.md": english + note, "docs/zh/guide.md": chinese + notiz})
    git(tmp_path, "init", "-q")
    commit(tmp_path)
    en.write_text(english, encoding="utf-8")
    commit(tmp_path)
    assert report(tmp_path, "status", status=1)["counts"]["sections"] == {"stale": 1}
    zh.write_text(chinese, encoding="utf-8")
    commit(tmp_path)
    assert report(tmp_path, "status")["counts"]["sections"] == {"current": 1}


@pytest.mark.parametrize("form", ["plain", "CRLF", "front matter", "underlined", "no line end"])
def test_adoption_writes_markers_and_changes_no_state(unmarked: Path, form: str) -> None:
    zh = unmarked / "docs/zh/guide.md"
    text = CHINESE
    if form == "CRLF":
        text = text.replace("\n", "\r\n")
    elif form == "front matter":
        en = unmarked / "docs/en/guide.md"
        en.write_text(f"---\ntitle: Guide\n---\n\nWords.\n\n{en.read_text()}")
        text = f"---\ntitle: 指南\n---\n\n文字。\n\n{text}"
    elif form == "underlined":
        title, _, rest = text.partition("\n")
        text = f"{title.removeprefix('# ')}\n=====\n{rest}"
    elif form == "no line end":
        text = text.rstrip("\n")
    zh.write_bytes(text.encode())
    if form != "plain":
        commit(unmarked)
    before = report(unmarked, "status", status=1)
    shown = report(unmarked, "adopt", "--dry-run")
    assert zh.read_bytes() == text.encode()
    adopted = report(unmarked, "adopt")
    assert adopted["marked"] == shown["marked"] == len(before["pages"][0]["sections"])
    after = report(unmarked, "status", status=1)
    assert after["counts"] == before["counts"]
    assert after["warnings"] == []
    bare = [row for row in zh.read_bytes().splitlines() if row and b"scaffold: source" not in row]
    assert bare == [row for row in text.encode().splitlines() if row]
    assert (b"\r\n" in zh.read_bytes()) == (form == "CRLF")
    assert report(unmarked, "adopt")["marked"] == 0


def test_what_is_not_committed_is_left_unmarked(unmarked: Path) -> None:
    zh = unmarked / "docs/zh/guide.md"
    zh.write_text(CHINESE.replace("两个", "二"), encoding="utf-8")
    found = report(unmarked, "status", status=1)
    assert found["counts"]["sections"] == {"current": 1, "unmarked": 1}
    assert report(unmarked, "adopt")["left"] == ["docs/zh/guide.md:5"]


def test_a_page_that_was_made_from_its_translation_is_in_step(tmp_path: Path) -> None:
    root = tmp_path / "back"
    write(root, {"README.md": "words\n", "docs/zh/guide.md": CHINESE})
    git(root, "init", "-q")
    commit(root)
    # Copied first, then translated; the file is moved later.
    write(root, {"docs/en/manual.md": CHINESE.replace("指南", "Guide").replace("步骤", "Steps")})
    commit(root)
    write(root, {"docs/en/manual.md": GUIDE})
    commit(root)
    git(root, "mv", "docs/en/manual.md", "docs/en/guide.md")
    commit(root)
    assert report(root, "status")["counts"]["sections"] == {"current": 2}
    write(root, {"docs/en/guide.md": GUIDE.replace("One", "A")})
    assert report(root, "status", status=1)["counts"]["sections"] == {"current": 1, "stale": 1}


def test_a_page_that_nobody_has_begun_is_one_finding(repository: Path) -> None:
    text = "".join(f"## Part {n}\n\nthere are some words in here: `code{n}`\n\n" for n in range(9))
    write(repository, {"docs/en/long.md": text, "docs/zh/long.md": text.replace("code", "kode")})
    (finding,) = report(repository, "check", "long.md", status=1)["findings"]
    assert (finding["rule"], finding["line"]) == ("untranslated", 1)
    assert finding["found"] == "9 of 9 texts in English"


def test_captions_diagrams_and_names_of_objects(repository: Path) -> None:
    page = """# Guide

```{figure} a.png
:name: fig
WORDS
```

```{code-block} bash
:caption: WORDS
make
```

```mermaid
graph LR
  a[WORDS] -->|WORDS| b("WORDS")
```

[WORDS](areal.api.Engine) [WORDS](label) [WORDS](other.md)
"""
    chinese = page.replace("# Guide", "# 指南").replace("WORDS", "文字")
    other = {"docs/en/other.md": "# Other\n", "docs/zh/other.md": "# 其他\n"}
    write(repository, {"docs/en/my.md": page, "docs/zh/my.md": chinese, **other})
    assert report(repository, "check", "my.md")["findings"] == []
    wrong = chinese.replace("areal.api.Engine", "areal.api.Motor").replace("a[", "c[")
    write(repository, {"docs/zh/my.md": wrong.replace("make", "mak").replace("fig\n", "fug\n")})
    rules = [f["rule"] for f in report(repository, "check", "my.md", status=1)["findings"]]
    assert rules == ["code", "code", "code", "link"]


def test_a_glossary_begins_with_what_the_translations_use(tmp_path: Path) -> None:
    pages = {
        "docs/en/a.md": "# A\n\nThe loss of a rollout.\n\n## B\n\nA policy, its gradient.\n",
        "docs/zh/a.md": "# 甲\n\n一次 rollout 的损失。\n\n## 乙\n\n一个 policy 及其梯度。\n",
    }
    write(tmp_path, pages)
    argv = ("docs", "adopt", "--glossary")
    assert "glossary.toml" in scaffold(tmp_path, *argv, "--dry-run").stdout
    assert not (tmp_path / "docs/zh/glossary.toml").exists()
    assert scaffold(tmp_path, *argv).exit_code == 0
    text = (tmp_path / "docs/zh/glossary.toml").read_text(encoding="utf-8")
    # The translation says policy in English, so that the word for it is nobody's here.
    assert tomllib.loads(text) == {
        "keep": ["rollout"],
        "terms": {"gradient": ["梯度"], "loss": ["损失"]},
    }
    assert [each["rule"] for each in report(tmp_path, "check")["findings"]] == []
    (tmp_path / "docs/zh/glossary.toml").write_text("keep = []\n")
    scaffold(tmp_path, *argv)
    assert (tmp_path / "docs/zh/glossary.toml").read_text() == "keep = []\n"


def test_another_language_is_configured(tmp_path: Path) -> None:
    words = "these words are here to be read"
    pages = {"docs/en/a.md": f"# A\n\n{words}\n", "docs/pt-br/a.md": f"# A\n\n{words}\n"}
    write(tmp_path, {**pages, "pyproject.toml": '[tool.scaffold.docs]\nlanguage = "pt"\n'})
    (finding,) = report(tmp_path, "check", status=1)["findings"]
    assert (finding["rule"], finding["file"]) == ("untranslated", "docs/pt-br/a.md")
    write(tmp_path, {"docs/pt-br/a.md": "# A\n\nestas palavras devem ser lidas\n"})
    assert report(tmp_path, "check")["findings"] == []
    write(tmp_path, {"pyproject.toml": '[tool.scaffold.docs]\nlanguage = "Portuguese"\n'})
    assert "is not a code such as 'ja'" in scaffold(tmp_path, "docs", "check").stderr
