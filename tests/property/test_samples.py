"""For all data: columns are found or refused, and rows reach a test as data, whatever they hold."""

from __future__ import annotations

import ast
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from scaffold.errors import RequestError
from scaffold.templating.render import rows_literal
from scaffold.units.columns import ALIASES, ROLES, describe_columns, find_columns, is_missing
from scaffold.units.sample import MAX_TEXT, NUM_KEPT, rows_for_test

NAMES = sorted({name for tiers in ALIASES.values() for name in " ".join(tiers).split()})
TEXTS = st.text(st.characters(), max_size=200)
MESSAGES = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant"]), "content": TEXTS}),
    max_size=4,
)
VALUES = st.one_of(st.none(), TEXTS, st.integers(), st.floats(), st.booleans(), MESSAGES)
COLUMNS = st.one_of(st.sampled_from(NAMES), TEXTS)
ROWS = st.lists(st.dictionaries(COLUMNS, VALUES, max_size=5), max_size=4)


@given(ROWS, st.sets(st.sampled_from(ROLES), min_size=1), st.booleans())
def test_columns_are_found_in_the_rows_or_refused(
    rows: list[dict[str, Any]], roles: set[str], is_learnt: bool
) -> None:
    try:
        found = find_columns(rows, roles, {}, is_learnt=is_learnt)
    except RequestError:
        return  # what is not clear; any other error would be a fault
    assert {match.role for match in found.matches} == roles
    columns = describe_columns(rows)
    for match in found.matches:
        assert match.name in columns or match.role == "prompt"
        assert not match.name or columns[match.name].count > 0
    assert len(found.lines()) >= len(roles)


@given(ROWS, COLUMNS, COLUMNS)
def test_rows_reach_a_test_as_data(rows: list[dict[str, Any]], one: str, two: str) -> None:
    rows = [{**row, one: row.get(one), two: row.get(two)} for row in rows]
    text = rows_for_test(rows, (one, two))
    is_whole = [not is_missing(row[one]) and not is_missing(row[two]) for row in rows]
    assert bool(text) == any(is_whole)
    if not text:
        return
    kept = json.loads(text)
    assert ast.literal_eval(rows_literal(text)) == kept
    assert 1 <= len(kept) <= NUM_KEPT
    assert all(set(row) == {one, two} for row in kept)


@given(st.lists(TEXTS.filter(bool), min_size=1, max_size=3))
def test_texts_are_short_and_storable(texts: list[str]) -> None:
    kept = json.loads(rows_for_test([{"q": text} for text in texts], ("q",)))
    for row in kept:
        assert len(row["q"]) <= MAX_TEXT
        row["q"].encode("utf-8")
