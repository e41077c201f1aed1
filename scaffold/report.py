"""What a command reports: short text for people, one JSON object for agents."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from scaffold.errors import ScaffoldError

REPORT_SCHEMA = 1
"""The version of the JSON report; docs/schema/report.schema.json describes it."""


class ReportedChange(NamedTuple):
    """One file that was, or would be, written; the tool's own records carry no diff."""

    path: str
    action: str
    diff: str = ""


class Registration(NamedTuple):
    """One line in a registry."""

    file: str
    table: str
    key: str
    value: str
    line: int


class SetKey(NamedTuple):
    """A key of a configuration that is set, its value as YAML source."""

    file: str
    key: str
    value: str
    line: int


class Step(NamedTuple):
    """Something left to do, and where."""

    file: str
    line: int
    why: str


@dataclass(eq=False, repr=False)
class Report:
    """The outcome of one command.

    Args:
        command: The command as the help calls it ("add-reward").
        target: Folder, layout and package of the target, or None.
        ok: Whether the command did what was asked; False makes the exit status 1.
        found: What was found out for the request, as lines.
        hints: What to know that leaves no place to edit, such as how to train with the unit.
        text: What people read; without it the lists below are printed.
        extra: Further top-level keys of the JSON object (units, verdict, ...).
        error: What kept a part of it from being done; the report has the rest.
    """

    command: str
    target: dict[str, str] | None = None
    ok: bool = True
    changes: tuple[ReportedChange, ...] = ()
    registered: tuple[Registration, ...] = ()
    configured: tuple[SetKey, ...] = ()
    next: tuple[Step, ...] = ()
    hints: tuple[str, ...] = ()
    check: tuple[tuple[str, ...], ...] = ()
    unfinished: tuple[Step, ...] = ()
    warnings: tuple[str, ...] = ()
    found: tuple[str, ...] = ()
    dry_run: bool = False
    text: str | None = None
    extra: dict[str, Any] = field(default_factory=dict[str, Any])
    error: ScaffoldError | None = None

    def fail_in_part(self, errors: Sequence[ScaffoldError]) -> None:
        """Take in what kept parts from being done, if anything did."""
        if errors:
            self.ok = False
            self.error = ScaffoldError(
                "; ".join(each.message for each in errors),
                code=errors[0].code,
                hint="\n".join(dict.fromkeys(each.hint for each in errors if each.hint)),
            )

    def to_json(self) -> dict[str, Any]:
        """Return the report as the JSON object that the schema describes."""
        return {
            "schema": REPORT_SCHEMA,
            "ok": self.ok,
            "command": self.command,
            "target": self.target,
            "dry_run": self.dry_run,
            "changes": [row._asdict() for row in self.changes],
            "registered": [row._asdict() for row in self.registered],
            "configured": [row._asdict() for row in self.configured],
            "next": [row._asdict() for row in self.next],
            "hints": list(self.hints),
            "check": [list(argv) for argv in self.check],
            "unfinished": [row._asdict() for row in self.unfinished],
            "warnings": list(self.warnings),
            "error": None if self.error is None else _error_json(self.error),
            **self.extra,
        }

    def to_text(self) -> str:
        """Return the report as people read it: what was written, what is next, how to check it."""
        if self.text is not None:
            return self.text
        if self.dry_run:
            return "".join(change.diff for change in self.changes) or "nothing to do\n"
        rows = [f"{c.action:<10} {c.path}" for c in self.changes if c.action != "record"]
        rows += [
            f"registered {r.file}:{r.line}  {entry_label(r.table, r.key)}" for r in self.registered
        ]
        rows += [f"configured {line}" for line in set_lines(self.configured)]
        rows = rows or ["nothing to do"]
        rows = [*(f"found      {line}" for line in self.found), *rows]
        rows += [f"next       {step.file}:{step.line}  {step.why}" for step in self.next]
        rows += [f"hint       {hint}" for hint in self.hints]
        rows += [f"check      {' '.join(argv)}" for argv in self.check]
        return "\n".join(rows) + "\n"


def entry_label(table: str, key: str) -> str:
    """Return a registry's line as people read it; an import, for example, is in no table."""
    return f"{table}[{key!r}]" if table else key


def set_lines(rows: Iterable[SetKey]) -> list[str]:
    """Return what is set, a line for each file."""
    files: dict[str, list[str]] = {}
    for row in rows:
        files.setdefault(row.file, []).append(f"{row.key} = {row.value}")
    return [f"{file}: {', '.join(keys)}" for file, keys in files.items()]


def error_json(command: str, error: ScaffoldError) -> dict[str, Any]:
    """Return the JSON object of a command that failed."""
    report = Report(command, ok=False).to_json()
    report["error"] = _error_json(error)
    return report


def _error_json(error: ScaffoldError) -> dict[str, str]:
    return {"code": error.code, "message": error.message, "hint": error.hint}


def error_text(error: ScaffoldError) -> str:
    """Return an error as people read it."""
    hint = error.hint.replace("\n", "\n      ")
    return f"error: {error.message} [{error.code}]\n" + (f"hint: {hint}\n" if hint else "")


def unified_diff(path: str, before: bytes | None, after: bytes | None) -> str:
    """Return the unified diff of one file, as `git apply` reads it; None means no file."""
    import difflib  # costs 3 ms, and a run that changes nothing does without

    rows = difflib.unified_diff(
        [] if before is None else _lines(before),
        [] if after is None else _lines(after),
        "/dev/null" if before is None else f"a/{path}",
        "/dev/null" if after is None else f"b/{path}",
    )
    return "".join(_with_end(rows))


def _lines(data: bytes) -> list[str]:
    """Split at line feeds only, as diff programs do; a form feed or a carriage return is text."""
    rows = data.decode("utf-8", "replace").split("\n")
    return [row + "\n" for row in rows[:-1]] + ([rows[-1]] if rows[-1] else [])


def _with_end(rows: Iterable[str]) -> Iterable[str]:
    for row in rows:
        yield row if row.endswith("\n") else f"{row}\n\\ No newline at end of file\n"
