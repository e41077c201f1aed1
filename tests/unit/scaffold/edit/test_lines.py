"""Text as lines: ends stay as they are, whatever line comes or goes."""

from __future__ import annotations

import pytest

from scaffold.edit.lines import Span, line_for, list_index, read_text
from scaffold.edit.refusal import Context
from scaffold.errors import RegistryError

CONTEXT = Context("a.txt", "a.txt")


@pytest.mark.parametrize("data", [b"", b"a", b"a\n", b"a\r\nb", b"\xef\xbb\xbfa\rb\r\n", b"\n\n"])
def test_a_line_comes_and_goes_anywhere(data: bytes):
    text = read_text(data, CONTEXT)
    for index in range(len(text.lines) + 1):
        after = text.with_line(index, "new")
        assert len(after.splitlines()) == len(data.splitlines()) + 1
        again = read_text(after, CONTEXT)
        assert again.lines[index] == "new"
        if data:  # into nothing, a line comes with its end
            assert again.without_line(index) == data


def test_a_file_that_is_no_utf_8_is_refused():
    with pytest.raises(RegistryError, match=r"a\.txt:2: the file is not UTF-8"):
        read_text(b"a\n\xff\n", CONTEXT)


def test_comments_above_the_first_item_head_the_list():
    lines = ["# head", "a", "b"]
    assert line_for([Span(1, 1), Span(2, 2)], 0, 0, lambda n: lines[n][0] == "#") == 1


def test_comments_above_every_item_stay_with_their_items():
    lines = ["# about a", "a", "# about b", "b"]
    assert line_for([Span(1, 1), Span(3, 3)], 0, 0, lambda n: lines[n][0] == "#") == 0


@pytest.mark.parametrize(
    ("keys", "key", "index"),
    [
        (["a", "c"], "b", 1),
        (["c", "a"], "b", 2),
        (["Home"], "A", 1),
        ([], "a", 0),
        (["a", "B"], "Aa", 1),
    ],
)
def test_a_key_keeps_the_order_that_is_there(keys: list[str], key: str, index: int):
    assert list_index(keys, key) == index
