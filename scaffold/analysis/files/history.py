"""What a repository had before: removed and renamed paths, removed definitions, with their commits.

Only git's own objects are asked, and nothing is fetched. A clone that lacks a part of the history
is not asked at all, and whoever reports says so.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from scaffold.analysis.files.files import Files
from scaffold.analysis.files.git import git_output, run_git
from scaffold.analysis.lazy_re import lazy_re
from scaffold.errors import ScaffoldError

PATHS_S = 8.0
"""So long git may look for removed paths; what it has found by then counts."""

NAMES_S = 2.0
"""So long earlier trees are searched for names."""

MAX_PATHS = 5_000
MAX_NAMES = 1_000
"""So many are asked of git at once: a command line has no room for more."""

_MOST_TREES = 24
_AT_ONCE = 4
_MOST_HOPS = 4
_CODE = tuple(
    f"*.{end}"
    for end in [
        "py",
        "pyi",
        "pyx",
        "rs",
        "go",
        "ts",
        "tsx",
        "js",
        "jsx",
        "mjs",
        "java",
        "kt",
        "scala",
        "swift",
        "c",
        "h",
        "cc",
        "cpp",
        "hpp",
        "cu",
        "cuh",
        "rb",
        "php",
        "cs",
        "sh",
        "lua",
        "ex",
        "exs",
    ]
)


_TEST = lazy_re(r"(?:^|[/_.-])(?:tests?|testing|examples?|docs?|benchmarks?|fakes?)(?=[/_.-])")


class Removal(NamedTuple):
    """What became of something that was there once.

    Args:
        commit: The commit that took it away, in full; or the last one known to have it.
        date: Its day, as ``2025-01-31``.
        was: Where it was: the path itself, or the file that a name was in.
        successor: What a path was renamed to and is called now, or empty.
        is_last: Whether the commit is one that still has it.
    """

    commit: str
    date: str
    was: str
    successor: str = ""
    is_last: bool = False

    @property
    def evidence(self) -> str:
        """The removal as part of a sentence."""
        if self.is_last:
            return f"commit {self.commit[:10]} of {self.date} had it in {self.was}"
        to = f", renamed to {self.successor}" if self.successor else ""
        return f"commit {self.commit[:10]} of {self.date} removed it from {self.was}{to}"


class History:
    """The history of a repository up to HEAD.

    Args:
        files: Its files now.
        place: The file that answers are kept in, or None.
    """

    def __init__(self, files: Files, place: Path | None = None) -> None:
        self._files = files
        self._place = place
        self._deadline = 0.0
        self.notes: list[str] = []
        """What was not asked, and why, in sentences."""

    @cached_property
    def head(self) -> str:
        """The commit that is checked out; empty where there is none."""
        if not self._files.has_git:
            return ""
        found = git_output(self._files.root, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        return (found or b"").decode().strip()

    @cached_property
    def why_not(self) -> str:
        """Why the history is not asked, as a sentence, or empty."""
        root = self._files.root
        if not self._files.has_git:
            return "there is no git repository, so the history was not asked"
        if not self.head:
            return "the repository has no commit, so the history was not asked"
        if (git_output(root, "rev-parse", "--is-shallow-repository") or b"").strip() == b"true":
            return "the clone is shallow, so the history was not asked"
        partial = ("config", "--get-regexp", r"^remote\..*\.(promisor|partialclonefilter)$")
        if git_output(root, *partial):
            return "the clone is partial, so the history was not asked"
        return ""

    @cached_property
    def _known(self) -> dict[str, dict[str, Any]]:
        empty: dict[str, dict[str, Any]] = {"paths": {}, "names": {}, "trees": {}}
        try:
            assert self._place is not None, "without a place nothing is kept"
            content: Any = json.loads(self._place.read_text(encoding="utf-8"))
            is_same = content["head"] == self.head
            return {key: dict(content[key]) for key in empty} if is_same else empty
        except (AssertionError, OSError, ValueError, KeyError, TypeError):
            return empty

    def keep(self) -> None:
        """Keep the answers for the next time; a disk that takes nothing is no fault."""
        if self._place is None or self.why_not or not any(self._known.values()):
            return
        content = {"head": self.head, **self._known}
        beside = self._place.with_name(f"{self._place.name}.{os.getpid()}")
        with suppress(OSError):
            self._place.parent.mkdir(parents=True, exist_ok=True)
            beside.write_text(json.dumps(content), encoding="utf-8")
            beside.replace(self._place)

    def removed_paths(self, paths: Iterable[str]) -> dict[str, Removal]:
        """Return those of some files and folders that were there, by their path.

        Args:
            paths: Relative to the root; none of them is there now.
        """
        if self.why_not:
            return {}
        known = self._known["paths"]
        fresh = sorted({each for each in paths if each not in known and "\0" not in each})
        fresh = self._bounded(fresh, MAX_PATHS, "paths")
        if fresh:
            found, is_whole = self._find_paths(fresh)
            rows = {path: list(each) for path, each in found.items()}
            if is_whole:
                known.update(dict.fromkeys(fresh))
            known.update(rows)
        wanted = list(paths)
        found = {each: Removal(*row) for each in wanted if (row := known.get(each))}
        return found | self._dropped_now([each for each in wanted if each not in found])

    def _dropped_now(self, paths: list[str]) -> dict[str, Removal]:
        """Return those that HEAD has: what is about to be committed takes them away.

        Not kept, as the next change of the work tree may bring them back.
        """
        chosen = [each for each in paths[:MAX_PATHS] if "\0" not in each]
        if not chosen:
            return {}
        there = git_output(self._files.root, "ls-tree", "-z", "--name-only", "HEAD", "--", *chosen)
        names = set((there or b"").decode("utf-8", "replace").split("\0")) & set(chosen)
        if not names:
            return {}
        date = git_output(self._files.root, "log", "-1", "--format=%cs", "HEAD") or b""
        last = Removal(self.head, date.decode().strip(), "", is_last=True)
        return {each: last._replace(was=each) for each in names}

    def _bounded(self, words: list[str], most: int, what: str) -> list[str]:
        if len(words) > most:
            self.notes.append(f"the history was asked for {most} of {len(words)} {what}")
        return words[:most]

    def _find_paths(self, paths: Sequence[str]) -> tuple[dict[str, Removal], bool]:
        argv = (
            "--literal-pathspecs", "log", "--no-renames", "--diff-filter=D", "--name-only", "-z",
            "--format=%x01%H %cs%x02", "HEAD", "--", *paths,
        )  # fmt: skip
        text, is_whole = self._run(argv, PATHS_S)
        if not is_whole:
            self.notes.append(f"removed paths were looked for {PATHS_S:.0f} s long, and no longer")
        gone: dict[str, tuple[str, str]] = {}
        for head, files in _commits(text):
            for file in files:
                gone.setdefault(file, head)
        found: dict[str, Removal] = {}
        for path in paths:
            below = [file for file in gone if file == path or file.startswith(f"{path}/")]
            if below:
                commit, date = gone[below[0]]
                found[path] = Removal(commit, date, path)
        renames = self._renames({each.commit for each in found.values()})
        return {
            path: each._replace(successor=self._successor(path, renames.get(each.commit, {})))
            for path, each in found.items()
        }, is_whole

    def _renames(self, commits: Iterable[str]) -> dict[str, dict[str, str]]:
        """Return what each commit renamed, as old and new paths."""
        chosen = sorted(commits)[:60]
        if not chosen:
            return {}
        argv = (
            "show", "-M", "-l2000", "--diff-filter=R", "--name-status", "-z",
            "--format=%x01%H %cs%x02", *chosen,
        )  # fmt: skip
        text, _ = self._run(argv, PATHS_S)
        found: dict[str, dict[str, str]] = {}
        for (commit, _), rows in _commits(text):
            pairs = zip(rows[0::3], rows[1::3], rows[2::3], strict=False)
            found[commit] = {old: new for _, old, new in pairs}
        return found

    def _successor(self, path: str, renames: dict[str, str]) -> str:
        """Return what a path is called now, where its removal was a renaming."""
        target = renames.get(path, "")
        if not target:
            lead = f"{path}/"
            heads = [
                new.removesuffix(old.removeprefix(lead)).rstrip("/")
                for old, new in renames.items()
                if old.startswith(lead) and new.endswith(old.removeprefix(lead))
            ]
            target = max(set(heads), key=heads.count) if heads else ""
        for _ in range(_MOST_HOPS):
            if not target or self._files.has(target):
                return target
            found, _ = self._find_once(target)
            if found is None:
                return ""
            target = self._renames([found]).get(found, {}).get(target, "")
        return ""

    def _find_once(self, path: str) -> tuple[str | None, bool]:
        argv = ("log", "-1", "--no-renames", "--diff-filter=D", "--format=%H", "HEAD", "--", path)
        text, is_whole = self._run(argv, PATHS_S)
        return text.strip() or None, is_whole

    def removed_names(self, names: Iterable[str]) -> dict[str, Removal]:
        """Return those names that code of an earlier tree defined and no file holds now.

        Trees are taken evenly from the first-parent history, for `NAMES_S` seconds.
        """
        if self.why_not:
            return {}
        known = self._known["names"]
        fresh = sorted({each for each in names if each not in known})
        fresh = self._bounded(fresh, MAX_NAMES, "names")
        if fresh:
            homes, is_whole = self._homes(fresh)
            # What was not looked for everywhere is looked for again the next time.
            known.update(dict.fromkeys(fresh) if is_whole else {})
            known.update((name, list(self._removal(name, *home))) for name, home in homes.items())
        return {each: Removal(*row) for each in names if (row := known.get(each))}

    def _homes(self, names: Sequence[str]) -> tuple[dict[str, tuple[str, str]], bool]:
        """Return the file and the tree that defined each name, and whether all were looked at."""
        found: dict[str, tuple[str, str]] = {}
        begin = time.monotonic()
        self._deadline = begin + 2 * NAMES_S
        trees = self._trees()
        is_whole = True

        searched = self._known["trees"]

        def search(tree: str) -> tuple[str, str, bool]:
            if set(names) <= set(searched.get(tree, ())):
                return tree, "", True
            left = NAMES_S - (time.monotonic() - begin)
            if left <= 0:
                return tree, "", False
            return tree, *self._run((*_grep(names, []), tree, "--", *_CODE), max(left, 0.2))

        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for number, (tree, text, is_read) in enumerate(pool.map(search, trees)):
                if not is_read and is_whole:
                    is_whole = False
                    share = f"{number} of {len(trees)} earlier trees"
                    self.notes.append(f"removed names were looked for in {share}")
                elif is_read:
                    # An earlier search ended here: the next one goes on behind it.
                    searched[tree] = sorted({*searched.get(tree, ()), *names})
                places: dict[str, list[str]] = {}
                for path, word in _hits(text):
                    if word not in found:
                        places.setdefault(word, []).append(path.partition(":")[2])
                for word, paths in places.items():
                    if home := self._defining(word, paths, tree):
                        found[word] = home, tree
        return found, is_whole

    def _defining(self, name: str, paths: Sequence[str], tree: str) -> str:
        """Return the file that defines a name and does not only use it, or nothing."""
        word = re.escape(name)
        define = re.compile(
            rf"\b(?:def|class|fn|func|function|struct|enum|trait|interface|macro_rules!|#define)"
            rf"\s+{word}\b|^{word}\s*(?::[^=\n]+)?=(?!=)|^(?:export\s+)?(?:const|let|type)\s+{word}\b"
            rf"|^[\w>&*:<> ]+[\s*&]{word}\s*\([^;]*\)\s*\{{",
            re.MULTILINE,
        )
        for path in sorted(set(paths), key=lambda each: (is_test(each), each.count("/")))[:6]:
            text, _ = self._run(("show", f"{tree}:{path}"), 2.0)
            if define.search(text):
                return path
        return ""

    def _trees(self) -> list[str]:
        text, _ = self._run(("log", "--first-parent", "--format=%H", "-n", "100000", "HEAD"), 2.0)
        commits = text.split()
        if len(commits) >= 100_000:
            self.notes.append("only the last 100000 commits were looked at for names")
        size = min(_MOST_TREES, len(commits) - 1)
        if size < 1:
            return []
        # The middle first, then the quarters: a name that lived long is met soon.
        steps = sorted(range(1, size + 1), key=lambda each: (_halvings(each), each))
        return [commits[each * (len(commits) - 1) // size] for each in steps]

    def _removal(self, name: str, path: str, tree: str) -> Removal:
        left = self._deadline - time.monotonic()
        argv = ("log", "-1", f"-S{name}", "--no-renames", "--format=%H %cs", "HEAD", "--", path)
        text = self._run(argv, min(left, 1.0))[0] if left > 0 else ""
        commit, _, date = text.strip().partition(" ")
        if commit and name not in self._run(("show", f"{commit}:{path}"), 2.0)[0]:
            return Removal(commit, date, path)
        # A merge took it away, or the file with it.
        text, _ = self._run(("log", "-1", "--format=%H %cs", tree), 2.0)
        commit, _, date = text.strip().partition(" ")
        return Removal(commit, date, path, is_last=True)

    def _run(self, argv: Sequence[str], limit_s: float) -> tuple[str, bool]:
        """Return what git prints in so many seconds, and whether that is all of it."""
        try:
            done = run_git(self._files.root, *argv, timeout_s=limit_s)
            return done.stdout.decode("utf-8", "surrogateescape"), True
        except subprocess.TimeoutExpired as error:
            part: object = error.output
            text = part.decode("utf-8", "replace") if isinstance(part, bytes) else ""
            return text.rpartition("\0")[0], False
        except ScaffoldError:
            return "", False


def is_test(path: str) -> bool:
    """Return whether a path is of tests or examples, where anything may be called anything."""
    return _TEST.search(path) is not None


def _halvings(number: int) -> int:
    """Return how often a range is halved until this place of it is a middle."""
    return -(number & -number)


def _grep(words: Sequence[str], options: Sequence[str]) -> tuple[str, ...]:
    given = (part for each in words for part in ("-e", each))
    return ("grep", "-I", "-w", "-o", "-F", "-z", "--full-name", *options, *given)


def _hits(text: str) -> Iterator[tuple[str, str]]:
    """Yield the file and the word of each row of ``git grep -z -o``."""
    for row in text.split("\n"):
        path, sign, word = row.rpartition("\0")
        if sign:
            yield path, word


def _commits(text: str) -> Iterator[tuple[tuple[str, str], list[str]]]:
    """Yield the commit and date of each part of a log, with the rows behind it."""
    for part in text.split("\x01")[1:]:
        head, _, rows = part.partition("\x02")
        commit, _, date = head.partition(" ")
        names = (each.strip("\n") for each in rows.split("\0"))
        yield (commit, date), [each for each in names if each]
