"""``scaffold deps plan``: move pins in every manifest, and ask a resolver whether they agree."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.version import Version

from scaffold.analysis.files.files import Files, list_files
from scaffold.deps.download import parse_version
from scaffold.deps.import_names import distribution_name
from scaffold.deps.pin import EditedFiles, Pin, moved, name_pattern
from scaffold.deps.pins import RESOLVERS, find_locks, find_pins, lock_of
from scaffold.deps.resolver import (
    Resolution,
    groups_of,
    own_resolver,
    resolve_with_lock,
    resolve_with_pip,
)
from scaffold.errors import ConflictError, RequestError, TargetError
from scaffold.report import Report, Step
from scaffold.transaction.apply import apply_changes, settle
from scaffold.transaction.change import Change
from scaffold.transaction.leftovers import leftover_warning, settled_warning

COMMAND = "deps plan"
_WORD = re.compile(r"(?P<name>[\w.-]+) *== *(?P<version>[^=@*\s]+)(?:@(?P<variant>.*))?")

Asking = Callable[[str, Sequence[str]], str]
"""Asks a person which of some variants is meant, after a sentence on how they differ."""

ALL_VARIANTS = "all"

# A release of two numbers or more, as specifiers and tags have it; one number is no evidence.
_RELEASE = re.compile(r"\d+(?:\.\d+)+[A-Za-z0-9.+]*")
_MOST_BYTES = 2_000_000
_OPERATOR = r"(?:===?|[<>~!]=|[<>])\s*"
# `plugin>=1,<` before a release: what is pinned there is another package.
_PINNED = re.compile(
    rf"([A-Za-z][\w.-]*)(?:\[[^\]]*\])?\s*(?:{_OPERATOR}[\w.*+]+\s*,\s*)*{_OPERATOR}v?$"
)


@dataclass(frozen=True)
class Edited:
    """The manifests after the edit.

    Args:
        moved: The pins that moved, or admit the release as they are, by package.
        unmoved: The pins that stay, and why.
    """

    files: EditedFiles
    moved: Mapping[str, list[Pin]]
    unmoved: list[tuple[Pin, str]]

    @property
    def pins(self) -> list[Pin]:
        return [pin for pins in self.moved.values() for pin in pins]


def plan(
    root: Path,
    pins: Sequence[str],
    *,
    apply: bool = False,
    resolve: bool = True,
    python: str | None = None,
    ask: Asking | None = None,
) -> Report:
    """Plan the pins of some packages; write them with ``apply``, all or none.

    Args:
        pins: The releases, each as ``name==version`` or ``name==version@variant``.
        python: The interpreter whose pip is asked; None for the one that runs this.
        ask: Asks which of several variants is meant; None where nobody can be asked.

    Raises:
        ScaffoldError: A pin is none, nothing pins the package, or the resolver does not answer.
        ConflictError: With ``apply``, the pins do not go together with others.
    """
    releases, variants = _releases(pins)
    # Before the files are listed, as settling may change them.
    warnings = settled_warning(settle(root, COMMAND)) if apply else leftover_warning(root)
    files = list_files(root)
    edited = edit_pins(files, releases, _chosen_variants(files, releases, variants, ask))
    report = Report(COMMAND, dry_run=not apply, warnings=warnings)
    changes = [
        Change(path, "edited", files.data(path), data) for path, data in edited.files.edits.items()
    ]
    report.changes = tuple(each.reported for each in changes)
    answers = _resolve(edited, releases, python) if resolve else []
    left_out = dict.fromkeys(row for each in answers for row in each.left_out)
    report.warnings += tuple(
        f"{row}: not resolved, as it would be built or its tool alone reads it" for row in left_out
    )
    rows = _tell(report, edited, releases, answers)
    if failed := [each.group for each in answers if not each.ok]:
        report.dry_run = True  # nothing is written, whatever was asked
        asked = ", ".join(f"{name}=={version}" for name, version in releases.items())
        error = ConflictError(
            f"{asked} does not resolve in {', '.join(failed)}",
            code="pins_conflict",
            hint="move what the resolver names too, in the same command; nothing was written",
        )
        report.fail_in_part([error])
    elif apply and changes:
        apply_changes(root, changes, COMMAND)
    diffs = [each.diff for each in report.changes] if report.dry_run else []
    written = [] if report.dry_run else [f"edited     {each.path}" for each in report.changes]
    report.text = "".join([*diffs, *(f"{row}\n" for row in [*rows, *written])])
    return report


def _chosen_variants(
    files: Files,
    releases: Mapping[str, Version],
    named: Mapping[str, str],
    ask: Asking | None,
) -> dict[str, str]:
    """Return the variant of each package that is to move, asked for where they differ.

    Raises:
        RequestError: A variant does not pin the package, or none was named and they differ.
    """
    chosen = dict(named)
    for name in releases:
        specs: dict[str, set[str]] = {}
        for pin in find_pins(files, name):
            if pin.variant:
                specs.setdefault(pin.variant, set()).add(pin.spec)
        told = ", ".join(
            f"{' and '.join(sorted(spec)) or 'any'} in {each}" for each, spec in specs.items()
        )
        known = [*specs, ALL_VARIANTS]
        if name not in chosen and len({frozenset(each) for each in specs.values()}) > 1:
            chosen[name] = ask(f"{name} is {told}", known) if ask is not None else ""
        wrong = f"{name} differs between variants: {told}"
        if name in named:
            there = ", ".join(specs) or "none"
            wrong = f"no variant {named[name]!r} pins {name}; those that do: {there}"
        if name in chosen and chosen[name] not in known:
            raise RequestError(
                wrong,
                code="variant_unclear",
                hint=f"name one: {name}=={releases[name]}@{'|'.join(known)}",
            )
    return chosen


def edit_pins(
    files: Files, releases: Mapping[str, Version], variants: Mapping[str, str] | None = None
) -> Edited:
    """Move every pin of the packages; of those with a variant, the pins of that one alone.

    Raises:
        TargetError: No manifest names one of them.
    """
    done: dict[str, list[Pin]] = {}
    unmoved: list[tuple[Pin, str]] = []
    specs: list[tuple[Pin, str]] = []
    for name, version in releases.items():
        pins = find_pins(files, name)
        if not pins:
            raise TargetError(
                f"no manifest of {files.root} names {name}",
                code="pins_missing",
                hint="`scaffold deps catalog` shows where the package is used",
            )
        done[name] = []
        variant = (variants or {}).get(name, ALL_VARIANTS)
        for pin in pins:
            if variant not in (ALL_VARIANTS, pin.variant):
                unmoved.append((pin, f"it does not belong to the variant {variant}"))
                continue
            spec = None if pin.why_fixed else moved(pin.spec, version)
            if spec is None:
                why = pin.why_fixed or f"{pin.spec!r} cannot be moved to {version} in its style"
                unmoved.append((pin, why))
            elif spec == pin.spec:
                why = "it is this release already" if str(version) in spec else "it admits it"
                unmoved.append((pin, why))
                # A pin that already admits the release still names the group to resolve.
                done[name].append(pin)
            else:
                specs.append((pin, spec))
                done[name].append(pin)
    return Edited(EditedFiles(files, specs), done, unmoved)


def _releases(pins: Sequence[str]) -> tuple[dict[str, Version], dict[str, str]]:
    """Read ``name==version`` and ``name==version@variant`` words.

    Raises:
        RequestError: One is none, or a package is named twice.
    """
    found: dict[str, Version] = {}
    variants: dict[str, str] = {}
    for word in pins:
        # A range names no release to move to.
        read = _WORD.fullmatch(word)
        if read is None:
            raise RequestError(
                f"{word!r} is not a pin", code="requirement_invalid", hint="write click==8.1.8"
            )
        name = distribution_name(read["name"])
        if name in found:
            raise RequestError(
                f"{name} is named twice", code="requirement_invalid", hint="give one release each"
            )
        found[name] = parse_version(read["version"])
        if read["variant"] is not None:
            variants[name] = read["variant"]
    return found, variants


def _resolve(
    edited: Edited, releases: Mapping[str, Version], python: str | None
) -> list[Resolution]:
    """Ask the project's own resolver, for each variant, or pip for each group that changes."""
    files = edited.files
    answers: dict[str, Resolution] = {}
    manifests = {each.path for each in edited.pins if each.variant and "/" not in each.path}
    for path in sorted(manifests) or ["pyproject.toml"]:
        names = [_plain(path, each) for each in sorted(files.paths)]
        resolver = own_resolver(names, files.text(path) or "")
        if resolver != "pip":
            given = _project_files(files, path, resolver)
            answer = resolve_with_lock(resolver, given, list(releases), path)
            answers |= {path: answer} if answer is not None else {}
    # Beside a project's own lock its other requirements are not asked about.
    left = [each for each in edited.pins if each.path in manifests or not answers]
    groups = groups_of(files, [each for each in left if each.path not in answers])
    return [*answers.values(), *(resolve_with_pip(each, python) for each in groups)]


