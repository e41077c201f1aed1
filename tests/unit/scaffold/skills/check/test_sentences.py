"""What sentences claim: a plain one is refuted with an error, a doubtful one never.

The sentences stand in tests/fixtures/skill_sentences, one after the other with `%%` between them.
They name files of the folders that the repository has, and no file that it has.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from scaffold.analysis.files.files import Files
from scaffold.analysis.repository import Repository
from scaffold.findings import Finding
from scaffold.skills.check.documents import Document
from scaffold.skills.check.judging import finding_of, judge_document
from tests.skill_fixtures import read_sentences

FILES = (
    *("src/core.py", "src/__init__.py", "docs/guide.md", "scripts/check.sh", "tests/test_core.py"),
    *("config/here.toml", "pyproject.toml", "README.md"),
)
# A sentence of plain.txt that begins so is one that is not found yet.
MISSED = "~ "


PLAIN = read_sentences("plain.txt")


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    root = tmp_path_factory.mktemp("repository")
    for path in FILES:
        (root / path).parent.mkdir(exist_ok=True)
        (root / path).write_text("#!/bin/sh\n")
        (root / path).chmod(0o755)
    return Repository(Files(root, list(FILES), has_git=False))


def findings_of(text: str, repository: Repository) -> list[Finding]:
    document = Document("AGENTS.md", "guide", "", text)
    rows = judge_document(document, repository)
    return [finding_of(each, document) for each in rows if each.verdict.state == "false"]


@pytest.mark.parametrize("text", read_sentences("doubtful.txt"))
def test_a_doubtful_sentence_is_no_error(text: str, repository: Repository) -> None:
    assert [each for each in findings_of(text, repository) if each.severity == "error"] == []


def test_a_sentence_about_a_file_is_no_title_of_what_follows(repository: Repository) -> None:
    text = "All models are plain structs in `src/models.py`:\n\n```python\nclass A: ...\n```\n"
    assert [each.rule for each in findings_of(text, repository)] == ["path-missing"]


@pytest.mark.parametrize("text", read_sentences("made.txt"))
def test_what_the_text_makes_is_not_found(text: str, repository: Repository) -> None:
    assert findings_of(text, repository) == []


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            each.removeprefix(MISSED),
            marks=[pytest.mark.xfail(strict=True)] if each.startswith(MISSED) else [],
        )
        for each in PLAIN
    ],
)
def test_a_plain_sentence_is_refuted(text: str, repository: Repository) -> None:
    found = findings_of(text, repository)
    assert "error" in {each.severity for each in found}, found


def test_most_plain_sentences_are_refuted() -> None:
    assert sum(each.startswith(MISSED) for each in PLAIN) < 0.2 * len(PLAIN)


def test_the_same_file_elsewhere_is_evidence(tmp_path: Path) -> None:
    files = {"src/a/queue.py": "", "src/b/other.py": ""}
    for path in files:
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_text("")
    repository = Repository(Files(tmp_path, list(files), has_git=False))
    bare, doubted, name = (
        "Queue `src/b/queue.py`.",
        "Maybe `src/b/queue.py`?",
        "It `src/b/others.py`.",
    )
    found = [findings_of(text, repository) for text in (bare, f"If {doubted}", name)]
    assert [[each.severity for each in rows] for rows in found] == [
        ["error"],
        ["warning"],
        ["warning"],
    ]
