"""Shell as words: like shlex where both speak, and unsure where a text stands for others."""

from __future__ import annotations

import shlex
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaffold.analysis.cli.shell_words import read_shell

WORDS = st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1))


@given(WORDS)
def test_quoted_words_come_back_as_they_were(words: list[str]) -> None:
    script = read_shell(shlex.join(words))
    found = [word.text for simple in script.commands for word in simple.words]
    assert found == words
    assert not script.is_open


@given(st.text(alphabet="ab -\"'`$(){}[]<>|&;#\\\n*?~=.…"))
def test_any_text_is_read_to_its_end(text: str) -> None:
    for simple in read_shell(text).commands:
        for word in simple.words:
            lines = text.split("\n")
            assert lines[word.line][word.column :].startswith(word.raw.split("\n")[0])


@pytest.mark.parametrize(
    ("text", "commands"),
    [
        ("a b | c && d; e &", [["a", "b"], ["c"], ["d"], ["e"]]),
        ("a \\\n  b # c d\ne", [["a", "b"], ["e"]]),
        ("a >out 2>&1 <in b", [["a", "b"]]),
        ("a <<EOF\nit's\nEOF\nb", [["a"], ["b"]]),
        ("a <<-'E'\n\tit's\n\tE\nb", [["a"], ["b"]]),
        ("(a; b)", [["a"], ["b"]]),
        ("a 'b c'd\"e\"", [["a", "b cde"]]),
        ("a#b", [["a#b"]]),
        ("a $(b 'c)' d) e", [["a", "$(b 'c)' d)", "e"]]),
    ],
)
def test_commands_end_where_the_shell_ends_them(text: str, commands: list[list[str]]) -> None:
    found = read_shell(text).commands
    assert [[word.text for word in simple.words] for simple in found] == commands


@pytest.mark.parametrize(
    ("word", "is_sure"),
    [
        ("plain", True),
        ("--x=1", True),
        ("'$x'", True),
        ("$x", False),
        ('"$x"', False),
        ("a$x", False),
        ("<name>", False),
        ("<a longer name>", False),
        ("[OPTIONS]", False),
        ("...", False),
        ("a|b", False),
        ("*.py", False),
        ("{a,b}", False),
        ("`date`", False),
        ("$(date)", False),
        ('"$(cat <<E\nit\'s\nE\n)"', False),
    ],
)
def test_a_word_that_stands_for_others_is_unsure(word: str, is_sure: bool) -> None:
    (simple,) = read_shell(f"run {word} end").commands
    assert len(simple.words) == 3
    assert simple.words[1].is_sure == is_sure


@pytest.mark.parametrize("text", ["a 'b", 'a\nb "c\nd', "a\ncat <<EOF\nb", "cat <<EOF"])
def test_what_is_not_closed_is_told(text: str) -> None:
    assert read_shell(text).is_open


@pytest.mark.parametrize(
    "piece", ["$(", '"$(', "<a", "[", "'", "`", "{", "<<E\n", "a|", "\\", "…", "$(<<E\n"]
)
def test_a_long_text_of_signs_takes_no_time(piece: str) -> None:
    started = time.monotonic()
    read_shell(piece * 20_000)
    assert time.monotonic() - started < 5, "reading is linear"
