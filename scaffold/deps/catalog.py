"""``scaffold deps catalog``: every use of a package, as a checklist."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from scaffold.analysis.files.files import list_files
from scaffold.deps.collect import collect, require_unpinned
from scaffold.deps.import_names import Names, names_of
from scaffold.deps.use import KINDS, Use
from scaffold.report import Report


def catalog(root: Path, package: str) -> Report:
    """List the uses of a package in a tree, from its text alone.

    Raises:
        ScaffoldError: The name is none of a distribution, or the configured names are wrong.
        TargetError: A manifest pins the package, and nothing in the tree is seen to use it.
    """
    files = list_files(root)
    names = names_of(files, package)
    found = collect(files, names)
    uses = found.uses
    if not uses:
        require_unpinned(files, names)
    report = Report("deps catalog")
    report.warnings = tuple(f"{path} does not parse and is left out" for path in found.unread)
    report.text = page(names, uses)
    counts = Counter(each.kind for each in uses)
    told = {
        "package": names.distribution,
        "imports": list(names.imports),
        "named_by": names.source,
        "uses": [each.to_json() for each in uses],
        "counts": {kind: counts[kind] for kind in KINDS if counts[kind]},
        "unread": found.unread,
    }
    report.extra = {"deps": told}
    return report


def page(names: Names, uses: list[Use]) -> str:
    """Return the checklist as Markdown."""
    files = len({each.path for each in uses})
    imports = ", ".join(f"`{each}`" for each in names.imports)
    rows = [f"# Uses of {names.distribution}", ""]
    counted = f"{_count(len(uses), 'use')} in {_count(files, 'file')}"
    rows += [f"{counted}, imported as {imports} (by {names.source})."]
    for kind, heading in KINDS.items():
        chosen = [each for each in uses if each.kind == kind]
        if chosen:
            rows += ["", f"## {heading}", "", *(_row(each) for each in chosen)]
    return "\n".join(rows) + "\n"


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _row(use: Use) -> str:
    text = f"- [ ] {use.path}:{use.line} `{use.name}`"
    if use.local:
        text += f" through `{use.local}`"
    if use.detail:
        text += f": `{use.detail.replace('`', chr(39))}`"
    return f"{text} ({use.guard.text})" if use.guard else text
