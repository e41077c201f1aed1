"""Names hold for any input: a canonical key, or a refusal."""

from __future__ import annotations

import keyword

from hypothesis import given
from hypothesis import strategies as st

from scaffold.names import MAX_LENGTH, canonical_key, pascal
from scaffold.spec import RequestError

SUFFIXES = ("reward_fn", "reward", "fn")
WORDS = st.lists(st.from_regex(r"[a-z][a-z0-9]{0,6}", fullmatch=True), min_size=1, max_size=5)


def attempt(typed: str) -> str | None:
    try:
        return canonical_key(typed, SUFFIXES)
    except RequestError:
        return None


@given(st.one_of(st.text(max_size=80), st.text("aB1_- Fn./\\", max_size=80)))
def test_a_key_is_an_identifier_in_one_form_or_refused(typed: str):
    key = attempt(typed)
    if key is not None:
        assert key.isascii()
        assert key.isidentifier()
        assert key == key.lower() == key.strip("_")
        assert "__" not in key
        assert len(key) <= MAX_LENGTH
        assert not keyword.iskeyword(key)
        assert not any(key == suffix or key.endswith("_" + suffix) for suffix in SUFFIXES)
        assert pascal(key).isidentifier()


@given(st.text("abcXYZ019_- ", max_size=40))
def test_the_key_of_a_key_is_the_key(typed: str):
    key = attempt(typed)
    if key is not None:
        assert attempt(key) == key


@given(WORDS)
def test_all_spellings_of_the_same_words_agree(words: list[str]):
    spellings = [
        "_".join(words),
        "-".join(words),
        " ".join(words),
        " ".join(map(str.capitalize, words)),
    ]
    keys = {attempt(spelling) for spelling in spellings}
    assert len(keys) == 1
