"""What a repository had before: removed and renamed paths, removed definitions, with their commits.

Only git's own objects are asked, and nothing is fetched. A clone that lacks a part of the history
is not asked at all, and whoever reports says so.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import IO, Any, NamedTuple

from scaffold.analysis.files.files import Files
from scaffold.analysis.files.git import git_command, git_environment, git_output, run_git
from scaffold.analysis.files.line_moves import Move, Spot, line_origins, moved_lines
from scaffold.analysis.lazy_re import lazy_re
from scaffold.errors import ScaffoldError

PATHS_S = 8.0
"""So long git may look for removed paths; what it has found by then counts."""

NAMES_S = 12.0
"""So long git may look for removed names."""

MAX_CHANGES = 3_000
"""So many of the newest changes are searched for names: on an idle machine some two seconds."""

MAX_NAMES = 5_000
"""So many names are asked for; a page of more is no guidance."""

_MOST_HOPS = 4
_CODE_ENDS = (
    "py|pyi|pyx|rs|go|ts|tsx|js|jsx|mjs|java|kt|scala|swift|c|h|cc|cpp|hpp|cu|cuh|rb|php|cs|sh|lua"
)
_CODE = tuple(f"*.{end}" for end in _CODE_ENDS.split("|"))
_NO_TESTS = tuple(f":(exclude,glob)**/{each}" for each in ("tests/**", "test/**", "*test*"))
_CHANGES = (
    "-m", "--first-parent", "-p", "-U0", "--no-renames", "--no-ext-diff", "--no-textconv",
    "--diff-filter=MD", "--relative", "--format=%x01%H %cs",
)  # fmt: skip
_PART = 200
"""So many changes are read by one call of git."""
_AT_ONCE = 4
_WORD = lazy_re(r"[A-Za-z_]\w{2,}", re.ASCII)


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
        text, is_whole = (self._pass or _Pass(self._files.root)).text()
        if not is_whole:
            self.notes.append(f"removed paths were looked for {PATHS_S:.0f} s long, and no longer")
        gone: dict[str, tuple[str, str]] = {}
        for head, files in _commits(text):
            for file in files:
                gone.setdefault(file, head)
        return gone

    def removed_paths(self, paths: Iterable[str]) -> dict[str, Removal]:
        """Return those of some files and folders that were there, by their path.

        Args:
            paths: Relative to the root; none of them is there now.
        """
        if self.why_not:
            return {}
        wanted = list(paths)
        known = self._known["paths"]
        fresh = {each for each in wanted if each not in known}
        if fresh:
            found = self._find_paths(fresh)
            known.update(dict.fromkeys(fresh))
            known.update((path, list(each)) for path, each in found.items())
        found = {each: Removal(*row) for each in wanted if (row := known.get(each))}
        return found | self._dropped_now([each for each in wanted if each not in found])

    def removed_files(self, names: Iterable[str]) -> dict[str, Removal]:
        """Return the last file that was removed of each name, where no file has the name now.

        Args:
            names: Names of files, or of modules without their ending, or how paths end.
        """
        if self.why_not:
            return {}
        known = self._known["bases"]
        fresh = {each for each in names if each and each not in known}
        if fresh:
            known.update(dict.fromkeys(fresh))
            ends = {f"/{each.strip('/')}/": each for each in fresh if "/" in each.strip("/")}
            paths: dict[str, str] = {}
            for path in self._gone:
                name = path.rpartition("/")[2]
                stem, _, end = name.rpartition(".")
                keys = {name, stem if f"*.{end}" in _CODE else name} & fresh
                if keys and not is_test(path):
                    paths.update((key, path) for key in keys if key not in paths)
                for inner, key in ends.items():
                    at = f"/{path}/".find(inner)
                    if at >= 0 and key not in paths:
                        paths[key] = path[: at + len(inner) - 2]
            found = self._find_paths(set(paths.values()))
            known.update((key, list(found[path])) for key, path in paths.items())
        return {each: Removal(*row) for each in names if (row := known.get(each))}

    def _dropped_now(self, paths: list[str]) -> dict[str, Removal]:
        """Return those that HEAD has: what is about to be committed takes them away.

        Not kept, as the next change of the work tree may bring them back.
        """
        chosen = [each for each in paths[:1_000] if "\0" not in each]
        if not chosen:
            return {}
        there = git_output(self._files.root, "ls-tree", "-z", "--name-only", "HEAD", "--", *chosen)
        names = set((there or b"").decode("utf-8", "replace").split("\0")) & set(chosen)
        if not names:
            return {}
        date = git_output(self._files.root, "log", "-1", "--format=%cs", "HEAD") or b""
        last = Removal(self.head, date.decode().strip(), "", is_last=True)
        return {each: last._replace(was=each) for each in names}

    def _find_paths(self, paths: Collection[str]) -> dict[str, Removal]:
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
        """Return those names whose definition a change of code took away, and no file holds now.

        The newest `MAX_CHANGES` on the first-parent way are read: a bound by time would make the
        answer depend on the machine.
        """
        if self.why_not:
            return {}
        known = self._known["names"]
        wanted = list(names)
        fresh = sorted({each for each in wanted if each and each not in known})
        if len(fresh) > MAX_NAMES:
            self.notes.append(f"the history was asked for {MAX_NAMES} of {len(fresh)} names")
        if fresh:
            found = self._search(set(fresh[:MAX_NAMES]))
            known.update(dict.fromkeys(fresh))
            known.update((name, list(each)) for name, each in found.items())
        return {each: Removal(*row) for each in wanted if (row := known.get(each))}

    def moved_lines(self, spots: Mapping[Spot, str]) -> dict[Spot, Move]:
        """Return where lines that pages name are now, where their files changed since.

        Args:
            spots: The lines, each with the text of the page's line, which may be edited.
        """
        if self.why_not:
            return {}
        known = self._known["lines"]
        keys = {spot: "\0".join(map(str, (*spot, row))) for spot, row in spots.items()}
        fresh = [spot for spot, key in keys.items() if key not in known]
        if fresh:
            found = moved_lines(fresh, self._run)
            known.update({keys[each]: list(found.get(each, ())) for each in fresh})
        return {spot: Move(*row) for spot, key in keys.items() if (row := known.get(key))}

    def days_of(self, page: str, lines: Collection[int]) -> dict[int, str]:
        """Return the day on which each line of a page was written, where it is committed."""
        found = {} if self.why_not else line_origins(page, sorted(lines), self._run)
        return {line: day for line, (commit, day) in found.items() if commit.strip("0")}

    def _search(self, names: set[str]) -> dict[str, Removal]:
        text, _ = self._run(("rev-list", "--first-parent", "HEAD"), PATHS_S)
        every = text.split()
        commits = every[:MAX_CHANGES]
        if len(commits) < len(every):
            note = f"removed names were looked for in {MAX_CHANGES} of {len(every)} changes"
            self.notes.append(note)
        # Half of all code is tests, whose names only tests have.
        tests = () if any(each.lower().startswith("test") for each in names) else _NO_TESTS
        deadline = time.monotonic() + NAMES_S

        def read(start: int) -> tuple[dict[str, Removal], bool]:
            part = commits[start : start + _PART]
            feed = "\n".join([*part, "--", *_CODE, *tests, ""]).encode()
            argv = ("log", "--no-walk=unsorted", "--stdin", *_CHANGES)
            text, is_whole = self._run(argv, max(deadline - time.monotonic(), 0.01), feed)
            return _removals(text, names), is_whole

        found: dict[str, Removal] = {}
        with ThreadPoolExecutor(min(_AT_ONCE, os.cpu_count() or 1)) as pool:
            parts = list(pool.map(read, range(0, len(commits), _PART)))
        for removals, _ in parts:
            found = {**removals, **found}
        if not all(is_whole for _, is_whole in parts):
            self.notes.append(f"removed names were looked for {NAMES_S:.0f} s long, and no longer")
        return found

    def _run(self, argv: Sequence[str], limit_s: float, feed: bytes = b"") -> tuple[str, bool]:
        """Return what git prints in so many seconds, and whether that is all of it."""
        try:
            done = run_git(self._files.root, *argv, feed=feed, timeout_s=limit_s)
            return done.stdout.decode("utf-8", "surrogateescape"), True
        except subprocess.TimeoutExpired as error:
            part: object = error.output
            text = part.decode("utf-8", "replace") if isinstance(part, bytes) else ""
            return text.rpartition("\0")[0], False
        except ScaffoldError:
            return "", False


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
        argv = ("log", "--no-renames", "--diff-filter=D", "--name-only", "-z", "--relative",
                "--format=%x01%H %cs%x02", "HEAD")  # fmt: skip
        # No pipe, as nobody reads while git writes, and no thread, as that would forbid forks.
        self._out = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `text`
        self._deadline = time.monotonic() + PATHS_S
        self._process = _started(root, argv, self._out)

    def stop(self) -> None:
        """End git, and drop what it printed."""
        self._process.kill()
        self._process.wait()
        self._out.close()

    def text(self) -> tuple[str, bool]:
        """Return what git printed, and whether that is all of it."""
        is_whole = True
        with self._out as out:
            try:
                self._process.wait(max(0.0, self._deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
                is_whole = False
            out.seek(0)
            found = out.read()
        found = found if is_whole else found.rpartition(b"\0")[0]
        return found.decode("utf-8", "surrogateescape"), is_whole


def _started(
    root: Path, argv: Sequence[str], out: IO[bytes] | int = subprocess.PIPE
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        git_command(*argv), cwd=root, env=git_environment(), stdin=subprocess.DEVNULL,
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
