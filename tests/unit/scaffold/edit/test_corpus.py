"""The corpus of registries: ``corpus/<family>.md`` in the form of `tests.markdown_cases`.

``before`` is the registry's file, ``after`` the same file with the entry, or left out where the
entry is there already. The options are what the entry is and where it ends up:

    shape = "dict"      # of `scaffold.edit.shapes.SHAPES`
    table = "REWARDS"
    key = "k"
    value = "m:f"       # left out where the shape has keys only
    code = ["value"]    # which of the two are source text; left out where none is
    near = "a"          # the entry whose block it joins; left out where none is
    file = "pkg/a.py"   # the file's path, where it matters
    line = 3            # of the entry in ``after``
    gains = 1           # lines that ``after`` has more, where that is not 0 or 1

A case that is refused has ``refused = "<error code>"``, ``line`` (left out where no line can be
named), ``message`` (a part of it, optional) and ``hint`` (what the hint must contain).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from scaffold.edit.codes import CODES
from scaffold.edit.entry import Entry
from scaffold.edit.shapes import SHAPES, add_entry, has_entry, read_entries, remove_entry
from scaffold.errors import RegistryError
from tests.markdown_cases import MarkdownCase, read_cases

OPTIONS = {"shape", "table", "key", "value", "code", "near", "file", "line"}
PAGES = sorted(Path(__file__).with_name("corpus").glob("*.md"))
CASES = [case for page in PAGES for case in read_cases(page)]
REFUSED = [case for case in CASES if "refused" in case.options]
EDITED = [case for case in CASES if "refused" not in case.options]


def each(cases: list[MarkdownCase]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", cases, ids=lambda case: case.id)


def entry_of(case: MarkdownCase) -> Entry:
    options = case.options
    return Entry(
        options.get("file", "pkg/registry.py"),
        *(options[name] for name in ("table", "shape", "key")),
        value=options.get("value", ""),
        code=tuple(options.get("code", ())),
        near=options.get("near", ""),
    )


def test_no_case_is_there_twice():
    ids = [case.id for case in CASES]
    assert len(set(ids)) == len(ids)
    texts = [(entry_of(case), case.files["before"]) for case in CASES]
    assert len(set(texts)) == len(texts)


@each(EDITED)
def test_an_entry_comes_and_goes_and_every_other_byte_stays(case: MarkdownCase):
    assert case.options.keys() <= OPTIONS | {"gains"}
    assert {"before"} <= case.files.keys() <= {"before", "after"}
    assert case.options["shape"] in SHAPES
    entry, line = entry_of(case), case.options["line"]
    before = case.files["before"]
    after = case.files.get("after", before)

    edit = add_entry(before, entry)
    assert edit.data == after
    assert edit.line == line
    again = add_entry(after, entry)
    assert again.data == after, "a second run changes nothing"
    assert again.line == line

    assert has_entry(after, entry)
    entries = read_entries(after, entry)
    assert entries.pop(entry.key) in (entry.value, None if "value" in entry.code else entry.value)
    if before != after:
        assert not has_entry(before, entry)
        assert entries == read_entries(before, entry)
        assert remove_entry(after, entry) == before
        assert remove_entry(before, entry) == before, "removing what is not there changes nothing"

    rows, rest = before.splitlines(), after.splitlines()
    gained = len(rest) - len(rows)
    assert gained == case.options.get("gains", gained if gained in (0, 1) else 1)
    lost = [row for row in rows if row not in rest or rest.remove(row)]
    assert len(lost) <= 1, "at most one line that was there changes, by a comma or by the entry"


@each(REFUSED)
def test_a_refusal_has_the_line_and_the_text_to_add(case: MarkdownCase):
    options = case.options
    assert options.keys() <= OPTIONS | {"refused", "message", "hint"}
    assert case.files.keys() == {"before"}
    assert options["shape"] in SHAPES
    assert options["refused"] in CODES
    assert options["hint"], "a refusal has what to add by hand"
    entry = entry_of(case)
    with pytest.raises(RegistryError) as refusal:
        add_entry(case.files["before"], entry)
    error = refusal.value
    assert error.code == options["refused"], error.message
    where = f"{entry.file}:{options['line']}: " if "line" in options else f"{entry.file}: "
    assert error.message.startswith(where), error.message
    assert options.get("message", "") in error.message
    assert options["hint"] in error.hint


def test_nesting_beyond_all_reason_is_refused():
    entry = Entry("pkg/registry.py", "T", "dict", "k", value="m:f")
    with pytest.raises(RegistryError, match="deep") as refusal:
        add_entry(b"T = " + b"-" * 60_000 + b"1\n", entry)
    assert refusal.value.code == "registry_syntax"
    assert refusal.value.message.startswith("pkg/registry.py: ")
    assert '"k": "m:f",' in refusal.value.hint
