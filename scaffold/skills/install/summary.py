"""What skills bring, as people and agents read it before anything is written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

from scaffold.errors import escaped
from scaffold.skills.install.lock import LockedSkill
from scaffold.skills.install.permissions import Permission

Change = Literal["new", "same", "changed", "gone"]
Row = tuple[Permission, Change]

_SIGNS: dict[Change, str] = {"new": "+", "same": " ", "changed": "~", "gone": "-"}
_NOTES = {
    "dropped": "  (dropped; --grant-tools keeps it)",
    "refused": "  (refused)",
    "": "",
}
_RUNS = frozenset({"script", "executable", "program"})


def compare(old: LockedSkill | None, new: LockedSkill) -> list[Row]:
    """Return what a skill brings, each with what became of it since it was installed last."""
    if old is None:
        return [(each, "new") for each in new.permissions]
    known = {(each.identity, each.state) for each in old.permissions}
    now = {(each.identity, each.state) for each in new.permissions}
    before = _hashes(old)
    # A file that is new is listed as such already.
    changed = {path for path, sha in _hashes(new).items() if before.get(path, sha) != sha}
    rows: list[Row] = []
    for each in new.permissions:
        is_known = (each.identity, each.state) in known
        # A script may do something new under an unchanged name.
        is_changed = each.kind in _RUNS and each.file in changed
        rows.append((each, "new" if not is_known else "changed" if is_changed else "same"))
    gone = [each for each in old.permissions if (each.identity, each.state) not in now]
    return [*rows, *((each, "gone") for each in gone)]


def listing(name: str, rows: Sequence[Row], *, is_update: bool) -> str:
    """Return the rows of one skill as text; of an update only what is not as it was."""
    shown = [row for row in rows if row[1] != "same"] if is_update else list(rows)
    verb = "changes what it brings" if is_update else "brings"
    if not shown:
        nothing = "the same as before" if is_update else "no scripts, run bits, tools, hidden text"
        return f"{name} brings {nothing}\n"
    lines = [f"{name} {verb}:"]
    for each, change in shown:
        sign = f"{_SIGNS[change]} " if is_update else ""
        note = "  (its content)" if change == "changed" else _NOTES[each.state]
        note = "  (becomes plain text)" if each.kind == "block" else note
        lines.append(f"  {sign}{each.kind:<12} {each.file}:{each.line}  {each.what}{note}")
    return "\n".join(escaped(line) for line in lines) + "\n"


def permissions_json(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Return the rows of one skill as the JSON report has them."""
    return [
        {
            "kind": each.kind,
            "file": each.file,
            "line": each.line,
            "what": each.what,
            "state": each.state,
            "change": change,
        }
        for each, change in rows
    ]


def _hashes(skill: LockedSkill) -> dict[str, str]:
    # Every root has the same files but for SKILL.md, of which Claude's has keys of its own.
    start = f"{skill.roots[0]}/{skill.name}/"
    return {
        file.path.removeprefix(start): file.sha256
        for file in skill.files
        if file.path.startswith(start)
    }
