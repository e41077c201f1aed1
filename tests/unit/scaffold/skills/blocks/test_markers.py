from __future__ import annotations

from dataclasses import replace

import pytest

from scaffold.skills.blocks.markers import (
    Block,
    fenced,
    parse_blocks,
    replace_blocks,
    table,
)

TEXT = """# Title

<!-- scaffold:begin tree areal/workflow depth=2 only="*.py,*.md" -->
old
<!-- scaffold:end -->

- item

  <!-- scaffold:begin registry areal.workflow.WORKFLOWS -->

  | a |

  <!-- scaffold:end -->
end
"""


def test_blocks_are_read_with_their_words_and_lines() -> None:
    tree, registry = parse_blocks(TEXT)
    assert (tree.kind, tree.words) == ("tree", ("areal/workflow",))
    assert tree.options == {"depth": "2", "only": "*.py,*.md"}
    assert (tree.line, tree.end_line, tree.body, tree.problem) == (3, 5, "old", "")
    assert (registry.indent, registry.content) == ("  ", "| a |")
    assert (registry.line, registry.end_line) == (9, 13)


def test_what_is_written_is_read_again() -> None:
    block = Block("output", ("scaffold list --x='a \"b\" \\c'",), {"inputs": "a/**/*.py,b c"})
    (read,) = parse_blocks(f"{block.opening()}\n<!-- scaffold:end -->")
    assert (read.kind, read.words, read.options) == (block.kind, block.words, block.options)


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_blocks_are_replaced_where_they_stand(ending: str) -> None:
    text = TEXT.replace("\n", ending)
    blocks = parse_blocks(text)
    renewed = replace_blocks(text, [(each, replace(each, body="new\nrows")) for each in blocks])
    assert renewed.replace("\r\n", "\n") == (
        TEXT.replace("\nold\n", "\nnew\nrows\n")
        .replace("  \n  | a |\n\n", "")
        .replace("\n\n  | a |\n\n", "\n  new\n  rows\n")
    )
    assert ("\r\n" in renewed) == (ending == "\r\n")
    again = parse_blocks(renewed)
    assert [each.content for each in again] == ["new\nrows"] * 2


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "<!-- scaffold:begin tree a -->\nx",
            "not closed by <!-- scaffold:end --> before the text",
        ),
        ("<!-- scaffold:end -->", "scaffold:end without scaffold:begin"),
        ("<!-- scaffold:begin -->\n<!-- scaffold:end -->", "names no kind"),
        ("<!-- scaffold:begin trees a -->\n<!-- scaffold:end -->", "unknown kind 'trees'"),
        ('<!-- scaffold:begin tree "a -->\n<!-- scaffold:end -->', "cannot be split"),
        ("<!-- scaffold:begin tree a -->\n```\n<!-- scaffold:end -->", "not closed"),
    ],
)
def test_what_is_wrong_is_told(text: str, problem: str) -> None:
    (block,) = parse_blocks(text)
    assert problem in block.problem


def test_a_block_in_a_block_leaves_the_outer_one_unclosed() -> None:
    text = "<!-- scaffold:begin tree a -->\n<!-- scaffold:begin tree b -->\n<!-- scaffold:end -->\n"
    outer, inner = parse_blocks(text)
    assert outer.problem == "not closed by <!-- scaffold:end --> before the block of line 2 begins"
    assert (inner.words, inner.problem) == (("b",), "")


@pytest.mark.parametrize(
    "text",
    [
        "```html\n<!-- scaffold:begin tree a -->\n<!-- scaffold:end -->\n```\n",
        "~~~\n<!-- scaffold:begin tree a -->\n```\n~~~~\n",
        "- ```\n  <!-- scaffold:begin tree a -->\n  ```\n",
        "Write `<!-- scaffold:begin tree a -->` above it.\n",
        "<!-- scaffold: allow rule reason -->\n<!-- scaffold:beginning -->\n",
    ],
)
def test_what_is_quoted_is_no_block(text: str) -> None:
    assert parse_blocks(text) == []


def test_a_fence_inside_a_block_hides_what_it_quotes() -> None:
    body = fenced("```\n<!-- scaffold:end -->\n```", "text")
    text = f"<!-- scaffold:begin tree a -->\n{body}\n<!-- scaffold:end -->\n"
    (block,) = parse_blocks(text)
    assert (block.body, block.problem) == (body, "")


def test_a_fence_is_longer_than_any_inside() -> None:
    assert fenced("a\n````\nb\n", "text") == "`````text\na\n````\nb\n`````"


def test_a_cell_stays_in_its_row() -> None:
    assert table(["a"], [["x | y\nz"]]) == "| a |\n|---|\n| x \\| y z |"
