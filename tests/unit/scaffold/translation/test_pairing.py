"""Which section stands for which: by marker, by hash, by key, and else by order."""

from __future__ import annotations

from scaffold.translation.page import Section
from scaffold.translation.pairing import pair_sections
from scaffold.translation.reading import read_page

SOURCE = "# A\n\none\n\n## B\n\ntwo\n\n## C\n\nthree\n"


def sections(text: str) -> tuple[Section, ...]:
    return read_page("a.md", text).sections


def marked(text: str, source: str = SOURCE) -> str:
    """Returns a text whose sections carry the markers of a source, one after the other."""
    rows: list[str] = []
    wanted = iter(sections(source))
    for row in text.split("\n"):
        rows.append(row)
        if row.startswith("#"):
            rows += ["", str(next(wanted).wanted)]
    return "\n".join(rows)


def states(translation: str, source: str = SOURCE, excluded: tuple[str, ...] = ()) -> list[str]:
    pairs = pair_sections(sections(source), sections(translation), frozenset(excluded))
    return [f"{pair.key} {pair.state}" for pair in pairs]


CHINESE = "# 甲\n\n一\n\n## 乙\n\n二\n\n## 丙\n\n三\n"


def test_marked_sections_are_current() -> None:
    assert states(marked(CHINESE)) == ["a current", "b current", "c current"]


def test_a_changed_section_is_stale_and_the_others_are_not() -> None:
    changed = SOURCE.replace("two", "two, and more")
    assert states(marked(CHINESE), changed) == ["a current", "b stale", "c current"]


def test_sections_may_be_moved_in_the_source_or_in_the_translation() -> None:
    moved = "# A\n\none\n\n## C\n\nthree\n\n## B\n\ntwo\n"
    assert states(marked(CHINESE), moved) == ["a current", "c current", "b current"]


def test_a_new_section_is_missing_and_a_deleted_one_leaves_an_orphan() -> None:
    new = SOURCE.replace("## C", "## New\n\nwords\n\n## C")
    assert states(marked(CHINESE), new) == ["a current", "b current", "new missing", "c current"]
    gone = SOURCE.replace("## B\n\ntwo\n\n", "")
    assert states(marked(CHINESE), gone) == ["a current", "c current", "乙 orphan"]


def test_a_renamed_heading_is_stale_and_no_orphan() -> None:
    renamed = SOURCE.replace("## B", "## Bee")
    assert states(marked(CHINESE), renamed) == ["a current", "bee stale", "c current"]


def test_without_markers_sections_pair_by_order_and_level() -> None:
    assert states(CHINESE) == ["a unmarked", "b unmarked", "c unmarked"]
    assert states("# 甲\n\n## 乙\n") == ["a unmarked", "b unmarked", "c missing"]
    assert states("# 甲\n\n### 别\n\n## 乙\n\n## 丙\n") == [
        "a unmarked", "b unmarked", "c unmarked", "别 orphan",
    ]  # fmt: skip


def test_an_unmarked_section_between_marked_ones_is_found() -> None:
    rows = marked(CHINESE).split("\n")
    second = next(row for row in rows if " b " in row)
    bare = "\n".join(row for row in rows if row != second)
    assert states(bare) == ["a current", "b unmarked", "c current"]


def test_sections_of_the_same_heading_are_told_apart_by_their_hash() -> None:
    source = "# A\n\n## Example\n\none\n\n## Example\n\ntwo\n"
    chinese = marked("# 甲\n\n## 例\n\n一\n\n## 例\n\n二\n", source)
    moved = "# A\n\n## Example\n\ntwo\n\n## Example\n\none\n"
    assert states(chinese, moved) == ["a current", "example current", "example-2 current"]


def test_an_excluded_section_is_neither_missing_nor_stale() -> None:
    assert states("# 甲\n\n## 乙\n", excluded=("c",))[2] == "c excluded"
    changed = SOURCE.replace("three", "four")
    assert states(marked(CHINESE), changed, ("c",))[2] == "c excluded"
