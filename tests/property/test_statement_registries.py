"""Registries made of statements: whatever the layout, one entry more, and back to the byte."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from scaffold.edit.entry import Entry
from scaffold.edit.shapes import add_entry, has_entry, read_entries, remove_entry
from scaffold.errors import RegistryError

FILE = "pkg/reward/__init__.py"
WORDS = st.sampled_from(["a", "b2", "b10", "gsm8k", "hh-rlhf", "k", "Math", "math_hard", "z"])
KEYS = st.lists(WORDS, unique=True, min_size=1, max_size=5)
COMMENT = st.sampled_from(["", "", "", "  # why", "  # noqa: F401"])
ABOVE = st.sampled_from(["", "", "", "# group\n", "\n", "\n# group\n"])
HEAD = st.sampled_from(
    [
        "",
        '"""Doc."""\n\n',
        "#!/usr/bin/env python\n# Licence.\n\n",
        '"""Doc."""\n',
        "# Licence.\n\n",
    ]
)
TAIL = st.sampled_from(["", "", "\nx = 1\n", "\n\ndef after():\n    return 1\n", "# end\n", "\n\n"])


@dataclass(frozen=True)
class File:
    """Is a generated registry with an entry that it may lack."""

    text: str
    entry: Entry
    keys: tuple[str, ...]


def stored(file: File, form: tuple[bool, bool, bool, bool, bool]) -> bytes:
    """Returns the bytes of a file with other line ends, indentation, mark, cookie and last line."""
    tabs, crlf, bom, cookie, cut = form
    text = file.text
    if tabs:
        text = text.replace("    ", "\t")
    if cut:
        text = text.rstrip("\n")
    if cookie and not bom and not text.startswith("#!"):
        text = "# -*- coding: latin-1 -*-\n# caf\xe9\n\n" + text
    if crlf:
        text = text.replace("\n", "\r\n")
    data = text.encode("latin-1" if cookie else "utf-8")
    return b"\xef\xbb\xbf" + data if bom else data


FORMS = st.tuples(*[st.sampled_from([False, False, True])] * 5)


@st.composite
def calls(draw: st.DrawFn) -> File:
    """Draws statements that register, in groups or between definitions."""
    shape = draw(st.sampled_from(["call", "subscript"]))
    table = draw(st.sampled_from(["register", "registry.add"] if shape == "call" else ["R", "m.R"]))
    quote, keys, new = draw(st.sampled_from("\"'")), draw(KEYS), draw(WORDS)
    gap, defined = draw(st.sampled_from(["", "", "\n"])), draw(st.booleans())
    named = draw(st.booleans()) and shape == "call"
    text = draw(HEAD) + "from x import *\n\n"
    for n, key in enumerate(sorted(keys) if draw(st.booleans()) else keys):
        text += f"\n\ndef f{n}():\n    return 1\n\n\n" if defined else (gap if n else "")
        text += draw(ABOVE) if n or defined else ""
        key = quote + key + quote
        inner = f"name={key}, value=f{n}" if named else f"{key}, f{n}"
        line = f"{table}({inner})" if shape == "call" else f"{table}[{key}] = f{n}"
        text += line.replace(", f", ",\n    f") if draw(st.integers(0, 5)) == 0 else line
        text += draw(COMMENT) + "\n"
    entry = Entry(FILE, table, shape, new, "pkg.new", ("value",))
    return File(text + draw(TAIL), entry, tuple(keys))


@st.composite
def decorated(draw: st.DrawFn) -> File:
    """Draws decorated functions and classes."""
    table, keys, new = draw(st.sampled_from(["register", "m.reg"])), draw(KEYS), draw(WORDS)
    keyword = draw(st.sampled_from(["", "name="]))
    text = draw(HEAD) + "from x import *\n"
    for n, key in enumerate(sorted(keys) if draw(st.booleans()) else keys):
        text += draw(
            st.sampled_from(["\n\n", "\n", "\n\n\n", "\n# ---- group\n\n", "\n\n# on it\n"])
        )
        mark = f'@{table}({keyword}"{key}")\n'
        text += mark + draw(st.sampled_from(["", "@other\n"]))
        text += draw(
            st.sampled_from(
                [
                    f"def f{n}(a):\n    return 1\n",
                    f"class C{n}:\n    x = 1\n\n    # to come\n",
                    f"async def f{n}(): ...\n",
                ]
            )
        )
    value = "def new_fn(prompt):\n    if prompt:\n        return 1.0\n    return 0.0\n"
    return File(text + draw(TAIL), Entry(FILE, table, "decorator", new, value), tuple(keys))


BODIES = st.sampled_from(
    [
        "return 1\n",
        "from .m import f\n\nreturn f(\n    path=path,\n)\n",
        "if split:\n    return 2\nreturn 3  # why\n",
        'return """a\n  b"""\n',
    ]
)


def indented(text: str, depth: str) -> str:
    """Indents lines but for those inside the one long string of BODIES."""
    rows = [depth + row if row and row != '  b"""' else row for row in text.split("\n")]
    return "\n".join(rows)


