"""Where spans stand in a text, and what it takes to find that out."""

from __future__ import annotations

import pytest

from scaffold.skills.check.read.markdown import NEAR, parse_markdown

_TEXT = """\
# Head `a`

> Quoted `b` and
> then `c  d` [to](e.md).

- Item `f`
  goes on `g`
  1. deep [`h`](<i j.md>)

| one | two |
|-----|-----|
| `k` | `l` and `m` |

Over ``n `
o`` lines, `p`.
[q]: r.md
"""
_PLACES = {
    "a": (1, 9), "b": (3, 11), "c d": (4, 9), "f": (6, 9), "g": (7, 12), "h": (8, 13),
    "k": (12, 4), "l": (12, 10), "m": (12, 18), "n ` o": (14, 8), "p": (15, 13),
}  # fmt: skip


def test_spans_stand_where_the_source_has_them():
    markdown = parse_markdown(_TEXT.split("\n"))
    assert {each.text: (each.line, each.column) for each in markdown.codes} == _PLACES
    links = {each.text: (each.line, each.column) for each in markdown.links}
    assert links == {"e.md": (4, 20), "i j.md": (8, 18), "r.md": (16, 6)}


def test_a_span_has_the_words_around_it():
    (first, second) = parse_markdown(["Read `a` and", "`b`, then go."]).codes
    assert (first.before, first.after) == ("Read ", " and\n`b`, then go.")
    assert (second.before, second.after) == ("Read `a` and\n", ", then go.")


class Line(str):
    """Counts how often it is searched."""

    __slots__ = ()
    searches = 0

    def find(self, *args: object) -> int:
        Line.searches += 1
        return super().find(*args)  # type: ignore[arg-type]


@pytest.mark.parametrize("is_one_line", [True, False])
def test_a_paragraph_of_many_spans_is_read_once_and_not_for_each(
    is_one_line: bool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(Line, "searches", 0)
    words = [f"`name_{number}` and [it](to_{number}.md)" for number in range(2_000)]
    lines = [Line(" ".join(words))] if is_one_line else [Line(each) for each in words]
    markdown = parse_markdown(lines)
    assert len(markdown.codes) == len(markdown.links) == 2_000
    assert Line.searches <= 2 * len(lines), "once for the code, once for the links"
    spans = [*markdown.codes, *markdown.links]
    assert max(len(each.before) for each in spans) == NEAR
    assert max(len(each.after) for each in spans) == NEAR
