"""``scaffold deps audit``: what a release of a package changes for the uses in a tree."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.version import Version

from scaffold.analysis.files.files import Files, list_files
from scaffold.deps.catalog import collect, require_unpinned
from scaffold.deps.download import fetch_release, parse_version
from scaffold.deps.import_names import OWN_NAME, Names, names_of, read_names
from scaffold.deps.losses import HiddenLosses
from scaffold.deps.release import Release
from scaffold.deps.use import LEVELS, VERDICTS, Judgement, Use
from scaffold.deps.verdicts import Judge
from scaffold.findings import RuleText, write_findings
from scaffold.report import Report, Step

_ORDER = {level: number for number, level in enumerate(LEVELS)}

_MEANINGS = Path(__file__).with_name("meanings.toml")


def audit(
    root: Path,
    package: str,
    old: str,
    new: str,
    *,
    python: str | None = None,
    show_undecided: bool = False,
    form: str = "human",
) -> Report:
    """Bind every use of a package to two releases, read as text.

    Args:
        old: The release that the tree was written for.
        new: The one that it is to run with.
        python: The interpreter whose pip is asked; None for the one that runs this.
        show_undecided: Whether what cannot be decided is shown, too; as JSON it always is.
        form: One of `scaffold.findings.FORMATS`.

    Raises:
        ScaffoldError: A version or name is wrong, the index lacks a release or does not answer.
        TargetError: A manifest pins the package, and nothing in the tree is seen to use it.
    """
    files = list_files(root)
    found = audit_tree(files, package, old, new, python)
    report = Report("deps audit")
    report.warnings = tuple(f"{path} does not parse and is left out" for path in found.unread)
    report.ok = not found.count("breaks")
    report.next = found.steps
    told = told_of(found)
    report.extra = {"deps": told}
    shown = [each for each in found.findings if show_undecided or each.level != "undecided"]
    report.text = "".join(f"{row}\n" for row in _rows(told, show_undecided))
    rules = {name: RuleText(means) for name, means in VERDICTS.items()}
    return write_findings(report, form, [each.finding for each in shown], rules)


@dataclass(frozen=True)
class Audited:
    """What an audit has found.

    Args:
        unread: The sources that do not parse.
        meanings: What the release changes without a text's word.
    """

    names: Names
    versions: tuple[str, str]
    uses: list[Use]
    findings: list[Judgement]
    unread: list[str]
    meanings: list[dict[str, Any]]

    @property
    def steps(self) -> tuple[Step, ...]:
        return tuple(each.step for each in self.findings if each.level == "breaks")

    def count(self, level: str) -> int:
        return sum(each.level == level for each in self.findings)


def audit_tree(files: Files, package: str, old: str, new: str, python: str | None) -> Audited:
    """Fetch two releases of a package, and judge a tree's uses of it by them.

    Raises:
        ScaffoldError: A version or name is wrong, the index lacks a release or does not answer.
        TargetError: A manifest pins the package, and nothing in the tree is seen to use it.
    """
    named = names_of(files, package)
    versions = [parse_version(each) for each in (old, new)]
    places = [fetch_release(named.distribution, each, python) for each in versions]
    read = [read_names(named.distribution, each) for each in places]
    imports = {one for each in read for one in each.imports}
    # A guessed import name goes where the archives name the packages themselves.
    if named.source != OWN_NAME or not imports:
        imports |= set(named.imports)
    names = Names(named.distribution, tuple(sorted(imports)), named.source)
    old_release, new_release = map(Release, map(str, versions), places)
    found = judge_tree(files, names, old_release, new_release)
    if not found.uses:
        require_unpinned(files, names)
    return found


def told_of(found: Audited) -> dict[str, Any]:
    concerned = {each.use for each in found.findings}
    return {
        "package": found.names.distribution,
        "old": found.versions[0],
        "new": found.versions[1],
        "imports": list(found.names.imports),
        "changes": _by_change(found.findings),
        "meanings": found.meanings,
        "findings": [each.to_json() for each in found.findings],
        "counts": {
            "uses": len(found.uses),
            "unchanged": len(found.uses) - len(concerned & set(found.uses)),
            **{level: found.count(level) for level in LEVELS},
        },
    }


def judge_tree(files: Files, names: Names, old: Release, new: Release) -> Audited:
    """Judge a tree's uses of a package by two releases of it."""
    found = collect(files, names)
    judge = Judge(old, new)
    uses = list(found.uses)
    findings = [each for use in uses for each in judge.judge(use)]
    losses = HiddenLosses(old, new)
    findings = [losses.of_class(each) for each in findings]
    hidden: list[Judgement] = []
    for use in found.attributes:
        if use.node is None:
            hidden += losses.anywhere(use)
        elif lost := losses.of_unknown(use):
            hidden += [] if found.tree.index.defined(use.parts[-1]) else [lost]
    findings += hidden
    uses += dict.fromkeys(each.use for each in hidden)
    # Several uses of one line may come to the same finding, which is shown once.
    unique = dict.fromkeys(findings)
    ordered = sorted(unique, key=lambda each: (_ORDER[each.level], each.use.path, each.use.line))
    told = meanings(names.distribution, old.version, new.version, files, uses)
    return Audited(names, (old.version, new.version), uses, ordered, found.unread, told)


