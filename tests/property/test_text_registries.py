"""Registries that are not Python: a parser finds one entry more, and every byte comes back."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import tomli_w
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st

from scaffold.edit.entry import Entry
from scaffold.edit.shapes import add_entry, has_entry, read_entries, remove_entry
from scaffold.edit.yaml_tree import Node, YamlError, read_yaml
from scaffold.errors import RegistryError

WORDS = st.from_regex(r"[a-zA-Z][a-z0-9_\-]{0,5}", fullmatch=True)
TEXTS = st.one_of(
    WORDS,
    st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=1, max_size=12),
    st.sampled_from(
        ["a: b", "no", "1.0", "- x", "a #b", "it's", 'say "x"', "{{ x }}", "*a", "a|b"]
    ),
).filter(lambda text: text == text.strip())


def stored(text: str, crlf: bool, bom: bool, ends: bool = True) -> bytes:
    text = text if ends else text.rstrip("\n")
    data = (text.replace("\n", "\r\n") if crlf else text).encode()
    return (b"\xef\xbb\xbf" if bom else b"") + data


STORED = st.tuples(st.booleans(), st.booleans(), st.booleans())


def add_and_take_back(before: bytes, entry: Entry) -> bytes:
    """Adds an entry, checks what holds for every shape, and returns the edited bytes."""
    edit = add_entry(before, entry)
    assert has_entry(edit.data, entry)
    assert not has_entry(before, entry)
    assert add_entry(edit.data, entry) == edit
    assert remove_entry(edit.data, entry) == before
    assert remove_entry(before, entry) == before
    rows = edit.data.splitlines()
    assert len(rows) - len(before.splitlines()) in (0, 1)
    assert 0 < edit.line <= len(rows)
    return edit.data


YAML_BITS = ["- ", "b: ", "#", " #", "&x ", "*x", "!t ", "? ", ": ", ">-", "|", "---", "nav:"]
TOML_BITS = ["[nav]", "nav = [", "]", "=", ",", "{", "}", "1", "'", '"', "\\"]
PAGE_BITS = ["```", "<!--", "-->", ".. a::", "| a | b |", "\n|-|-|\n", "\n# T\n", "@me", "/"]
SPACES = ["a", "\n", "\n  ", "\t", "\r\n"]
SOUP = st.lists(
    st.sampled_from([*YAML_BITS, *TOML_BITS, *PAGE_BITS, *SPACES, *SPACES]), max_size=25
).map("".join)
SHAPES = st.sampled_from(["markdown", "markdown-list", "owners", "text", "toml", "yaml"])


@given(SHAPES, SOUP, st.sampled_from(["", "T", "nav", "nav[a]", "nav/b", ".. a::"]), WORDS, TEXTS)
def test_any_text_is_edited_cleanly_or_refused(shape: str, text: str, table: str, key, value):
    before = text.encode()
    value = value if shape in ("markdown", "yaml", "owners") else ""
    entry = Entry("f", table, shape, key, value)
    try:
        edit = add_entry(before, entry)
    except RegistryError:
        return
    assert has_entry(edit.data, entry)
    assert add_entry(edit.data, entry) == edit
    if edit.data != before:
        assert remove_entry(edit.data, entry) == before


# ---- YAML ----------------------------------------------------------------------------------------

DOCUMENTS = st.recursive(
    st.one_of(TEXTS, st.integers(), st.booleans(), st.none(), st.just("two\nlines\n")),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=12,
)


def agrees(node: Node, value: Any) -> bool:
    """Return whether what was read is what a full parser reads, as far as it was read."""
    if node.kind == "list":
        pairs = zip(node.items, value, strict=True)
        return isinstance(value, list) and all(agrees(item.node, each) for item, each in pairs)
    if node.kind == "mapping":
        keys = [item.key for item in node.items]
        return keys == list(value) and all(agrees(i.node, value[i.key]) for i in node.items)
    if node.kind == "text" and node.text is not None:
        return node.text == value
    return node.kind in ("flow", "block", "text", "empty")


@given(
    DOCUMENTS,
    st.sampled_from([None, '"', "'", "|"]),
    st.sampled_from([None, False]),
    st.integers(2, 4),
    st.sampled_from([12, 80]),
    st.booleans(),
)
def test_yaml_is_read_as_a_full_parser_reads_it(document, style, flow, indent, width, explicit):
    text = yaml.safe_dump(
        document,
        default_style=style,
        default_flow_style=flow,
        indent=indent,
        width=width,
        allow_unicode=True,
        explicit_start=explicit,
        sort_keys=False,
    )
    assume("\n..." not in text)
    try:
        node = read_yaml(tuple(re.split(r"\r\n|\n|\r", text)))
    except YamlError:
        odd = r"[?&*!]|\n\s*\n|\A--- \S"
        assert style or flow is None or re.search(odd, text), text
        return
    assert agrees(node, yaml.safe_load(text)), text


@st.composite
def tables_of_contents(draw: st.DrawFn) -> str:
    """Makes a file around ``nav``, a list of pages and sections with comments between them."""
    before = draw(
        st.sampled_from(["", "---\n", "a: 1\n", "b: |\n  nav:\n\n  - x\n", "c: [x,\n  y]  # c\n"])
    )
    after = draw(st.sampled_from(["", "z: 1\n", "# end\n", "\n\nz:\n- nav\n", "z: 'a\n  b'\n"]))
    indent = draw(st.sampled_from(["", "  ", "    "]))
    dash = draw(st.sampled_from(["- ", "-   "]))
    text = before + "nav:" + draw(st.sampled_from(["\n", "  # all\n"]))
    for key in draw(st.lists(WORDS, unique=True, min_size=1, max_size=5)):
        text += draw(st.sampled_from(["", "", indent + "# above\n", "\n"]))
        quoted = draw(st.sampled_from([f'"{key}"', f"'{key}'"]))
        page = draw(
            st.sampled_from(
                [
                    f"{quoted}: a.md",
                    f"{quoted}",
                    f"{quoted}: a.md  # note",
                    f"{quoted}:\n{indent}      - x.md\n{indent}      # deeper",
                    f"{quoted}: >-\n{indent}      folded\n\n{indent}      text",
                ]
            )
        )
        text += indent + dash + page + "\n"
    return text + after


@given(tables_of_contents(), TEXTS, TEXTS | st.just(""), STORED)
def test_yaml_gains_one_item(text: str, key: str, value: str, storage):
    before = stored(text, *storage)
    entry = Entry("mkdocs.yml", "nav", "yaml", key, value)
    entries = read_entries(before, entry)
    assume(key not in entries)
    after, reason = b"", ""
    try:
        after = add_and_take_back(before, entry)
    except RegistryError as error:
        reason = error.message
    if reason:  # a text in lines would gain a line end with what follows it
        assert "no line end" in reason
        assert not storage[2]
        return
    old, new = yaml.safe_load(before), yaml.safe_load(after)
    item = {key: value} if value else key
    assert new["nav"].count(item) == 1
    new["nav"].remove(item)
    assert new == old
    assert read_entries(after, entry) == {**entries, key: value}


@given(st.dictionaries(TEXTS, TEXTS, min_size=1, max_size=5), TEXTS, TEXTS, STORED)
def test_a_yaml_mapping_gains_one_key(content: dict[str, str], key: str, value: str, storage):
    assume(key not in content)
    text = yaml.safe_dump({"a": {"b": content}, "z": 1}, allow_unicode=True, width=1000)
    assume("? " not in text)
    before = stored(text, *storage)
    after = add_and_take_back(before, Entry("c.yml", "a/b", "yaml", key, value))
    assert yaml.safe_load(after) == {"a": {"b": {**content, key: value}}, "z": 1}


# ---- TOML ----------------------------------------------------------------------------------------

TOML_VALUES = st.one_of(TEXTS, st.integers(0, 9), st.booleans(), st.lists(TEXTS, max_size=3))
TABLES = st.dictionaries(TEXTS, TOML_VALUES, max_size=5)


@given(TABLES, TEXTS, TEXTS, STORED)
def test_a_toml_table_gains_one_key(content: dict[str, Any], key: str, value: str, storage):
    assume(key not in content)
    document = {"tool": {"y": {"x": 1}, "x": content}, "z": {"x": 2}}
    before = stored(tomli_w.dumps(document), *storage)
    after = add_and_take_back(before, Entry("p.toml", "tool.x", "toml", key, value))
    document["tool"]["x"] = {**content, key: value}
    assert tomllib.loads(after.decode("utf-8-sig")) == document


@st.composite
def arrays(draw: st.DrawFn) -> str:
    """Makes an array of texts over several lines or on one, with comments."""
    rows = [
        tomli_w.dumps({"x": each})[4:-1] for each in draw(st.lists(WORDS, unique=True, max_size=4))
    ]
    comma = draw(st.booleans())
    if draw(st.booleans()):
        return (
            "["
            + ", ".join(rows)
            + ("," if comma and rows else "")
            + draw(st.sampled_from(["", " "]))
            + "]"
        )
    text = "[" + draw(st.sampled_from(["\n", "  # [\n"]))
    for n, row in enumerate(rows):
        text += draw(st.sampled_from(["", "", "  # ]\n", "\n"])) + draw(
            st.sampled_from(["  ", "\t"])
        )
        text += row + ("," if comma or n + 1 < len(rows) else "")
        text += draw(st.sampled_from(["\n", "\n", '  # "x",\n']))
    if rows and draw(st.booleans()) and "#" not in text.splitlines()[-1]:
        return text.rstrip("\n") + "]"
    return text + draw(st.sampled_from(["", "  # end\n"])) + "]"


@given(arrays(), TEXTS, STORED)
def test_a_toml_array_gains_one_element(array: str, key: str, storage):
    before = stored(f'[tool]\n"a.b" = "]"\nx = {array}\ny = 1\n[z]\n', *storage)
    content = tomllib.loads(before.decode("utf-8-sig"))["tool"]["x"]
    assume(key not in content)
    after = add_and_take_back(before, Entry("p.toml", "tool.x", "toml", key, ""))
    document = tomllib.loads(after.decode("utf-8-sig"))
    document["tool"]["x"].remove(key)
    assert document == tomllib.loads(before.decode("utf-8-sig"))


# ---- Markdown ------------------------------------------------------------------------------------

CELLS = st.one_of(WORDS, st.sampled_from(["`a`", "[x](y.md)", "a b", "数学", "**b** c", r"a\_b"]))
NEW_CELLS = st.one_of(WORDS, st.sampled_from(["a|b", "[new](n.md)", "`x | y`", "数"]))


@st.composite
def pages(draw: st.DrawFn) -> tuple[str, int]:
    """Makes a page with a table of two or three columns under the heading ``T``."""
    count = draw(st.integers(2, 3))
    keys = draw(st.lists(CELLS, unique=True, max_size=4))
    rows = [[key, *(draw(CELLS) for _ in range(count - 1))] for key in keys]
    table = [["Name"] * count, ["---"] * count, *rows]
    if draw(st.booleans()):
        widths = [max(len(row[n]) for row in table) for n in range(count)]
        table = [[cell.ljust(width) for cell, width in zip(r, widths, strict=True)] for r in table]
        table[1] = ["-" * width for width in widths]
    join = draw(st.sampled_from([" | ", "|"]))
    sides = draw(st.sampled_from([("| ", " |"), ("", ""), ("|", "|")]))
    lines = [sides[0] + join.join(row) + sides[1] for row in table]
    head = draw(
        st.sampled_from(["# T\n", "---\n# T\n---\n# T\n\n", "```\n# T\n|a|b|\n```\nT\n=\n"])
    )
    tail = draw(st.sampled_from(["", "\n# U\n\n| Name | x |\n|---|---|\n", "\ntext | text\n"]))
    return head + "\n".join(lines) + "\n" + tail, count


@given(pages(), NEW_CELLS, st.lists(WORDS, min_size=2, max_size=2), STORED)
def test_a_markdown_table_gains_one_row(page: tuple[str, int], key: str, rest, storage):
    text, count = page
    entry = Entry("d.md", "T", "markdown", key, " | ".join(rest[: count - 1]))
    before = stored(text, *storage)
    entries = read_entries(before, entry)
    assume(key not in entries)
    after = add_and_take_back(before, entry)
    assert read_entries(after, entry) == {**entries, key: entry.value}
    assert len(after.splitlines()) == len(before.splitlines()) + 1


@given(st.lists(CELLS, unique=True, min_size=1, max_size=5), WORDS, st.sampled_from("-*+"), STORED)
def test_a_markdown_list_gains_one_item(items: list[str], key: str, bullet: str, storage):
    assume(key not in items)
    text = "# T\n\ntext\n\n" + "".join(f"{bullet} {item}\n  more\n" for item in items)
    before = stored(text + "\nend\n", *storage)
    after = add_and_take_back(before, Entry("d.md", "T", "markdown-list", key, ""))
    assert f"{bullet} {key}" in after.decode().splitlines()


# ---- owners --------------------------------------------------------------------------------------

FOLDERS = ["a", "b", "c"]
FILES = [f"{x}/{y}/{z}" for x in FOLDERS for y in FOLDERS for z in ("m.py", "n.py", "r.md")]
FILES += [f"{x}/{y}" for x in FOLDERS for y in ("m.py", "r.md")] + ["m.py", "r.md"]
ANYWHERE = ["*", "*.md", "m.py", "b/", "**/b/m.py"]
FIXED = ["/a/", "/a", "/a/b/", "/a/b/m.py", "/a/b/n.py", "/b/", "/b/c/m.py", "a/c/"]
WILD = ["/a/*", "/a/**", "/a/*.py", "/a/*/m.py", "/a/**/m.py", "/c/*/", "/a/b/*.py"]
PATTERNS = st.sampled_from([*ANYWHERE, *FIXED, *WILD])


def matches(pattern: str, path: str) -> bool:
    """Matches as GitHub does: as gitignore, but for ``/*``, which takes no folders."""
    is_anchored = "/" in pattern.rstrip("/")
    body = pattern.strip("/")
    regex = "".join(
        {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*"}.get(part, re.escape(part))
        for part in re.split(r"(\*\*/|\*\*|\*)", body)
    )
    ends = "/.*" if pattern.endswith("/") else "" if pattern.endswith("/*") else "(?:/.*)?"
    return re.fullmatch(("" if is_anchored else "(?:.*/)?") + regex + ends, path) is not None


