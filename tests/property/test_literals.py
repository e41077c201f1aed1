"""Literals of any form and layout: what is added is there once, and taken back to the byte."""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

from hypothesis import assume, given
from hypothesis import strategies as st

from scaffold.edit.entry import Entry
from scaffold.edit.ordering import ORDERS
from scaffold.edit.shapes import add_entry, has_entry, read_entries, remove_entry
from scaffold.errors import RegistryError

KEYS = st.from_regex(r"[a-zA-Z][a-zA-Z0-9_]{0,5}", fullmatch=True).filter(
    lambda key: (
        key not in ("as", "def", "del", "elif", "else", "for", "from", "if", "in", "is")
        and key
        not in ("not", "or", "pass", "raise", "try", "while", "with", "yield", "None", "True")
    )
)
COMMENTS = st.sampled_from(
    ["", "", "  # why", "  # {", '  # "x": "y",', "  # ümläut \N{POUND SIGN}", " \t# )"]
)
ABOVE = st.sampled_from(["", "", "", "\n", "    # a group\n", "\n    # } no bracket\n"])
VALUES = st.sampled_from(
    ['"m:f"', '"a" "b"', "None", "(1, {2: 3})", '"#, }"', "'q'", '("p")', '(\n  "q"  # r\n)']
)
VALUE = "pkg.mod:attr"
ROWS: dict[str, Callable[[str, str], str]] = {
    "dict": lambda key, value: f'"{key}": {value}',
    "keywords": lambda key, value: f"{key}={value}",
    "pairs": lambda key, value: f'("{key}", {value})',
    "list": lambda key, value: f'"{key}"',
}
# Form: how a row looks, what is before the rows, what behind them, what another one unpacked is.
FORMS = {
    "dict": ("dict", "{", "}", "**OTHER"),
    "dict()": ("dict", "dict({", "})", "**OTHER"),
    "OrderedDict": ("pairs", "OrderedDict([", "])", "*OTHER"),
    "keywords": ("keywords", "dict(", ")", "**OTHER"),
    "defaultdict": ("dict", "defaultdict(list, {", "})", "**OTHER"),
    "MappingProxyType": ("dict", "MappingProxyType(  # {\n{", "})", "**OTHER"),
    "parenthesised": ("dict", "((  # {\n{", "}))", "**OTHER"),
    "list": ("list", "[", "]", "*OTHER"),
    "tuple": ("list", "(", ")", "*OTHER"),
    "set": ("list", "{", "}", "*OTHER"),
    "frozenset": ("list", "frozenset({", "})", "*OTHER"),
    "frozenset of a list": ("list", "frozenset([", "])", "*OTHER"),
    "set of a tuple": ("list", "set((", "))", "*OTHER"),
    "tuple()": ("list", "tuple([", "])", "*OTHER"),
}
EMPTY = {"set": "set()", "frozenset": "frozenset()"}


@dataclass(frozen=True)
class Registry:
    """Is a file with a registry, and how to address an entry of it."""

    text: str
    form: str
    has_other: bool

    @property
    def shape(self) -> str:
        return "list" if FORMS[self.form][0] == "list" else "dict"

    def entry(self, key: str = "") -> Entry:
        return Entry("f.py", "T", self.shape, key, VALUE if self.shape == "dict" else "")

    def known(self) -> list[str]:
        return list(read_entries(self.text.encode(), self.entry()))


