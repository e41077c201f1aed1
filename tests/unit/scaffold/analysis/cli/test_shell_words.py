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
    assert not script.faults


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
    ("word", "is_sure", "is_many"),
    [
        ("plain", True, False),
        ("--x=1", True, False),
        ("'$x'", True, False),
        ("$x", False, True),
        ('"$x"', False, False),
        ("a$x", False, False),
        ("<name>", False, False),
        ("<a longer name>", False, False),
        ("[OPTIONS]", False, True),
        ("...", False, True),
        ("a|b", False, False),
        ("*.py", False, False),
        ("{a,b}", False, False),
        ("`date`", False, True),
        ("$(date)", False, True),
        ('"$(cat <<E\nit\'s\nE\n)"', False, False),
    ],
)
def test_a_word_that_stands_for_others_is_unsure(word: str, is_sure: bool, is_many: bool) -> None:
    (simple,) = read_shell(f"run {word} end").commands
    assert len(simple.words) == 3
    assert (simple.words[1].is_sure, simple.words[1].is_many) == (is_sure, is_many)


@pytest.mark.parametrize(
    ("text", "what", "line"),
    [
        ("a 'b", "quote", 0),
        ('a\nb "c\nd', "quote", 1),
        ("a\ncat <<EOF\nb", "heredoc", 1),
        ("cat <<EOF", "heredoc", 0),
    ],
)
def test_what_is_not_closed_is_told(text: str, what: str, line: int) -> None:
    (fault,) = read_shell(text).faults
    assert (fault.what, fault.line) == (what, line)


@pytest.mark.parametrize(
    "piece", ["$(", '"$(', "<a", "[", "'", "`", "{", "<<E\n", "a|", "\\", "…", "$(<<E\n"]
)
def test_a_long_text_of_signs_takes_no_time(piece: str) -> None:
    started = time.monotonic()
    read_shell(piece * 20_000)
    assert time.monotonic() - started < 5, "reading is linear"