def _by_change(findings: Iterable[Judgement]) -> list[dict[str, Any]]:
    """Return one row for the findings that tell the same of the same name, with its sites."""
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    for each in findings:
        row = each.to_json()
        told = {key: row[key] for key in ("name", "verdict", "level", "why", "likely")}
        change = found.setdefault(
            tuple(told.values()), {**told, "sites": [], "evidence": row["evidence"]}
        )
        change["sites"].append({"file": each.use.path, "line": each.use.line})
    return list(found.values())


def _rows(told: dict[str, Any], show_undecided: bool) -> Iterator[str]:
    blank = " " * 11
    for each in told["changes"]:
        if each["level"] == "undecided" and not show_undecided:
            continue
        sites = each["sites"]
        first, *rest = [*places(sites[:1]), *places(sites[1:])]
        more = f"  in {len(sites)} places" if rest else ""
        yield f"{each['level']:<11}{first}  {each['name']}  {each['verdict']}{more}"
        yield f"{blank}{each['why']}" + (f"; likely {each['likely']}" if each["likely"] else "")
        evidence: dict[str, str] = each["evidence"]
        if each["level"] == "breaks" and evidence["old"]:
            yield from (f"{blank}{which}  {text}" for which, text in evidence.items())
        yield from (f"{blank}also {row}" for row in rest)
    for each in told["meanings"]:
        yield f"meaning    {each['since']}: {each['says']}"
        yield f"{blank}{each['source']}"
        yield from (f"{blank}may concern {row}" for row in places(each["sites"]))
    counts = ", ".join(f"{number} {name}" for name, number in told["counts"].items())
    yield f"{told['package']} {told['old']} -> {told['new']}: {counts}"


def places(sites: Iterable[dict[str, Any]]) -> list[str]:
    """Return sites, one row a file: ``app/a.py:3, 8``."""
    lines: dict[str, list[str]] = {}
    for each in sites:
        lines.setdefault(each["file"], []).append(str(each["line"]))
    return [f"{path}:{', '.join(found)}" for path, found in lines.items()]


def meanings(
    package: str, old: str, new: str, files: Files, uses: Iterable[Use]
) -> list[dict[str, Any]]:
    """Return what releases after the old one, up to the new one, change; each with its sites."""
    told = tomllib.loads(_MEANINGS.read_text(encoding="utf-8")).get(package, [])
    known = list(uses)
    found: list[dict[str, Any]] = []
    for each in told:
        if Version(old) < Version(each["since"]) <= Version(new):
            row = {key: each[key] for key in ("since", "says", "source")}
            found.append({**row, "sites": _sites(each, files, known)})
    return found


def _sites(told: dict[str, str], files: Files, uses: list[Use]) -> list[dict[str, Any]]:
    """Return the lines with the pattern of a meaning; what they mean is for a person to say."""
    if "pattern" not in told:
        return []
    pattern = re.compile(told["pattern"], re.MULTILINE)
    if told.get("within") == "subclasses":
        spans: dict[str, set[int]] = {}
        for use in uses:
            if use.kind == "subclass" and isinstance(use.node, ast.ClassDef):
                end = use.node.end_lineno or use.node.lineno
                spans.setdefault(use.path, set()).update(range(use.node.lineno, end + 1))
    else:
        # What a name without a type holds does not show, so every source counts.
        spans = {path: set() for path in files.python}
    found: dict[tuple[str, int], None] = {}
    for path in sorted(spans):
        text = files.text(path) or ""
        for each in pattern.finditer(text):
            begin = each.end() - len(each[0].lstrip())
            found[path, text.count("\n", 0, begin) + 1] = None
    rows = [each for each in found if not spans[each[0]] or each[1] in spans[each[0]]]
    return [{"file": path, "line": line} for path, line in rows]
