"""What a repository had before: removed and renamed paths, removed definitions, with their commits.

Only git's own objects are asked, and nothing is fetched. A clone that lacks a part of the history
is not asked at all, and whoever reports mentions it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar

from scaffold.analysis.files.files import Files
from scaffold.analysis.files.git import git_command, git_environment, git_output, run_git
from scaffold.analysis.files.line_moves import Move, Spot, line_origins, moved_lines
from scaffold.analysis.lazy_re import lazy_re

MAX_COMMITS = 100_000
"""So many of the newest commits are searched for paths: on an idle machine some three seconds."""

MAX_CHANGES = 3_000
"""So many of the newest changes are searched for names: on an idle machine some two seconds."""

_MOST_HOPS = 4
_CODE_ENDS = (
    "py|pyi|pyx|rs|go|ts|tsx|js|jsx|mjs|java|kt|scala|swift|c|h|cc|cpp|hpp|cu|cuh|rb|php|cs|sh|lua"
)
_CODE = tuple(f"*.{end}" for end in _CODE_ENDS.split("|"))
_NO_TESTS = tuple(f":(exclude,glob)**/{each}" for each in ("tests/**", "test/**", "*test*"))
_REMOVED = (
    "log", "--no-walk=unsorted", "--stdin", "--no-renames", "--diff-filter=D", "--name-only", "-z",
    "--relative", "--format=%x01%H %cs%x02",
)  # fmt: skip
_CHANGES = (
    "-m", "--first-parent", "-p", "-U0", "--no-renames", "--no-ext-diff", "--no-textconv",
    "--diff-filter=MD", "--relative", "--format=%x01%H %cs",
)  # fmt: skip
_PART = 200
"""So many changes are read by one call of git."""
_AT_ONCE = 4
_WORD = lazy_re(r"[A-Za-z_]\w{2,}", re.ASCII)
_Question = TypeVar("_Question")


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
        self._pass: _Pass | None = None
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
        empty: dict[str, dict[str, Any]] = {"paths": {}, "bases": {}, "names": {}, "lines": {}}
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

    def begin(self) -> None:
        """Start to list what was removed, so that it is there by the time that it is asked for."""
        if self._pass is None and not self._known["paths"] and not self.why_not:
            self._pass = _Pass(self._files.root)

    def end(self) -> None:
        """Stop what was begun and that nobody asked for."""
        if self._pass is not None:
            self._pass.stop()

    @cached_property
    def _gone(self) -> dict[str, tuple[str, str]]:
        """Every path that was removed once: the last commit that did, and its day."""
        self.begin()
        text = (self._pass or _Pass(self._files.root)).text()
        if self._run(("rev-list", f"--skip={MAX_COMMITS}", "--max-count=1", "HEAD")):
            self.notes.append(f"removed paths were looked for in the newest {MAX_COMMITS} commits")
        gone: dict[str, tuple[str, str]] = {}
        for head, files in _commits(text):
            for file in files:
                gone.setdefault(file, head)
        return gone

    def _answers(
        self,
        kind: str,
        asked: Mapping[str, _Question],
        find: Callable[[dict[str, _Question]], Mapping[str, Sequence[Any] | None]],
    ) -> dict[str, Sequence[Any]]:
        """Return what there is to say to each question: what is kept, and what is found now.

        Args:
            kind: Where the answers are kept.
            asked: The questions by their keys.
            find: Finds the answers to those that are new.
        """
        if self.why_not:
            return {}
        known = self._known[kind]
        if fresh := {key: each for key, each in asked.items() if key and key not in known}:
            known.update({**dict.fromkeys(fresh), **find(fresh)})
        return {key: row for key in asked if (row := known.get(key))}

    def removed_paths(self, paths: Iterable[str]) -> dict[str, Removal]:
        """Return those of some files and folders that were there, by their path.

        Args:
            paths: Relative to the root; none of them is there now.
        """
        asked = dict.fromkeys(paths)
        found = {
            key: Removal(*row) for key, row in self._answers("paths", asked, self._find).items()
        }
        return found | self._dropped_now([each for each in asked if each not in found])

    def removed_files(self, names: Iterable[str]) -> dict[str, Removal]:
        """Return the last file that was removed of each name, where no file has the name now.

        Args:
            names: Names of files, or of modules without their ending, or how paths end.
        """
        rows = self._answers("bases", dict.fromkeys(names), self._find_files)
        return {key: Removal(*row) for key, row in rows.items()}

    def _find_files(self, names: Collection[str]) -> dict[str, Removal]:
        ends = {f"/{each.strip('/')}/": each for each in names if "/" in each.strip("/")}
        paths: dict[str, str] = {}
        for path in self._gone:
            name = path.rpartition("/")[2]
            stem, _, end = name.rpartition(".")
            for key in {name, stem if f"*.{end}" in _CODE else name}.intersection(names):
                if not is_test(path):
                    paths.setdefault(key, path)
            for inner, key in ends.items():
                at = f"/{path}/".find(inner)
                if at >= 0:
                    paths.setdefault(key, path[: at + len(inner) - 2])
        found = self._find(set(paths.values()))
        return {key: found[path] for key, path in paths.items()}

    def _dropped_now(self, paths: list[str]) -> dict[str, Removal]:
        """Return those that HEAD has: what is about to be committed takes them away.

        Not kept, as the next change of the work tree may bring them back.
        """
        chosen = [each for each in paths[:1_000] if "\0" not in each]
        if not chosen or self.why_not:
            return {}
        there = git_output(self._files.root, "ls-tree", "-z", "--name-only", "HEAD", "--", *chosen)
        names = set((there or b"").decode("utf-8", "replace").split("\0")) & set(chosen)
        if not names:
            return {}
        date = git_output(self._files.root, "log", "-1", "--format=%cs", "HEAD") or b""
        last = Removal(self.head, date.decode().strip(), "", is_last=True)
        return {each: last._replace(was=each) for each in names}

    def _find(self, paths: Collection[str]) -> dict[str, Removal]:
        folders = {each for each in paths if each not in self._gone}
        first: dict[str, tuple[str, str]] = {}
        for file, head in self._gone.items() if folders else ():
            parts = file.split("/")
            for count in range(1, len(parts)):
                if (folder := "/".join(parts[:count])) in folders:
                    first.setdefault(folder, head)
        found = {
            path: Removal(*head, path)
            for path in paths
            if (head := self._gone.get(path) or first.get(path))
        }
        renames = self._renames({each.commit for each in found.values()})
        return {
            path: each._replace(successor=self._successor(path, renames.get(each.commit, {})))
            for path, each in found.items()
        }

    def _renames(self, commits: Iterable[str]) -> dict[str, dict[str, str]]:
        """Return what each commit renamed, as old and new paths."""
        chosen = sorted(commits)[:60]
        if not chosen:
            return {}
        argv = (
            "show", "-M", "-l2000", "--diff-filter=R", "--name-status", "-z",
            "--format=%x01%H %cs%x02", *chosen,
        )  # fmt: skip
        found: dict[str, dict[str, str]] = {}
        for (commit, _), rows in _commits(self._run(argv)):
            pairs = zip(rows[0::3], rows[1::3], rows[2::3], strict=False)
            found[commit] = {old: new for _, old, new in pairs}
        return found

    def _successor(self, path: str, renames: dict[str, str]) -> str:
        """Return what a path is called now, where its removal was a renaming."""
        target = renames.get(path, "")
        if not target:
            lead = f"{path}/"
            heads = {
                new.removesuffix(inner).rstrip("/") if new.endswith(inner) else ""
                for old, new in renames.items()
                if (inner := old.removeprefix(lead)) != old
            }
            # A folder whose files went to several others is at none of them.
            target = heads.pop() if len(heads) == 1 else ""
        for _ in range(_MOST_HOPS):
            if not target or self._files.has(target):
                return target
            argv = ("log", "-1", "--no-renames", "--diff-filter=D", "--format=%H", "HEAD", "--")
            found = self._run((*argv, target)).strip()
            target = self._renames([found]).get(found, {}).get(target, "") if found else ""
        return ""

    def removed_names(self, names: Iterable[str]) -> dict[str, Removal]:
        """Return those names whose definition a change of code took away, and no file holds now.

        The newest `MAX_CHANGES` on the first-parent way are read: a bound by time would make the
        answer depend on the machine.
        """
        rows = self._answers("names", dict.fromkeys(names), self._search)
        return {key: Removal(*row) for key, row in rows.items()}

    def moved_lines(self, spots: Mapping[Spot, str]) -> dict[Spot, Move]:
        """Return where lines that pages name are now, where their files changed since.

        Args:
            spots: The lines, each with the text of the page's line, which may be edited.
        """
        asked = {"\0".join(map(str, (*spot, row))): spot for spot, row in spots.items()}

        def find(fresh: dict[str, Spot]) -> dict[str, Move | None]:
            found = moved_lines(fresh.values(), self._run)
            return {key: found.get(spot) for key, spot in fresh.items()}

        return {asked[key]: Move(*row) for key, row in self._answers("lines", asked, find).items()}

    def days_of(self, page: str, lines: Collection[int]) -> dict[int, str]:
        """Return the day on which each line of a page was written, where it is committed."""
        found = {} if self.why_not else line_origins(page, sorted(lines), self._run)
        return {line: day for line, (commit, day) in found.items() if commit.strip("0")}

    def _search(self, names: Collection[str]) -> dict[str, Removal]:
        every = self._run(("rev-list", "--first-parent", "HEAD")).split()
        commits = every[:MAX_CHANGES]
        if len(commits) < len(every):
            note = f"removed names were looked for in {MAX_CHANGES} of {len(every)} changes"
            self.notes.append(note)
        # Half of all code is tests, whose names only tests have.
        tests = () if any(each.lower().startswith("test") for each in names) else _NO_TESTS

        def read(start: int) -> dict[str, Removal]:
            part = commits[start : start + _PART]
            feed = "\n".join([*part, "--", *_CODE, *tests, ""]).encode()
            argv = ("log", "--no-walk=unsorted", "--stdin", *_CHANGES)
            return _removals(self._run(argv, feed), names)

        found: dict[str, Removal] = {}
        with ThreadPoolExecutor(min(_AT_ONCE, os.cpu_count() or 1)) as pool:
            for removals in pool.map(read, range(0, len(commits), _PART)):
                found = {**removals, **found}
        return found

    def _run(self, argv: Sequence[str], feed: bytes = b"") -> str:
        """Return what git prints."""
        done = run_git(self._files.root, *argv, feed=feed)
        return done.stdout.decode("utf-8", "surrogateescape")


def is_code(path: str) -> bool:
    """Return whether a file is of a language that programs are written in."""
    return path.rpartition(".")[2] in _CODE_ENDS.split("|")


def is_test(path: str) -> bool:
    """Return whether a path is of tests or examples, where anything may be called anything."""
    return _TEST.search(path) is not None


class _Pass:
    """One pass over the whole history for the paths that were removed, in a process beside ours.

    To give git the paths costs it more: it compares every tree of every commit with each of them.
    """

    def __init__(self, root: Path) -> None:
        # No pipe, as nobody reads while git writes, and no thread, as that would forbid forks.
        self._out = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `text`
        argv = ("rev-list", f"--max-count={MAX_COMMITS}", "HEAD")
        commits = _started(root, argv, subprocess.DEVNULL, subprocess.PIPE)
        self._processes = [commits, _started(root, _REMOVED, commits.stdout, self._out)]
        if commits.stdout is not None:
            commits.stdout.close()  # it is for the other process alone

    def stop(self) -> None:
        """End git, and drop what it printed."""
        for each in self._processes:
            each.kill()
            each.wait()
        self._out.close()

    def text(self) -> str:
        """Return what git printed."""
        for each in self._processes:
            each.wait()
        with self._out as out:
            out.seek(0)
            return out.read().decode("utf-8", "surrogateescape")


def _started(
    root: Path, argv: Sequence[str], given: IO[bytes] | int | None, out: IO[bytes] | int
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        git_command(*argv), cwd=root, env=git_environment(), stdin=given,
        stdout=out, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def _removals(text: str, names: Collection[str]) -> dict[str, Removal]:
    """Return the newest removal of each name in what git prints of changes, the newest first."""
    wanted = set(names)
    found: dict[str, Removal] = {}
    commit = date = path = ""
    for row in text.split("\n"):
        if row[:1] == "-" and row[:4] != "--- ":
            for word in wanted.intersection(_WORD.findall(row)):
                if defines(word, row[1:]):
                    wanted.discard(word)
                    found[word] = Removal(commit, date, path)
        elif row[:4] == "--- ":
            path = row[6:].strip()
        elif row[:1] == "\x01":
            commit, _, date = row[1:].partition(" ")
    return found


def defines(name: str, row: str) -> bool:
    """Return whether a line of code defines a name and does not only use it."""
    word = re.escape(name)
    return (
        re.search(
            rf"\b(?:def|class|fn|func|function|struct|enum|trait|interface|type|const|let|var"
            rf"|macro_rules!|#define)\s+(?:\([^()]*\)\s*)?{word}\b"
            rf"|^(?:export\s+)?{word}\s*(?::[^=]+)?=(?!=)"
            rf"|^\s*(?:\w+\.)+{word}\s*(?::[^=]+)?=(?!=)"
            rf"|^\s+{word}\s*:(?!:)[^=:]*[^=,:\s]\s*$|^\s+{word}\s*:[^=:]+=(?!=).*[^,\s]\s*$"
            rf"|^\s*pub\s+{word}\s*:"
            rf"|\b(?:environ(?:\.get)?|getenv|env::var)\s*[(\[]\s*[\"']{word}[\"']"
            rf"|^[\w>&*:<> ]+[\s*&]{word}\s*\([^;]*\)\s*\{{",
            row,
        )
        is not None
    )


def _commits(text: str) -> Iterator[tuple[tuple[str, str], list[str]]]:
    """Yield the commit and date of each part of a log, with the rows behind it."""
    for part in text.split("\x01")[1:]:
        head, _, rows = part.partition("\x02")
        commit, _, date = head.partition(" ")
        names = (each.strip("\n") for each in rows.split("\0"))
        yield (commit, date), [each for each in names if each]