@st.composite
def dispatches(draw: st.DrawFn) -> File:
    """Draws a function with a chain of elifs, of separate ifs, or a match."""
    form = draw(st.sampled_from(["elif", "if", "case"]))
    keys, new, body = draw(KEYS), draw(WORDS), draw(BODIES)
    both = form == "elif" and draw(st.booleans())
    method = draw(st.booleans())
    outer = "        " if method else "    "
    step = outer + "    " if form == "case" else outer
    text = draw(HEAD) + ("class Table:\n" if method else "")
    text += f"{outer[4:]}{draw(st.sampled_from(['', 'async ']))}def get(path, kind='rl'):\n"
    text += draw(st.sampled_from(["", f'{outer}"""Doc."""\n', f"{outer}n = 0\n"]))
    text += f"{outer}match path:\n" if form == "case" else ""
    gap = draw(st.sampled_from(["", "", "\n"]))

    def condition(key: str) -> str:
        if form == "case":
            return f'"{key}"'
        return f'path == "{key}"' + (' and kind == "rl"' if both else "")

    for n, key in enumerate(sorted(keys) if draw(st.booleans()) else keys):
        word = "if" if form == "elif" and not n else form
        text += gap if n and form != "elif" else ""
        text += draw(st.sampled_from(["", "", f"{step}# on it\n"]))
        text += f"{step}{word} {condition(key)}:" + draw(COMMENT) + "\n"
        text += indented(draw(BODIES), step + "    ")
        text += draw(st.sampled_from(["", "", f"{step}    # more to come\n"]))
    if form == "elif":
        text += draw(st.sampled_from(["", f"{step}else:\n{step}    raise ValueError(path)\n"]))
    elif form == "case":
        text += draw(st.sampled_from(["", f"{step}case _:\n{step}    raise ValueError(path)\n"]))
    else:
        text += draw(st.sampled_from(["", f"{step}raise ValueError(path)\n"]))
    table = "Table.get" if method else "get"
    entry = Entry(FILE, table, "branch", condition(new), body)
    return File(text + draw(TAIL), entry, tuple(condition(key) for key in keys))


MODULES = st.sampled_from(["os", "numpy", "pkg.api", "pkg.reward.a", ".a", ".b2", ".b10", "..up"])
NAMES = ["One", "TWO", "fn_a", "fn_b", "fn_c", "x as y"]


@st.composite
def imports(draw: st.DrawFn) -> File:
    """Draws imports of every form, at the top or in a block."""
    table = draw(st.sampled_from(["", "", "TYPE_CHECKING", "try"]))
    rows: list[str] = []
    modules = draw(st.lists(MODULES, min_size=1 if table else 0, max_size=5))
    ordered = draw(st.booleans())
    for n, module in enumerate(sorted(modules) if ordered else modules):
        names = draw(st.lists(st.sampled_from(NAMES), unique=True, min_size=1, max_size=3))
        names = [
            f"{name.split()[0]}_{n} as y_{n}" if " " in name else f"{name}_{n}" for name in names
        ]
        form = draw(st.sampled_from(["one line", "wrapped", "grid", "plain"]))
        note = draw(COMMENT)
        if form == "plain" and not module.startswith("."):
            rows.append(f"import {module}{note}\n")
        elif form == "wrapped":
            last = draw(st.sampled_from([",", ""]))
            inner = "".join(f"    {name},\n" for name in names[:-1])
            rows.append(f"from {module} import ({note}\n{inner}    {names[-1]}{last}\n)\n")
        elif form == "grid":
            rows.append(f"from {module} import ({', '.join(names)}){note}\n")
        else:
            rows.append(f"from {module} import {', '.join(names)}{note}\n")
    text = "".join(row + draw(st.sampled_from(["", "", "\n", "# group\n"])) for row in rows)
    if table:
        lines = [f"    {row}" if row else "" for row in text.rstrip("\n").split("\n")]
        head = "if TYPE_CHECKING:\n" if table == "TYPE_CHECKING" else "try:\n"
        text = "import os\n\n" + head + "\n".join(lines) + "\n"
        text += "" if table == "TYPE_CHECKING" else "except ImportError:\n    pass\n"
    future = draw(st.sampled_from(["", "", "from __future__ import annotations\n", "\n"]))
    value = draw(MODULES)
    plain = not value.startswith(".") and draw(st.booleans())
    key = value + ".deep" if plain else draw(st.sampled_from(["new_fn", "New", "NEW", "n as m"]))
    entry = Entry(FILE, table, "import", key, "" if plain else value)
    return File(draw(HEAD) + future + text + draw(TAIL), entry, ())