@st.composite
def registries(draw: st.DrawFn) -> Registry:
    """Makes a file with a registry in one of its forms, over several lines or on one."""
    form = draw(st.sampled_from(sorted(FORMS)))
    row, opening, closing, other = FORMS[form]
    keys = draw(st.lists(KEYS, unique=True, max_size=6))
    if draw(st.booleans()):
        keys.sort(key=draw(st.sampled_from(ORDERS)))
    rows = [ROWS[row](key, draw(VALUES)) for key in keys]
    has_other = draw(st.sampled_from([False, False, False, True]))
    if has_other:
        rows.insert(len(rows) if row == "keywords" else draw(st.integers(0, len(rows))), other)
    is_tuple = form in ("tuple", "set of a tuple")
    comma = draw(st.booleans()) or (is_tuple and len(rows) == 1)
    if not rows and form in EMPTY:
        body = EMPTY[form]
    elif draw(st.booleans()):
        gap = draw(st.sampled_from(["", " "])) if rows else ""
        body = opening + gap + ", ".join(rows) + ("," if comma and rows else "") + gap + closing
    else:
        body = draw(multi_line(rows, comma, opening, closing))
    head = draw(
        st.sampled_from(["", "# -*- coding: utf-8 -*-\n", '"""Döc {."""\n\n', "import os\n"])
    )
    target = draw(st.sampled_from(["T = ", "T: Final = ", "S = T = ", "T = \\\n  "]))
    tail = draw(st.sampled_from(["\n", "", "\n\nU = {}\n", "  # end\n"]))
    return Registry(head + target + body + tail, form, has_other)


@st.composite
def multi_line(draw: st.DrawFn, rows: list[str], comma: bool, opening: str, closing: str) -> str:
    """Lays entries out over lines, with comments, blank lines and brackets here or there."""
    indent = draw(st.sampled_from(["    ", "\t", "  "]))
    text = opening if rows and draw(st.booleans()) else opening + draw(COMMENTS) + "\n"
    for n, row in enumerate(rows):
        text += draw(ABOVE) + indent if text.endswith("\n") else draw(st.sampled_from(["", " "]))
        text += row + ("," if comma or n + 1 < len(rows) else "")
        share_line = n + 1 < len(rows) and draw(st.sampled_from([True, False, False, False]))
        text += "" if share_line else draw(COMMENTS) + "\n"
    if draw(st.booleans()) and rows and "#" not in text.splitlines()[-1]:
        return text.rstrip("\n") + closing
    return text + draw(ABOVE) + closing


@st.composite
def storages(draw: st.DrawFn) -> Callable[[str], bytes]:
    """Makes a way to store text: line ends, byte order mark, encoding and final newline."""
    newline = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    encoding = draw(st.sampled_from(["utf-8", "utf-8-sig", "latin-1", "cp1252", "iso-8859-15"]))
    chop = draw(st.booleans())

    def store(text: str) -> bytes:
        text = re.sub(r"# -\*- coding.*\n", "", text)
        if encoding not in ("utf-8", "utf-8-sig"):
            text = f"# -*- coding: {encoding} -*-\n{text}"
        text = text.rstrip("\n") if chop else text
        return text.replace("\n", newline).encode(encoding)

    return store


@given(registries(), KEYS, storages())
def test_add_then_remove_is_the_identity(
    registry: Registry, key: str, store: Callable[[str], bytes]
):
    before, entry = store(registry.text), registry.entry(key)
    entries = read_entries(before, entry)
    assume(key not in entries)
    assert not has_entry(before, entry)
    assert remove_entry(before, entry) == before
    edit = add_entry(before, entry)
    assert read_entries(edit.data, entry) == {**entries, key: entry.value}
    assert has_entry(edit.data, entry)
    assert add_entry(edit.data, entry) == edit
    assert remove_entry(edit.data, entry) == before
    rows = edit.data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    assert key.encode() in rows[edit.line - 1]


@given(registries(), KEYS)
def test_no_line_changes_but_for_a_comma(registry: Registry, key: str):
    assume(key not in registry.known())
    text = registry.text
    after = add_entry(text.encode(), registry.entry(key)).data.decode()
    ast.parse(after)
    diff = list(difflib.ndiff(text.splitlines(), after.splitlines()))
    lost = [row for row in diff if row.startswith("- ")]
    gained = [row for row in diff if row.startswith("+ ")]
    assert len(lost) <= 1
    assert len(gained) == len(lost) + after.count("\n") - text.count("\n")
    assert after.count("\n") - text.count("\n") in (0, 1)


