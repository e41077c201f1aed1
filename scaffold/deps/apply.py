"""``scaffold deps apply``: rewrite the uses of a package that a new release breaks."""

from __future__ import annotations

import re
from pathlib import Path

from scaffold.analysis.files.files import Files, list_files
from scaffold.deps.audit import audit_tree
from scaffold.deps.judgement import Judgement
from scaffold.deps.rewrite import PLACE, rewrite_data
from scaffold.report import Report
from scaffold.transaction.apply import apply_changes, settle
from scaffold.transaction.change import Change

COMMAND = "deps apply"

# A new argument has no value yet; what a dropped one did, such as to name a proxy, is undone.
_HALF_DONE = frozenset({"parameter-removed", "parameter-required"})


def apply(
    root: Path, package: str, old: str, new: str, *, write: bool, python: str | None = None
) -> Report:
    """Rewrite what an audit is certain about; without ``write`` the diff alone is shown.

    Its arguments, and what it raises, are as of `scaffold.deps.audit.audit`.
    """
    if write:
        settle(root, COMMAND)
    files = list_files(root)
    found = audit_tree(files, package, old, new, python)
    broken = [each for each in found.findings if each.level == "breaks"]
    changes: list[Change] = []
    done: list[Judgement] = []
    for path in sorted({each.use.path for each in broken if each.use.path.endswith(".py")}):
        before = files.data(path) or b""
        own = [each for each in broken if each.use.path == path]
        after, finished = rewrite_data(before, own, taken_elsewhere(files, path))
        done += finished
        if after != before:
            changes.append(Change(path, "edited", before, after))
    if write and changes:
        apply_changes(root, changes, COMMAND)
    report = Report(COMMAND, dry_run=not write)
    report.changes = tuple(each.reported for each in changes)
    yours = [each for each in broken if each not in done or each.verdict in _HALF_DONE]
    report.next = tuple(each.step for each in yours)
    report.ok = not yours
    rows = [f"{PLACE:<11}{each.file}:{each.line}  {each.why}\n" for each in report.next]
    told = f"{len(done)} of {len(broken)} places that break are rewritten, {len(yours)} left\n"
    report.text = "".join([*(each.diff for each in report.changes), *rows, told])
    report.extra = {"deps": {"rewritten": len(done), "left": len(yours)}}
    return report


def taken_elsewhere(files: Files, path: str) -> set[str]:
    """Return the names that the other sources of a tree take from one; by its last name alone.

    They are imported, or asked of the module; "*" stands for all, as ``import *`` takes, or an
    import of the module under another name.
    """
    folder, _, file = path.rpartition("/")
    module = folder.rpartition("/")[2] if file == "__init__.py" else file.partition(".")[0]
    word = re.escape(module)
    pattern = re.compile(
        rf"^[ \t]*from[ \t]+(?:[\w.]*\.)?{word}[ \t]+import[ \t]+(\([^)]*\)|[^\n]*)"
        rf"|\b{word}\.(\w+)|\b{word}[ \t]+as[ \t]()",
        re.MULTILINE,
    )
    found: set[str] = set()
    for other in files.python:
        text = files.text(other) or ""
        for each in pattern.finditer(text) if other != path and module in text else ():
            names = each[1] or each[2] or "*"
            found.update(re.findall(r"\w+|\*", names))
    return found
