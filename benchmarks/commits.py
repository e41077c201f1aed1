"""How often `scaffold commit-msg` infers the type and the scope that the author chose.

Each commit of a history is inferred from those before it alone, the newest 400 of them, as the
command would have done on that day. Beside it stands what always naming the most frequent type or
scope so far gives.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.results import Result
from benchmarks.settings import Settings
from scaffold.vcs.commit.history import DEPTH, Header, Past, past_commits
from scaffold.vcs.commit.inference import ENOUGH, SubjectHabits, infer_scope, infer_type
from scaffold.vcs.commit.key_changes import KeyChanges, depth_of
from scaffold.vcs.commit.settings import CommitSettings
from scaffold.vcs.repository import is_empty, open_repository

ROOT = Path(__file__).parents[1]
NO_SCOPE = "(none)"


@dataclass
class Tally:
    """Counts how often a word was the author's.

    Args:
        hits: Of what was inferred.
        usual: Of the most frequent word so far.
        by_word: For each word of authors, how often it was inferred, and how often it was there.
    """

    hits: int = 0
    usual: int = 0
    by_word: dict[str, list[int]] = field(default_factory=dict[str, list[int]])

    def count(self, inferred: str, usual: str, chosen: str) -> None:
        """Take in one commit."""
        self.hits += inferred == chosen
        self.usual += usual == chosen
        row = self.by_word.setdefault(chosen, [0, 0])
        row[0] += inferred == chosen
        row[1] += 1

    @property
    def total(self) -> int:
        """How many commits were taken in."""
        return sum(total for _, total in self.by_word.values())


def run(settings: Settings) -> list[Result]:
    """Infer each commit of a repository; without --repo, of this one."""
    repository = open_repository(settings.repo or ROOT)
    try:
        if is_empty(repository):
            return [_unmeasured("the repository has no commit")]
        newest = list(past_commits(repository, settings.commits))
        commits = newest[::-1]
        if sum(each.header is not None for each in commits) <= ENOUGH:
            return [_unmeasured("too few subjects are Conventional Commits")]
        tallies = {"type": Tally(), "scope": Tally(), "both": Tally()}
        habits, window = SubjectHabits(), deque[Past]()
        for each in commits:
            if each.header is not None and habits.types.count >= ENOUGH:
                # Settings of today were not those of that day, so none are used.
                key = KeyChanges(depth=depth_of(repository, each.changes))
                type_ = infer_type(each.changes, key, habits, CommitSettings()).word
                scope = infer_scope(each.changes, habits, CommitSettings()).word
                _count(tallies, window, each.header, type_ or "", scope or NO_SCOPE)
            habits.learn(each)
            window.append(each)
            if len(window) > DEPTH:
                habits.learn(window.popleft(), -1)
    finally:
        repository.close()
    return _results(tallies)


def _count(
    tallies: dict[str, Tally], window: deque[Past], chosen: Header, type_: str, scope: str
) -> None:
    headers = [each.header for each in window if each.header is not None]
    usual_type = Counter(header.type for header in headers).most_common(1)[0][0]
    usual_scope = Counter(header.scope or NO_SCOPE for header in headers).most_common(1)[0][0]
    true_scope = chosen.scope or NO_SCOPE
    tallies["type"].count(type_, usual_type, chosen.type)
    tallies["scope"].count(scope, usual_scope, true_scope)
    pairs = [f"{type_}({scope})", f"{usual_type}({usual_scope})", f"{chosen.type}({true_scope})"]
    tallies["both"].count(*pairs)


def _results(tallies: dict[str, Tally]) -> list[Result]:
    found: list[Result] = []
    for name, tally in tallies.items():
        total = tally.total
        found.append(
            Result(
                f"commits.{name}",
                f"share of {total} commits whose {name} is inferred as the author's",
                tally.hits / total,
                "",
                tally.usual / total,
                "always the most frequent so far",
                note=_by_word(tally) if name != "both" else "",
            )
        )
    return found


def _by_word(tally: Tally) -> str:
    rows = sorted(tally.by_word.items(), key=lambda row: -row[1][1])
    shown = [f"{word} {hits}/{total}" for word, (hits, total) in rows[:12]]
    rest = sum(total for _, (_, total) in rows[12:])
    return ", ".join(shown) + (f", {rest} of {len(rows) - 12} rarer ones" if rest else "")


def _unmeasured(why: str) -> Result:
    what = "share of commits whose type is inferred as the author's"
    return Result("commits.type", what, None, "", note=why)