@given(registries(), st.lists(KEYS, unique=True, min_size=1, max_size=4), st.randoms())
def test_any_order_of_removal_gives_back_the_first_bytes(registry: Registry, keys: list[str], rng):
    data = before = registry.text.encode()
    known = registry.known()
    keys = [key for key in keys if key not in known]
    for key in keys:
        data = add_entry(data, registry.entry(key)).data
    rng.shuffle(keys)
    for key in keys:
        data = remove_entry(data, registry.entry(key))
    assert data == before


@given(registries(), KEYS)
def test_a_sorted_registry_stays_sorted(registry: Registry, key: str):
    keys = registry.known()
    order = next((order for order in ORDERS if keys == sorted(keys, key=order)), None)
    assume(key not in keys and order is not None)
    after = add_entry(registry.text.encode(), registry.entry(key)).data
    assert [order(each) for each in read_entries(after, registry.entry())] == sorted(
        order(each) for each in [*keys, key]
    )


@given(registries(), KEYS)
def test_a_registry_in_a_class_or_a_block_is_edited_as_at_the_top(registry: Registry, key: str):
    assume(
        key not in registry.known() and "\\\n" not in registry.text and '"""' not in registry.text
    )
    entry = registry.entry(key)
    edited = add_entry(registry.text.encode(), entry).data.decode()
    for head, table in (("class C:\n", "C.T"), ("if A:\n    pass\nelse:\n", "T")):
        inner = (head + indented(registry.text)).encode()
        edit = add_entry(inner, replace(entry, table=table))
        assert edit.data.decode() == head + indented(edited)
        assert remove_entry(edit.data, replace(entry, table=table)) == inner


def indented(text: str) -> str:
    return "".join(f"    {row}" if row.strip() else row for row in text.splitlines(keepends=True))


@st.composite
def grouped(draw: st.DrawFn) -> str:
    """Makes a list in groups under comments, each sorted, the whole not."""
    keys = draw(st.lists(KEYS, unique=True, min_size=4, max_size=9))
    cuts = draw(st.lists(st.integers(1, len(keys) - 1), unique=True, min_size=1, max_size=3))
    edges = [0, *sorted(cuts), len(keys)]
    groups = [sorted(keys[start:end]) for start, end in pairwise(edges)]
    flat = [key for group in groups for key in group]
    assume(max(map(len, groups)) > 1)
    assume(not any([order(key) for key in flat] == sorted(map(order, flat)) for order in ORDERS))
    blank = draw(st.sampled_from(["", "\n"]))
    parts = [
        f"    # -{n}-\n" + "".join(f'    "{key}",\n' for key in group)
        for n, group in enumerate(groups)
    ]
    return "T = [\n" + blank.join(parts) + "]\n"


@given(grouped(), KEYS)
def test_comments_keep_their_groups_and_groups_their_order(text: str, key: str):
    entry = Entry("f.py", "T", "list", key, "")
    assume(not has_entry(text.encode(), entry))
    after = add_entry(text.encode(), entry).data.decode()
    assert remove_entry(after.encode(), entry) == text.encode()
    before_groups, groups = groups_of(text), groups_of(after)
    assert len(groups) == len(before_groups)
    assert sum(one != other for one, other in zip(before_groups, groups, strict=True)) == 1
    assert all(group == sorted(group) for group in groups)


def groups_of(text: str) -> list[list[str]]:
    return [re.findall(r'"(\w+)"', part) for part in text.split("# -")[1:]]


@given(registries(), KEYS, st.data())
def test_a_damaged_file_is_edited_soundly_or_refused(
    registry: Registry, key: str, data: st.DataObject
):
    text = registry.text.encode()
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 4)))
    damage = data.draw(
        st.sampled_from([b"", b"\0", b"\xff", b"(", b"]", b'"', b"#", b",", b"\\\n"])
    )
    before, entry = text[:start] + damage + text[end:], registry.entry(key)
    try:
        assume(not has_entry(before, entry))
        edit = add_entry(before, entry)
    except RegistryError:
        return
    ast.parse(edit.data)
    assert remove_entry(edit.data, entry) == before