def owner(rules: dict[str, str | None], path: str) -> str | None:
    return next((rules[each] for each in reversed(rules) if matches(each, path)), None)


@given(st.lists(PATTERNS, unique=True, max_size=7), PATTERNS, st.booleans(), STORED)
def test_a_line_for_owners_changes_its_own_files_only(patterns, pattern, aligned, storage):
    assume(pattern not in patterns)
    rows = [f"{each:<14}@{n}" if aligned else f"{each} @{n}" for n, each in enumerate(patterns)]
    before = stored("# owners\n" + "\n".join(rows) + "\n", *storage)
    entry = Entry("CODEOWNERS", "", "owners", pattern, "@new")
    old = read_entries(before, entry)
    assert old == {each: f"@{n}" for n, each in enumerate(patterns)}
    try:
        new = read_entries(add_and_take_back(before, entry), entry)
    except RegistryError:
        return
    own = [path for path in FILES if matches(pattern, path)]
    for path in FILES:
        was, now = owner(old, path), owner(new, path)
        assert now == (was if path not in own else now)
        if path in own and now != "@new":
            decider = next(each for each in reversed(new) if matches(each, path))
            is_narrower = any(not matches(decider, other) for other in own)
            assert is_narrower, f"{decider} takes all of {pattern} back"
        if path in own and now == "@new" and was is not None:
            decider = next(each for each in reversed(old) if matches(each, path))
            elsewhere = [other for other in FILES if matches(decider, other) and other not in own]
            assert elsewhere or set(FILES) == set(own), f"{pattern} takes all of {decider}"


# ---- text ----------------------------------------------------------------------------------------


@given(st.lists(WORDS, unique=True, max_size=5), WORDS, st.booleans(), st.booleans(), STORED)
def test_a_list_of_lines_gains_one(lines: list[str], key: str, ordered, directive, storage):
    assume(key not in lines)
    lines = sorted(lines) if ordered else lines
    if directive:
        rows = "".join(f"   {line}\n" for line in lines)
        text, table = f"T\n=\n\n.. toctree::\n   :hidden:\n\n{rows}\nend\n", ".. toctree::"
    else:
        text, table = "# all\n" + "\n".join(lines) + "\n", ""
    entry = Entry("index.rst", table, "text", key, "")
    after = list(read_entries(add_and_take_back(stored(text, *storage), entry), entry))
    assert [line for line in after if line != key] == lines
    if ordered and len(lines) > 1:
        assert after == sorted(after)
