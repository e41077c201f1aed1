"""The corpus of registries: each case is a folder ``<family>/<name>`` of real bytes.

``before`` is the registry's file, ``after`` the same file with the entry, ``case.toml`` says what
the entry is and where it ends up:

    title = "a sorted table over several lines"
    shape = "dict"      # of `scaffold.edit.shapes.SHAPES`
    table = "REWARDS"
    key = "k"
    value = "m:f"       # left out where the shape has keys only
    code = ["value"]    # which of the two are source text; left out where none is
    file = "pkg/a.py"   # the file's path, where it matters
    line = 3            # of the entry in ``after``
    gains = 1           # lines that ``after`` has more, where that is not 0 or 1

A case without ``after`` is one where the entry is there already. A case that is refused has
``refused = "<error code>"``, ``refused_line`` (left out where no line can be named), ``says`` (part
of the message, optional) and ``hint`` (what the hint must contain) in place of ``line``.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from scaffold.edit.shapes import SHAPES, add_entry, has_entry, read_entries, remove_entry
from scaffold.edit.entry import Entry
from scaffold.errors import declared_codes, RegistryError

CORPUS = Path(__file__).parent
FIELDS = {"title", "shape", "table", "key", "value", "code", "file", "line", "gains"}
REFUSAL_FIELDS = {"refused", "refused_line", "says", "hint"}


@dataclass(frozen=True)
class Case:
    """Is one folder of the corpus."""

    id: str
    fields: dict[str, Any]
    before: bytes
    after: bytes

    @property
    def entry(self) -> Entry:
        fields = self.fields
        return Entry(
            fields.get("file", "pkg/registry.py"),
            *(fields[name] for name in ("table", "shape", "key")),
            value=fields.get("value", ""),
            code=tuple(fields.get("code", ())),
        )

    @property
    def is_refused(self) -> bool:
        return "refused" in self.fields


def load_case(folder: Path) -> Case:
    before = (folder / "before").read_bytes()
    after = folder / "after"
    return Case(
        f"{folder.parent.name}/{folder.name}",
        tomllib.loads((folder / "case.toml").read_text(encoding="utf-8")),
        before,
        after.read_bytes() if after.exists() else before,
    )


CASES = [load_case(path.parent) for path in sorted(CORPUS.glob("*/*/case.toml"))]
EDITED = [case for case in CASES if not case.is_refused]
REFUSED = [case for case in CASES if case.is_refused]


def each(cases: list[Case]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", cases, ids=lambda case: case.id)


@each(CASES)
def test_a_case_is_complete(case: Case):
    extra = REFUSAL_FIELDS if case.is_refused else set[str]()
    assert set(case.fields) <= FIELDS | extra
    assert {"title", "shape", "table", "key"} <= set(case.fields)
    assert case.fields["shape"] in SHAPES
    assert ("line" in case.fields) != case.is_refused
    if case.is_refused:
        assert case.fields["refused"] in declared_codes()
        assert case.fields["hint"], "a refusal says what to add by hand"
        assert not (CORPUS / case.id / "after").exists()


def test_titles_and_cases_are_told_apart():
    titles = [(case.fields["shape"], case.fields["title"]) for case in CASES]
    assert len(set(titles)) == len(titles)
    texts = [(case.entry, case.before) for case in CASES]
    assert len(set(texts)) == len(texts)


@each(EDITED)
def test_adds_one_entry_and_keeps_every_other_byte(case: Case):
    edit = add_entry(case.before, case.entry)
    assert edit.data == case.after
    assert edit.line == case.fields["line"]


@each(EDITED)
def test_a_second_run_changes_nothing(case: Case):
    edit = add_entry(case.after, case.entry)
    assert edit.data == case.after
    assert edit.line == case.fields["line"]


@each([case for case in EDITED if case.before != case.after])
def test_removal_gives_back_the_first_bytes(case: Case):
    assert remove_entry(case.after, case.entry) == case.before


@each([case for case in EDITED if case.before != case.after])
def test_removing_what_is_not_there_changes_nothing(case: Case):
    assert remove_entry(case.before, case.entry) == case.before


@each(EDITED)
def test_what_is_read_agrees_with_what_was_added(case: Case):
    entry = case.entry
    before, after = read_entries(case.before, entry), read_entries(case.after, entry)
    assert has_entry(case.after, entry)
    assert after.pop(entry.key) in (entry.value, None if "value" in entry.code else entry.value)
    if case.before != case.after:
        assert not has_entry(case.before, entry)
        assert before == after


@each(EDITED)
def test_gains_a_line_or_grows_one(case: Case):
    before, after = case.before.splitlines(), case.after.splitlines()
    gained = len(after) - len(before)
    assert gained == case.fields.get("gains", gained if gained in (0, 1) else 1)
    rest = list(after)
    lost = [row for row in before if row not in rest or rest.remove(row)]
    assert len(lost) <= 1, "at most one line that was there changes, by a comma or by the entry"


@each(REFUSED)
def test_refuses_with_the_line_and_the_text_to_add(case: Case):
    with pytest.raises(RegistryError) as refusal:
        add_entry(case.before, case.entry)
    error, fields, file = refusal.value, case.fields, case.entry.file
    assert error.code == fields["refused"], error.message
    where = f"{file}:{fields['refused_line']}: " if "refused_line" in fields else f"{file}: "
    assert error.message.startswith(where), error.message
    assert fields.get("says", "") in error.message
    assert fields["hint"] in error.hint
