"""For any text: the template made of it gives it back, and no other unit's holds its name."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scaffold.target.target import key_names
from scaffold.templating.names import fold
from scaffold.templating.render import render_files
from scaffold.templating.spec import FileRule, fill
from scaffold.units.init.spellings import Name, as_pattern, as_template, slots

KEYS = st.sampled_from(["heise", "new_site", "a", "x2", "two_words_more"])
PIECES = st.one_of(
    st.sampled_from(
        ["{", "}", "{{", "}}", "{%", "%}", "{#", "#}", "\r", "\n", "\r\n", "-", "\\", '"']
    ),
    st.sampled_from([*key_names("heise").values(), *key_names("new_site").values()]),
    st.sampled_from([*key_names("a").values(), *key_names("x2").values()]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=6),
)
TEXTS = st.lists(PIECES, max_size=30).map("".join)


@given(KEYS, st.booleans(), TEXTS)
def test_a_template_gives_back_what_it_was_made_of(key: str, is_prose: bool, text: str):
    name = Name(key)
    template = as_template(text, slots(text, name, {key: name}, {}, is_prose=is_prose))
    # The destination is not a Python, so that any text may come out.
    rules = [FileRule("f.jinja", "f.txt", "data")]
    (made,) = render_files(rules, {"f.jinja": template.encode()}, key_names(key))
    assert made.data.decode() == text


@given(KEYS, TEXTS)
def test_a_pattern_gives_back_what_it_was_made_of(key: str, text: str):
    name = Name(key)
    hits = slots(text, name, {key: name}, {})
    pattern = as_pattern(text, hits)
    if pattern is not None:
        assert fill(pattern, key_names(key)) == text
        other = fill(pattern, key_names("quite_another"))
        assert bool(hits) == (other != text)
        assert all(fold(text[hit.start : hit.end]) == fold(key) for hit in hits)
