"""The page of what guidance gets wrong: links to lines and commits, and no text that is markup."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

from scaffold.analysis.files.files import list_files
from scaffold.skills.check.checking import Outcome
from scaffold.skills.check.report.page import page
from tests.unit.scaffold.skills.check.conftest import Checked

FILES = {
    "pkg/__init__.py": "",
    "pyproject.toml": '[project]\nname = "pkg"\n[project.urls]\ncode = "https://github.com/one/pkg"\n',
}


class Links(HTMLParser):
    """Collects where a page leads, and what it loads."""

    def __init__(self) -> None:
        super().__init__()
        self.to: list[str] = []
        self.loaded: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "a":
            self.to.append(given["href"] or "")
        if tag in ("script", "link", "img", "iframe"):
            self.loaded.append(tag)


def outcome_of(checked: Checked) -> Outcome:
    text = "Read `pkg/__init__.py` and `pkg/gone.py` <script>alert(1)</script>.\n"
    return checked(text, FILES, {"pkg/gone.py": "x = 1\n"})


def test_the_page_leads_to_lines_and_commits_and_loads_nothing(
    checked: Checked, tmp_path: Path
) -> None:
    outcome = outcome_of(checked)
    text = page(outcome, list_files(tmp_path / "repository"), "html")
    links = Links()
    links.feed(text)
    assert links.loaded == []
    assert any(each.endswith("/AGENTS.md?plain=1#L1") for each in links.to)
    assert sum("/commit/" in each for each in links.to) == 2
    assert all(each.startswith("https://github.com/one/pkg/") for each in links.to)
    assert "&lt;script&gt;" in text


def test_the_text_of_an_issue_has_the_same_facts(checked: Checked, tmp_path: Path) -> None:
    outcome = outcome_of(checked)
    text = page(outcome, list_files(tmp_path / "repository"), "markdown")
    assert "## AGENTS.md" in text
    assert "path-missing (removed): 'pkg/gone.py' does not exist" in text
    assert "](https://github.com/one/pkg/commit/" in text


def test_a_clean_repository_has_a_page_that_says_so(checked: Checked, tmp_path: Path) -> None:
    outcome = checked("Read `pkg/__init__.py`.\n", FILES)
    text = page(outcome, list_files(tmp_path / "repository"), "html")
    assert "Nothing was found that is wrong." in text
    assert "1 claims hold, 0 do not" in text
