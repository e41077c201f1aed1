"""Whatever stands around and inside of a block, renewing it changes nothing else."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from scaffold.skills.blocks.markers import Block, fenced, parse_blocks, replace_blocks

# A comment of HTML ends at -->, and its line at any line break.
LINE_BREAKS = ["Cs", "Cc", "Zl", "Zp"]
WORD = st.text(st.characters(exclude_characters=">", exclude_categories=LINE_BREAKS))
NAME = st.text("abcdefgh_", min_size=1)
ROWS = ["", "text", "# Title", "- item", "| a |", "    code", "<!-- note -->"]
PROSE = st.lists(st.sampled_from(ROWS)).map("\n".join)
BODY = st.lists(
    st.sampled_from(["", "text", "```", "````", "~~~", "<!-- scaffold:end -->", "  indented"])
).map("\n".join)


@given(
    st.sampled_from(["tree", "output"]), st.lists(WORD.filter(bool)), st.dictionaries(NAME, WORD)
)
def test_an_opening_comment_is_read_as_it_was_written(
    kind: str, words: list[str], options: dict[str, str]
) -> None:
    plain = [word for word in words if "=" not in word]
    block = Block(kind, tuple(plain), options)
    (read,) = parse_blocks(f"{block.opening()}\n<!-- scaffold:end -->\n")
    assert (read.kind, read.words, read.options, read.problem) == (kind, block.words, options, "")


@given(PROSE, PROSE, BODY, BODY, st.sampled_from(["", "  "]))
def test_renewing_changes_the_text_between_the_comments_alone(
    above: str, below: str, old: str, new: str, indent: str
) -> None:
    begin, end = f"{indent}<!-- scaffold:begin tree a -->", f"{indent}<!-- scaffold:end -->"
    inside = "\n".join(indent + row for row in fenced(old, "text").split("\n"))
    text = f"{above}\n{begin}\n{inside}\n{end}\n{below}\n"
    (block,) = parse_blocks(text)
    assert block.problem == ""
    wanted = fenced(new, "text")
    renewed = replace_blocks(text, [(block, replace(block, body=wanted))])
    head, _, rest = renewed.partition(f"{begin}\n")
    assert head == f"{above}\n"
    assert rest.endswith(f"{end}\n{below}\n")
    (again,) = parse_blocks(renewed)
    assert again.content.rstrip() == wanted.rstrip()
    assert replace_blocks(renewed, [(again, replace(again, body=wanted))]) == renewed