FILES = st.one_of(calls(), decorated(), dispatches(), imports())


def is_kept(before: bytes, after: bytes) -> bool:
    """Return whether all lines are there still in their order, but for one that grew."""
    rows, grown = after.splitlines(), 0
    position = 0
    for row in before.splitlines():
        try:
            position = rows.index(row, position) + 1
        except ValueError:
            grown += 1
    return grown <= 1


@given(FILES, FORMS)
def test_one_entry_more_and_back_to_the_byte(file: File, form: tuple[bool, ...]):
    before, entry = stored(file, form), file.entry
    entries = read_entries(before, entry)
    if entry.key in entries:
        event("the key is there")
        return
    edit = add_entry(before, entry)
    ast.parse(edit.data)
    assert read_entries(edit.data, entry) == {**entries, entry.key: entry.value}
    assert has_entry(edit.data, entry)
    assert not has_entry(before, entry)
    assert add_entry(edit.data, entry) == edit
    assert remove_entry(edit.data, entry) == before
    assert is_kept(before, edit.data)


@given(FILES, FORMS)
def test_a_key_that_stands_for_something_else_is_refused(file: File, form: tuple[bool, ...]):
    if file.entry.shape == "import" or not file.keys:
        return
    entry = replace(file.entry, key=file.keys[0])
    before = stored(file, form)
    if has_entry(before, entry):
        return
    with pytest.raises(RegistryError) as refusal:
        add_entry(before, entry)
    assert refusal.value.code == "registry_differs"
    assert refusal.value.message.startswith(f"{FILE}:")
    assert entry.key in refusal.value.hint


@given(FILES, st.lists(WORDS, unique=True, min_size=2, max_size=4), st.randoms())
def test_any_order_of_removal_gives_back_the_first_bytes(file: File, words: list[str], rng):
    before = data = file.text.encode()
    entries = [renamed(file.entry, word) for word in words]
    entries = [each for each in entries if each.key not in read_entries(before, each)]
    for each in entries:
        data = add_entry(data, each).data
    rng.shuffle(entries)
    for each in entries:
        data = remove_entry(data, each)
    assert data == before


def renamed(entry: Entry, word: str) -> Entry:
    """Returns an entry of the same kind with another key."""
    name = word.replace("-", "_") + "_new"
    if entry.shape == "import":
        return replace(
            entry,
            key=f"{entry.key.split('.')[0].split(' ')[0]}.{name}" if not entry.value else name,
        )
    if entry.shape == "decorator":
        return replace(entry, key=name, value=entry.value.replace("new_fn", name))
    if entry.shape == "branch":
        start, end = entry.key.index('"'), entry.key.index('"', entry.key.index('"') + 1)
        return replace(entry, key=f"{entry.key[: start + 1]}{name}{entry.key[end:]}")
    return replace(entry, key=name)


@given(FILES)
def test_what_is_sorted_stays_sorted(file: File):
    before, entry = file.text.encode(), file.entry
    if entry.shape == "import" or entry.key in read_entries(before, entry):
        return
    keys = list(read_entries(before, entry))
    is_short = entry.shape == "branch" and len(file.keys) < 2
    if keys == sorted(keys) and not is_short:
        keys = list(read_entries(add_entry(before, entry).data, entry))
        keys = [key for key in keys if key != "_"]
        assert keys == sorted(keys)