def _plain(manifest: str, path: str) -> str:
    """Return the plain name of a variant's lock, "" for the lock of another variant."""
    for tool in RESOLVERS:
        if path == lock_of(manifest, tool):
            return f"{tool}.lock"
        if path == f"{tool}.lock":
            return ""
    return path


def _project_files(files: Files, manifest: str, tool: str) -> dict[str, str]:
    """Return what a resolver reads, a variant's files under the names that it looks for."""
    names = ("pyproject.toml", "uv.lock", "uv.toml", "poetry.lock", "pdm.lock")
    paths = {each: each for each in files.paths if each.rpartition("/")[2] in names}
    paths |= {"pyproject.toml": manifest, f"{tool}.lock": lock_of(manifest, tool)}
    texts = {name: files.text(path) for name, path in paths.items()}
    return {name: text for name, text in texts.items() if text}


def _tell(
    report: Report, edited: Edited, releases: Mapping[str, Version], answers: list[Resolution]
) -> list[str]:
    """Fill the report with what was found out, and return it as lines."""
    files = edited.files
    locks = [
        lock for name, version in releases.items() for lock in find_locks(files, name, str(version))
    ]
    rows = [
        f"unmoved    {pin.path}:{pin.line}  {pin.spec or 'any'}: {why}"
        for pin, why in edited.unmoved
    ]
    for each in answers:
        state = "resolves" if each.ok else "conflict"
        rows.append(f"{state:<11}{each.group}  by {each.resolver}")
        rows += [f"           {row}" for row in each.said]
    changed = [row for each in answers for row in each.changed]
    rows += [f"changes    {name} {old} -> {new}" for name, old, new in changed]
    left = mentions(files, edited.moved, frozenset(each.file for each in locks))
    rows += [f"mentions   {path}:{', '.join(map(str, lines))}" for path, lines in left.items()]
    rows += [f"lock       {each.file}  renew it: {each.command}" for each in locks]
    report.next = tuple(Step(each.file, 1, f"renew it: {each.command}") for each in locks)
    told: dict[str, Any] = {
        "pins": [_pin_row(each) for each in edited.pins],
        "unmoved": [{**_pin_row(pin), "why": why} for pin, why in edited.unmoved],
        "resolved": [
            {"group": each.group, "resolver": each.resolver, "ok": each.ok, "said": list(each.said)}
            for each in answers
        ],
        "mentions": [{"file": path, "lines": lines} for path, lines in left.items()],
        "changed": [{"package": name, "old": old, "new": new} for name, old, new in changed],
        "locks": [each._asdict() for each in locks],
    }
    report.extra = {"deps": told}
    return rows


