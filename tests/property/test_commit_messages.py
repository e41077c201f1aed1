"""For any bytes as a commit message: an answer, at places that exist, that is the same again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scaffold.vcs.commit.conventional import check_bytes, check_message

PIECES = st.sampled_from(
    ["feat", "fix", "(", ")", "!", ":", " ", "\uff1a", "\n", "\r", "#", "adds", "the", ".", "```",
     "BREAKING CHANGE", "breaking change:", "x" * 101, "https://a.b/c", "`", "\ufeff", "\x00", "-"]
)  # fmt: skip
MESSAGES = st.lists(PIECES, max_size=12).map("".join)


@given(st.binary(max_size=200) | MESSAGES.map(str.encode))
def test_any_bytes_have_an_answer(data: bytes) -> None:
    lines = data.decode("utf-8", "replace").split("\n")
    for problem in check_bytes(data):
        assert 1 <= problem.line <= len(lines)
        assert 1 <= problem.column <= len(lines[problem.line - 1]) + 1


@given(MESSAGES)
def test_what_git_strips_makes_no_difference(text: str) -> None:
    rules = [problem.rule for problem in check_message(text)]
    assert [problem.rule for problem in check_message(f"\n\n{text}\n# a comment")] == rules
