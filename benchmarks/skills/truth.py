"""How much of what `scaffold skills check` finds on public repositories is so, and what it misses.

``judged/<owner>+<name>.jsonl``, and ``.read.jsonl`` beside it, have one JSON object a line: a head
with ``repository``, ``commit`` and ``half``; findings that were read by hand, with ``rule``,
``path``, ``line``, ``claim``, ``judgement`` ("right", "wrong" or "arguable") and ``evidence``; and
false claims that a reader of the pages found without the tool, with the judgement
"missed-candidate"; ``decidable`` is whether files can decide one, as two others judged who did not
know either what the tool finds. The clones are looked for in the folder that
``AREAL_GUIDANCE_CORPUS`` or ``--corpus`` names, as ``<owner>+<name>``, checked out at the commit;
what is not there is left out, and named.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.results import Result
from benchmarks.settings import Settings
from benchmarks.targets import Target
from scaffold.analysis.repository import Repository
from scaffold.findings import Finding
from scaffold.skills.check.checking import check_repository

FOLDER = Path(__file__).parent / "judged"
VARIABLE = "AREAL_GUIDANCE_CORPUS"
RIGHT = Target("measured", ">=", 97)
RECALL = Target("measured", ">=", 90)
WRONG = Target("measured", "<=", 1)
_NEAR = 1
"""A finding so many lines from a claim that a reader wrote down is of it."""


class Claim(NamedTuple):
    """A row of a judged file: a finding that was read, or a false claim that a reader found."""

    path: str
    line: int
    claim: str
    judgement: str
    rule: str = ""
    evidence: str = ""
    is_decidable: bool = True


@dataclass
class Judged:
    """What is known of one repository.

    Args:
        repository: Its name, as ``owner/name``.
        commit: The commit that was read.
        half: "tune" or "report".
        rows: What was read.
    """

    repository: str = ""
    commit: str = ""
    half: str = ""
    rows: list[Claim] = field(default_factory=list[Claim])


class Told(NamedTuple):
    """What the tool found in one repository: the findings, and how many claims hold."""

    findings: Sequence[Finding]
    num_true: int


@dataclass
class Score:
    """Counts of one rule, or of all.

    Args:
        found: Findings.
        judgements: How many of them have each judgement; "unread" where nobody judged one.
        known: False claims that were read, by the tool's findings or before them.
        hit: How many of these are found.
        decidable: False claims that were read and that files can decide.
        decided: How many of these are found.
    """

    found: int = 0
    judgements: Counter[str] = field(default_factory=Counter[str])
    known: int = 0
    hit: int = 0
    decidable: int = 0
    decided: int = 0

    def note(self) -> str:
        """Return the counts as a line."""
        counts = [f"{self.judgements[each]} {each}" for each in _ORDER if self.judgements[each]]
        recall = f"; {self.hit} of {self.known} read false claims" if self.known else ""
        return f"found {self.found}: {', '.join(counts) or 'none'}{recall}"


_ORDER = ("right", "wrong", "arguable", "unread")


def run(settings: Settings) -> list[Result]:
    """Check every clone that is there, and return the table by half and by rule."""
    judged = read_judged(FOLDER)
    place = settings.corpus or os.environ.get(VARIABLE)
    told: dict[str, Told] = {}
    missing: list[str] = []
    for name, each in sorted(judged.items()):
        root = Path(place) / name if place else None
        why = f"{VARIABLE} names no folder" if root is None else _why_not(root, each.commit)
        if why or root is None:
            missing.append(f"{name} ({why})")
        else:
            told[name] = tell(root)
    results = [row for half in ("tune", "report") for row in of_half(half, judged, told)]
    if missing:
        results.append(Result("truth.left_out", "left out", float(len(missing)), "repositories",
                              note="; ".join(missing)))  # fmt: skip
    return results


def tell(root: Path) -> Told:
    """Return what the tool finds in a clone, without what earlier checks found."""
    outcome = check_repository(Repository.at(root))
    return Told(outcome.findings, outcome.states["true"])


def _why_not(root: Path, commit: str) -> str:
    """Return why a clone is not compared, or nothing."""
    if not root.is_dir():
        return "no clone"
    argv = ["git", "-C", str(root), "rev-parse", "HEAD"]
    head = subprocess.run(argv, capture_output=True, text=True, check=False).stdout.strip()
    return "" if head == commit else f"at {head[:10] or 'no commit'} and not {commit[:10]}"


def read_judged(folder: Path) -> dict[str, Judged]:
    """Return what was read, by the name of the clone.

    Raises:
        ValueError: A row is broken; the message names the file and the line.
    """
    found: dict[str, Judged] = defaultdict(Judged)
    for path in sorted(folder.glob("*.jsonl")):
        name = path.stem.removesuffix(".read")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if line.strip():
                try:
                    _read(json.loads(line), found[name])
                except (ValueError, KeyError, TypeError) as error:
                    raise ValueError(f"{path}:{number}: {error}") from error
    return dict(found)


def _read(row: dict[str, Any], into: Judged) -> None:
    if "repository" in row and "path" not in row:
        into.repository, into.commit, into.half = row["repository"], row["commit"], row["half"]
        return
    into.rows.append(
        Claim(
            row["path"], int(row["line"]), row["claim"], row["judgement"], row.get("rule", ""),
            row.get("evidence", ""), row.get("decidable", True),
        )
    )  # fmt: skip


def of_half(half: str, judged: Mapping[str, Judged], told: Mapping[str, Told]) -> Iterator[Result]:
    """Yield the results of one half: all findings, the errors, what is missed, then each rule."""
    names = [name for name, each in judged.items() if each.half == half and name in told]
    if not names:
        return
    rules: dict[str, Score] = defaultdict(Score)
    errors = Score()
    for name in names:
        add(judged[name].rows, told[name].findings, rules, errors)
    everything = _sum(rules.values())
    num_true = sum(told[name].num_true for name in names)
    wrong = errors.judgements["wrong"]
    note = f"{len(names)} repositories; {errors.note()}"
    yield Result(f"truth.{half}.right", f"{half}: errors that are right", _share(errors), "%",
                 note=note, given_target=RIGHT)  # fmt: skip
    yield Result(f"truth.{half}.wrong", f"{half}: wrong errors in 2,000 true claims",
                 2000 * wrong / max(num_true, 1), "", is_higher_better=False,
                 note=f"{wrong} in {num_true}", given_target=WRONG)  # fmt: skip
    recall = 100 * everything.hit / everything.known if everything.known else None
    yield Result(f"truth.{half}.recall", f"{half}: read false claims that are found", recall, "%",
                 note=everything.note(), given_target=RECALL)  # fmt: skip
    share = 100 * everything.decided / everything.decidable if everything.decidable else None
    yield Result(f"truth.{half}.decidable", f"{half}: those that files can decide", share, "%",
                 note=f"{everything.decided} of {everything.decidable}",
                 given_target=RECALL)  # fmt: skip
    for rule, score in sorted(rules.items()):
        yield Result(f"truth.{half}.{rule}", f"{half}: {rule}", _share(score), "%",
                     note=score.note())  # fmt: skip


def add(
    rows: Sequence[Claim], findings: Sequence[Finding], rules: dict[str, Score], errors: Score
) -> None:
    """Add the findings of one repository to the scores of their rules, and to that of all errors.

    Args:
        rows: What was read.
        findings: What the tool found.
        rules: The scores, changed here.
        errors: That of the errors, changed here.
    """
    read = Counter((each.rule, each.path, each.claim, each.judgement) for each in rows)
    for finding in findings:
        judgement = next(
            (each for each in _ORDER if read[finding.rule, finding.path, finding.claim, each]),
            "unread",
        )
        for score in (rules[finding.rule], *([errors] if finding.severity == "error" else [])):
            score.found += 1
            score.judgements[judgement] += 1
    places = {(each.path, each.line) for each in findings}
    claims = {(each.rule, each.path, each.claim) for each in findings}
    for each in rows:
        is_read = each.judgement.startswith("missed")
        if not is_read and each.judgement != "right":
            continue
        rule = rules[each.rule or "(read)"]
        rule.known += 1
        near = range(each.line - _NEAR, each.line + _NEAR + 1)
        is_told = (each.rule, each.path, each.claim) in claims
        is_hit = is_told or (is_read and any((each.path, line) in places for line in near))
        rule.hit += is_hit
        # What is found was decided, whatever the two thought.
        rule.decidable += each.is_decidable or is_hit
        rule.decided += is_hit


def _sum(scores: Iterable[Score]) -> Score:
    whole = Score()
    for each in scores:
        whole.found += each.found
        whole.judgements += each.judgements
        whole.known += each.known
        whole.hit += each.hit
        whole.decidable += each.decidable
        whole.decided += each.decided
    return whole


def _share(score: Score) -> float | None:
    """Return how many percent of what was judged right or wrong are right."""
    right, wrong = score.judgements["right"], score.judgements["wrong"]
    return 100 * right / (right + wrong) if right + wrong else None