def _pin_row(pin: Pin) -> dict[str, Any]:
    return {"file": pin.path, "line": pin.line, "spec": pin.spec, "group": pin.group}


def mentions(
    files: Files, pins: Mapping[str, Iterable[Pin]], locks: frozenset[str]
) -> dict[str, list[int]]:
    """Return the lines that name an old release, or pin the package, and were not edited.

    Args:
        files: The tree's files, edited.
        pins: The pins that moved, by package.
        locks: The files that a resolver renews, left out here.
    """
    found: dict[str, list[int]] = {}
    moved = [pin for rows in pins.values() for pin in rows]
    old = {release for pin in moved for release in _RELEASE.findall(pin.spec)}
    names = [rf"{name_pattern(name)}(?:\[[^\]\s]*\])?\s*==" for name in pins]
    names += [rf"(?<![\w.])v?{re.escape(each)}(?![A-Za-z0-9]|\.\d)" for each in sorted(old)]
    pattern = re.compile("|".join(names))
    own = re.compile("|".join(map(name_pattern, pins)))
    edited = {(pin.path, pin.line) for pin in moved}
    for path in sorted(files.paths):
        data = files.data(path) or b""
        if path in locks or b"\0" in data[:1024] or len(data) > _MOST_BYTES:
            continue
        text = data.decode("utf-8", "replace")
        if pattern.search(text):
            rows = enumerate(text.splitlines(), 1)
            lines = [
                at for at, row in rows if (path, at) not in edited and _names(pattern, row, own)
            ]
            found |= {path: lines} if lines else {}
    return found


def _names(pattern: re.Pattern[str], row: str, own: re.Pattern[str]) -> bool:
    """Return whether a line names a release otherwise than as a pin of another package."""
    for found in pattern.finditer(row):
        pinned = _PINNED.search(row[: found.start()])
        if pinned is None or own.fullmatch(pinned[1]):
            return True
    return False
