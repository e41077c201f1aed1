"""For any page: it agrees with itself, and a marker changes nothing but the state."""

from __future__ import annotations

import string

from hypothesis import given
from hypothesis import strategies as st

from scaffold.translation.agreement import check_blocks, check_headings, is_same_shape
from scaffold.translation.finding import Comparison
from scaffold.translation.page import Page
from scaffold.translation.pairing import pair_sections
from scaffold.translation.reading import read_page
from scaffold.translation.wording import check_comments, check_passage

WORDS = st.text(string.ascii_lowercase + "`*_[]()<>#|0189 奖励", min_size=1, max_size=12)
STARTS = st.sampled_from(
    ["# ", "## ", "### ", "- ", "  - ", "1. ", "> ", "> [!NOTE]", "| a | b |", "|---|---|", "",
     "```", "```sh", "~~~", "    ", "!!! note", "=== \"x\"", ":::{tip}", ":::", "<!-- a -->",
     "<div id=\"x\">", "---", "(label)=", "a\n=", "[a]: b.md"]
)  # fmt: skip
ROWS = st.lists(st.tuples(STARTS, st.one_of(st.just(""), WORDS)).map("".join), max_size=25)


def marked(page: Page) -> str:
    """Returns a page with its own markers below its headings, as a translation carries them."""
    rows = list(page.lines)
    for section in reversed(page.sections):
        if rows[section.line - 1].startswith("#"):
            rows[section.line : section.line] = ["", str(section.wanted), ""]
    return "\n".join(rows)


@given(ROWS)
def test_a_page_agrees_with_itself(rows: list[str]) -> None:
    page, other = (read_page(name, "\n".join(rows)) for name in ("a.md", "b.md"))
    pairs = pair_sections(page.sections, other.sections, frozenset())
    assert list(check_headings(page, other, pairs)) == []
    for pair in pairs:
        assert pair.source is not None
        assert pair.translation is not None
        at = Comparison("a.md", "b.md", pair.source, pair.translation)
        assert is_same_shape(at)
        found = [*check_blocks(at), *check_comments(at)]
        for source, passage in at.passages(is_same_shape=True):
            found += check_passage(at, source, passage, "zh")
        assert [each for each in found if each.rule != "untranslated"] == []


@given(ROWS)
def test_a_marker_makes_its_section_current_and_is_no_part_of_it(rows: list[str]) -> None:
    page = read_page("a.md", "\n".join(rows))
    other = read_page("b.md", marked(page))
    for pair in pair_sections(page.sections, other.sections, frozenset()):
        assert pair.source is not None
        assert pair.translation is not None
        if page.lines[pair.source.line - 1].startswith("#"):
            assert pair.state == "current"
            assert pair.translation.hash == pair.source.hash
