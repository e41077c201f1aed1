"""Literal tables of any layout: what is added is there once, and taken back to the byte."""

from __future__ import annotations

import ast
import difflib

from hypothesis import given
from hypothesis import strategies as st

from scaffold.edit.literals import add_entry, read_entries, remove_entry
from scaffold.ledger import MadeEntry

TABLE = MadeEntry("f.py", "T", "dict", "", "")
KEYS = st.from_regex(r"[a-zA-Z][a-z0-9_\-]{0,5}", fullmatch=True)
COMMENTS = st.sampled_from(
    ["", "  # why", "  # {", '  # "x": "y",', "  # ümläut \N{GRINNING FACE}"]
)
ABOVE = st.sampled_from(["", "", "", "\n", "    # a group\n", "\n    # } no bracket\n"])
VALUES = st.sampled_from(['"m:f"', '"a" "b"', "None", "(1, {2: 3})", '"#, }"', "'q'"])


@st.composite
def tables(draw: st.DrawFn) -> str:
    """Makes a file with a table over several lines, or on one, in many layouts."""
    keys = draw(st.lists(KEYS, unique=True, max_size=6))
    if draw(st.booleans()):
        keys.sort(key=draw(st.sampled_from([str, str.casefold])))
    rows = [f'"{key}": {draw(VALUES)}' for key in keys]
    comma = draw(st.booleans())
    if draw(st.booleans()):
        gap = draw(st.sampled_from(["", " "]))
        body = "{" + gap + ", ".join(rows) + ("," if comma and rows else "") + gap + "}"
    else:
        body = draw(multi_line(rows, comma))
    head = draw(
        st.sampled_from(["", "# -*- coding: utf-8 -*-\n", '"""Döc {."""\n\n', "import os\n"])
    )
    target = draw(st.sampled_from(["T = ", "T: dict[str, str] = ", "S = T = "]))
    tail = draw(st.sampled_from(["\n", "", "\n\nU = {}\n", "  # end\n"]))
    return head + target + body + tail


@st.composite
def multi_line(draw: st.DrawFn, rows: list[str], comma: bool) -> str:
    """Lays entries out over lines, with comments, blank lines and brackets here or there."""
    indent = draw(st.sampled_from(["    ", "\t", "  "]))
    text = "{" if rows and draw(st.booleans()) else "{" + draw(COMMENTS) + "\n"
    for n, row in enumerate(rows):
        text += draw(ABOVE) + indent if text.endswith("\n") else draw(st.sampled_from(["", " "]))
        text += row + ("," if comma or n + 1 < len(rows) else "")
        share_line = n + 1 < len(rows) and draw(st.sampled_from([True, False, False, False]))
        text += "" if share_line else draw(COMMENTS) + "\n"
    if draw(st.booleans()) and rows and "#" not in text.splitlines()[-1]:
        return text.rstrip("\n") + "}"
    return text + draw(ABOVE) + "}"


def entry(key: str, value: str = "") -> MadeEntry:
    return MadeEntry("f.py", "T", "dict", key, value)


def with_line_ends(text: str, crlf: bool, bom: bool) -> bytes:
    data = (text.replace("\n", "\r\n") if crlf else text).encode()
    return (b"\xef\xbb\xbf" if bom else b"") + data


@given(tables(), KEYS, st.booleans(), st.booleans())
def test_add_then_remove_is_the_identity(text: str, key: str, crlf: bool, bom: bool):
    before = with_line_ends(text, crlf, bom)
    entries = read_entries(before, TABLE)
    if key in entries:
        return
    edit = add_entry(before, entry(key, "pkg.mod:attr"))
    assert read_entries(edit.data, TABLE) == {**entries, key: "pkg.mod:attr"}
    assert add_entry(edit.data, entry(key, "pkg.mod:attr")) == edit
    assert remove_entry(edit.data, entry(key)) == before
    assert f'"{key}"'.encode() in edit.data.splitlines()[edit.line - 1].replace(b"'", b'"')


@given(tables(), KEYS)
def test_no_line_changes_but_for_a_comma(text: str, key: str):
    if key in read_entries(text.encode(), TABLE):
        return
    after = add_entry(text.encode(), entry(key, "m:f")).data.decode()
    ast.parse(after)
    diff = list(difflib.ndiff(text.splitlines(), after.splitlines()))
    lost = [row for row in diff if row.startswith("- ")]
    gained = [row for row in diff if row.startswith("+ ")]
    assert len(lost) <= 1
    assert len(gained) == len(lost) + after.count("\n") - text.count("\n")
    assert after.count("\n") - text.count("\n") in (0, 1)


@given(tables(), st.lists(KEYS, unique=True, min_size=1, max_size=4), st.randoms())
def test_any_order_of_removal_gives_back_the_first_bytes(text: str, keys: list[str], rng):
    data = before = text.encode()
    keys = [key for key in keys if key not in read_entries(before, TABLE)]
    for key in keys:
        data = add_entry(data, entry(key, "m:f")).data
    rng.shuffle(keys)
    for key in keys:
        data = remove_entry(data, entry(key))
    assert data == before


@given(tables(), KEYS)
def test_a_sorted_table_stays_sorted(text: str, key: str):
    keys = list(read_entries(text.encode(), TABLE))
    if key not in keys and keys == sorted(keys):
        after = add_entry(text.encode(), entry(key, "m:f")).data
        assert list(read_entries(after, TABLE)) == sorted([*keys, key])
