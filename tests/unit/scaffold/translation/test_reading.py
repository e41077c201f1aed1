"""A page as its sections: what counts as one, what its hash covers, how dialects are read."""

from __future__ import annotations

import pytest

from scaffold.translation.page import Page, Section
from scaffold.translation.reading import read_page, slug_of

PAGE = """\
---
title: A page
---

Words above.

# One `x`

<!-- scaffold: source one-x 0123456789ab -->

A [link](to.md#here) and `code`
with ![a picture](a.png) on a second line.

- first
  - inner
- second

| a | b |
|---|---|
| `c` | d |

## Two

```python
x = 1
```
"""


def page(text: str) -> Page:
    return read_page("a.md", text)


def only(text: str) -> Section:
    (section,) = page(text).sections
    return section


def test_sections_reach_to_the_next_heading_of_any_level() -> None:
    found = page(PAGE)
    rows = [(s.key, s.level, s.line, s.end) for s in found.sections]
    assert rows == [("preamble", 0, 1, 7), ("one-x", 1, 7, 22), ("two", 2, 22, 28)]
    assert tuple(found.front.fields) == ("title",)


def test_blocks_and_passages_stand_where_they_are() -> None:
    one = page(PAGE).sections[1]
    assert [(b.kind, b.line, b.size) for b in one.blocks] == [
        ("bullet list", 14, (2,)),
        ("bullet list", 15, (1,)),
        ("table", 18, (2, 2)),
    ]
    texts = {passage.slot: passage.plain for passage in one.passages}
    assert texts["item", 2, 1] == "inner"
    assert texts["cell", 1, 2, 1] == "c"
    (text,) = (passage for passage in one.passages if passage.slot == ("text", 0))
    assert [(p.text, p.line) for p in text.links] == [("to.md#here", 11)]
    assert [(p.text, p.line) for p in text.codes] == [("code", 11)]
    assert [(p.text, p.line) for p in text.images] == [("a.png", 12)]


def test_a_marker_is_no_part_of_the_text() -> None:
    found = page(PAGE)
    one = found.sections[1]
    assert [(m.key, m.hash, m.line) for m in one.markers] == [("one-x", "0123456789ab", 9)]
    assert "source" not in found.text(one)
    bare = PAGE.replace("<!-- scaffold: source one-x 0123456789ab -->\n\n", "")
    assert page(bare).sections[1].hash == one.hash
    assert page(bare).text(page(bare).sections[1]) == found.text(one)


SAME = [
    ("line ends", "# A\n\none two\n", "# A\r\n\r\none two\r\n"),
    ("wrapping", "# A\n\none two three\n", "# A\n\none two\nthree\n"),
    ("blank lines", "# A\n\none\n\ntwo\n", "# A\n\n\none\n\n\n\ntwo\n\n"),
    ("the mark of a list", "# A\n\n- one\n- two\n", "# A\n\n* one\n* two\n"),
    ("a table's width", "# A\n\n|a|b|\n|-|-|\n|c|d|\n", "# A\n\n| a | b |\n|---|--|\n| c | d |\n"),
    ("composed letters", "# A\n\ncaf\u00e9\n", "# A\n\ncafe\u0301\n"),
    ("the form of a heading", "# A\n\none\n", "A\n=\n\none\n"),
]  # fmt: skip
OTHER = [
    ("a word", "# A\n\none\n", "# A\n\ntwo\n"),
    ("code", "# A\n\n```\na  b\n```\n", "# A\n\n```\na b\n```\n"),
    ("a language", "# A\n\n```sh\na\n```\n", "# A\n\n```py\na\n```\n"),
    ("a level", "# A\n\none\n", "## A\n\none\n"),
    ("a link", "# A\n\n[a](b.md)\n", "# A\n\n[a](c.md)\n"),
    ("an admonition", "# A\n\n!!! note\n    one\n", "# A\n\n!!! tip\n    one\n"),
]


@pytest.mark.parametrize(("what", "left", "right"), SAME, ids=[row[0] for row in SAME])
def test_what_readers_do_not_see_changes_no_hash(what: str, left: str, right: str) -> None:
    assert only(left).hash == only(right).hash


@pytest.mark.parametrize(("what", "left", "right"), OTHER, ids=[row[0] for row in OTHER])
def test_what_readers_see_changes_the_hash(what: str, left: str, right: str) -> None:
    assert only(left).hash != only(right).hash


@pytest.mark.parametrize(
    ("text", "sorts", "kinds"),
    [
        ("!!! note \"T\"\n    words\n\n    - one\n\nafter\n", ["note"], ["bullet list"]),
        ("=== \"A\"\n\n    ```sh\n    x\n    ```\n", ["tab"], ["code block"]),
        ("```{warning} T\n:class: x\nwords\n\n- one\n```\n", ["warning"], ["bullet list"]),
        (":::{tip}\nwords\n:::\n", ["tip"], []),
        ("::: info\nwords\n:::\n", ["info"], []),
        ("/// tip | T\n\nwords\n\n- one\n\n///\n", ["tip"], ["bullet list"]),
        ("> [!NOTE]\n> words\n", ["note"], ["quote"]),
        ("```{code-block} python\nx = 1\n```\n", [], ["code block"]),
        ("````md\n!!! note\n    x\n````\n", [], ["code block"]),
        ("??? tip\n    !!! note\n        deep\n", ["tip", "note"], []),
    ],
)  # fmt: skip
def test_admonitions_of_every_dialect_hold_text(
    text: str, sorts: list[str], kinds: list[str]
) -> None:
    blocks = only(f"# A\n\n{text}").blocks
    assert [block.info for block in blocks if block.kind == "admonition"] == sorts
    assert [block.kind for block in blocks if block.kind != "admonition"] == kinds


def test_a_role_keeps_where_it_leads_and_not_its_words() -> None:
    passage = only("# A\n\nSee {ref}`the words <place>` and `x <y>`.\n").passages[1]
    assert [code.text for code in passage.codes] == ["<place>", "x <y>"]


def test_what_a_site_fills_in_stays_as_it_is() -> None:
    text = "# A\n\nIt is {{ version }}, {* ../a_b.py hl[2] *} and {!b.md!} {% if x %}.\n"
    found = [code.text for code in only(text).passages[1].codes]
    assert found == ["{{ version }}", "{* ../a_b.py hl[2] *}", "{!b.md!}", "{% if x %}"]


def test_tags_that_a_language_may_add_do_not_count() -> None:
    text = '# A\n\n<abbr title="x">A</abbr> <a href="b.md">b</a> <kbd class="k">c</kbd>\n'
    assert [tag.text for tag in only(text).passages[1].tags] == ['kbd class="k"']


def test_anchors_are_those_that_the_page_sets() -> None:
    text = '(label)=\n# A {#own}\n\n<a id="third"></a>\n\n<h2 id="x">H</h2>\n'
    found = [anchor.text for s in page(text).sections for anchor in s.anchors]
    assert found == ["label", "own", "third", "x"]


def test_headings_of_the_same_words_have_keys_of_their_own() -> None:
    found = page("# A\n\n## Example\n\n## Example\n\n## !!\n\n## Preamble\n").sections
    assert [s.key for s in found] == ["a", "example", "example-2", "section", "preamble-2"]
    assert [s.slug for s in found][1:3] == ["example", "example-1"]


def test_a_heading_in_a_quote_or_in_code_starts_no_section() -> None:
    assert len(page("# A\n\n> # B\n\n```\n# C\n```\n").sections) == 1


@pytest.mark.parametrize(
    ("title", "slug"),
    [
        ("Before you start", "before-you-start"),
        ("`--json` & more", "--json--more"),
        ("第一步：安装", "第一步安装"),
        ("a_b.c", "a_bc"),
    ],
)
def test_slugs_are_githubs(title: str, slug: str) -> None:
    assert slug_of(title.replace("`", "")) == slug


def test_anchors_of_mkdocs_are_those_that_python_markdown_makes() -> None:
    markdown = pytest.importorskip("markdown", reason="comes with tensorboard, as its reference")
    titles = ["A b!", "二", "三", "Example", "Example", "Ünï `x_y`", "二 x", "_1", "a -- b"]
    text = "".join(f"# {title}\n\n" for title in titles)
    reference = markdown.Markdown(extensions=["toc"])
    reference.convert(text)
    wanted = [row["id"] for row in reference.toc_tokens]
    assert [section.mkdocs_slug for section in page(text).sections] == wanted


@pytest.mark.parametrize(
    "text", ["", "\n", "---\n", "---\na: [\n---\n", "words\n", "# \n", "\ufeff# A"]
)
def test_odd_pages_are_read(text: str) -> None:
    assert page(text).sections


def test_a_comment_above_the_first_heading_is_no_section() -> None:
    assert [s.key for s in page("<!-- licence -->\n\n# A\n").sections] == ["a"]
