"""Who uses a definition of Python, resolved through imports."""

from __future__ import annotations

import ast
import builtins
import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from scaffold.analysis.files.files import Files
from scaffold.analysis.python.index import PythonIndex
from scaffold.analysis.python.lookup_result import Found
from scaffold.analysis.python.sources import Sources
from scaffold.vcs.definitions import Symbol, SymbolChange, read_symbols, symbol_at
from scaffold.vcs.review.name_uses import Guards, Mention, SourceView

_CONSTRUCTORS = ("__init__", "__new__")

Key = tuple[str, str]
"""A definition: its file and its dotted name there."""

How = Literal["call", "name", "import", "likely"]

COMMON = 300
"""A name that is in more files is read only where its class or module is named too."""
MOST_FILES = 1200
# For bytes.translate: letters, digits, `_` and what is beyond ASCII stay, all else becomes a blank.
_TABLE = bytes(
    each if chr(each).isalnum() or each == ord("_") or each > 127 else ord(" ")
    for each in range(256)
)
_TYPES = (str, bytes, list, dict, set, tuple, int, object, type, builtins)
_COMMON_NAMES = frozenset(name for each in _TYPES for name in dir(each)) | {
    "run", "read", "write", "close", "open", "start", "main", "name",
}  # fmt: skip
"""Attributes that things of anybody's making have."""


class Watched(NamedTuple):
    """One definition whose users are sought.

    Args:
        path: Its file; of one that is gone, the file that lacks it now.
        old_path: The file that it stood in before; None for a new one.
        calls_only: Whether calls alone count: of a class whose constructor changed.
    """

    path: str
    name: str
    old_path: str | None = None
    is_gone: bool = False
    calls_only: bool = False

    @property
    def key(self) -> Key:
        return self.path, self.name

    @property
    def word(self) -> str:
        """What other code writes to use it."""
        return self.name.rpartition(".")[2]

    @property
    def companion(self) -> str:
        """What code that uses it mostly names as well: its class, or its module."""
        *folders, name = self.path.split("/")
        stem = name.partition(".")[0]
        module = folders[-1] if stem == "__init__" and folders else stem
        return self.name.rpartition(".")[0].rpartition(".")[2] or module


def watched_definitions(changes: Sequence[SymbolChange]) -> tuple[Watched, ...]:
    """Return what users are sought of: what changed, came or went, with constructors' classes.

    Of a new attribute none are: what is new breaks nobody.
    """
    found: dict[Key, Watched] = {}
    for change in changes:
        is_attribute = change.symbol.kind == "constant" and "." in change.name
        if is_attribute and change.how in ("added", "body"):
            continue
        for each in _wanted(change):
            known = found.get(each.key)
            # The definition itself is more exact than the class of its constructor.
            if known is None or known.calls_only:
                found[each.key] = each
    return tuple(found.values())


def dropped_imports(
    paths: Iterable[str], before: PythonIndex, after: PythonIndex
) -> Iterator[Watched]:
    """Yield what sources offered of others in this repository, and do not offer any more."""
    for path in paths:
        for module in before.dotted_names(path)[:1]:
            for name in sorted(before.module_names(module) - after.module_names(module)):
                found = before.find_in(path, name)
                if found.exists and found.path != path:
                    yield Watched(path, name, path, is_gone=True)


def _wanted(change: SymbolChange) -> Iterator[Watched]:
    owner, _, last = change.name.rpartition(".")
    if change.how == "moved":
        assert change.old_path is not None, "it stood somewhere"
        assert change.old is not None, "it stood there by a name"
        # Whoever still takes it from the old place fails, so that is watched as gone.
        yield Watched(change.old_path, change.old.name, change.old_path, is_gone=True)
    if not (last.startswith("__") and last.endswith("__")):
        is_gone = change.how == "removed"
        yield Watched(change.path, change.name, change.old_path, is_gone)
    # A field of a dataclass is a parameter of its constructor.
    makes = last in _CONSTRUCTORS or change.symbol.kind == "constant"
    if owner and makes:
        yield Watched(change.path, owner, change.old_path or change.path, calls_only=True)


class Use(NamedTuple):
    """One place that uses a definition.

    Args:
        inside: The dotted name of the definition around that line; empty at a module's top.
        how: ``call``, ``name`` (it is handed on) and ``import`` are resolved; ``likely`` is an
            attribute of something unknown whose name only this definition has.
        is_expected: Whether the place expects that the call does not fit, or put another
            definition there.
    """

    key: Key
    path: str
    line: int
    inside: str
    how: How
    call: ast.Call | None = None
    found: Found | None = None
    is_expected: bool = False


class LostName(NamedTuple):
    """A place that names a definition that is gone."""

    key: Key
    path: str
    line: int
    is_import: bool = False


class Uses:
    """The users of definitions in one state of a repository."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self.index = PythonIndex(files)
        self.notes: list[str] = []
        """What was not read, for the reader of the review."""
        self._sources = Sources(files)
        self._symbols: dict[str, tuple[Symbol, ...]] = {}
        self._views: dict[str, SourceView | None] = {}
        self._words: dict[str, set[str]] = {}
        self._known: set[str] = set()

    def find(
        self, wanted: Sequence[Watched], is_asked: Callable[[str], bool] | None = None
    ) -> tuple[list[Use], list[LostName]]:
        """Return the uses of definitions, and the places that name those that are gone."""
        uses: list[Use] = []
        lost: list[LostName] = []
        by_word: dict[str, list[Watched]] = defaultdict(list)
        needs: dict[str, set[str]] = defaultdict(set)
        own = ((each.companion, each.word, each) for each in wanted)
        for companion, word, each in [*own, *self._offered(wanted)]:
            by_word[word] += [] if each in by_word[word] else [each]
            needs[word].add(companion)
        sought = frozenset(each.path for each in wanted)
        for path, words in self._candidates(by_word, needs, is_asked):
            view = self.view(path)
            if view is not None:
                view.sought = sought
                for mention in view.mentions(words):
                    self._judge(view, mention, by_word[mention.word], uses, lost)
        uses.sort(key=lambda each: (each.key, each.path, each.line, each.how))
        # Where an import fails, what follows it is not reached.
        failing = {each[:2] for each in lost if each.is_import}
        lost = [each for each in lost if each.is_import or each[:2] not in failing]
        return uses, sorted(set(lost))

    def view(self, path: str) -> SourceView | None:
        """Return a source as its users see it; None where it cannot be read."""
        if path not in self._views:
            source = self._sources.get(path)
            self._views[path] = None if source is None else SourceView(source, self.index)
        return self._views[path]

    def guards_of(self, path: str) -> Guards | None:
        """Return where a source expects to fail; None where it cannot be read."""
        view = self.view(path)
        return None if view is None else view.guards

    def importers(self, paths: Iterable[str]) -> Iterator[str]:
        """Yield the Python files that import modules of some files, or a package that does."""
        found: set[str] = set()
        wanted = list(paths)
        while wanted:
            fresh = [each for each in self._direct_importers(wanted) if each not in found]
            found.update(fresh)
            yield from fresh
            # What a package imports others take from the package.
            wanted = [each for each in fresh if each.endswith("__init__.py")]
            if wanted and len(found) > COMMON:
                told = ", ".join(wanted)
                self.notes.append(f"the importers of {told}: {len(found)} files are nearer")
                return

    def _direct_importers(self, paths: Sequence[str]) -> Iterator[str]:
        names = {name for path in paths for name in self.index.dotted_names(path)}
        words = {os.fsencode(name.rpartition(".")[2]) for name in names}
        # Below a package dots stand for its name.
        folders = tuple(
            f"{path.rpartition('/')[0]}/" for path in paths if path.endswith("/__init__.py")
        )
        for path in self.files.python if names else ():
            data = self.files.data(path) or b""
            # Most files are left out by bytes alone; only the others are parsed.
            if path.startswith(folders) or words.intersection(data.translate(_TABLE).split()):
                view = self.view(path)
                if view is not None and any(names & named for _, named in view.imports()):
                    yield path

    def symbols(self, path: str) -> tuple[Symbol, ...]:
        """Return the definitions of a file; none where they are not read."""
        if path not in self._symbols:
            self._symbols[path] = read_symbols(path, self.files.text(path) or "") or ()
        return self._symbols[path]

    def _judge(
        self,
        view: SourceView,
        mention: Mention,
        wanted: list[Watched],
        uses: list[Use],
        lost: list[LostName],
    ) -> None:
        """Add one place to the uses, or to the lost ones, or to neither."""
        found = view.meaning(mention)
        for each in wanted:
            meant = next((one for one in found if self._is(each, one, mention)), None)
            if each.is_gone:
                is_lost = meant is not None or _is_unbound(view, mention, each)
                if is_lost and _has_to_be_there(view, mention):
                    is_import = mention.taken is not None
                    lost.append(LostName(each.key, view.path, mention.line, is_import))
            elif meant is not None:
                if not each.calls_only or mention.call is not None:
                    uses.append(self._use(view, mention, each, meant))
            elif self._is_likely(each, mention, found, wanted):
                uses.append(self._use(view, mention, each, None))

    def _is(self, wanted: Watched, found: Found, mention: Mention) -> bool:
        """Return whether something found is the definition, or the lack of it."""
        if wanted.is_gone:
            owner = wanted.name.rpartition(".")[0].rpartition(".")[2]
            written = ast.unparse(mention.node) if not mention.taken else ""
            # A method that is gone is meant only where its class, or `self`, is written with it;
            # `self` may be of a class that takes it from elsewhere.
            is_own = "self" in written or "cls" in written
            is_whole = not owner or owner in written
            is_whole = is_whole or (is_own and not self.index.defined(wanted.word))
            is_lost = found.lacking == wanted.word and found.path == wanted.path
            return found.is_missing and is_lost and is_whole
        return self._is_at(wanted, found)

    def _is_at(self, wanted: Watched, found: Found) -> bool:
        """Return whether something found is at the place of a definition."""
        if found.path != wanted.path or found.line is None:
            return False
        symbol = symbol_at(self.symbols(wanted.path), found.line)
        return symbol is not None and symbol.name == wanted.name

    def _is_likely(
        self,
        wanted: Watched,
        mention: Mention,
        found: tuple[Found, ...],
        rivals: list[Watched],
    ) -> bool:
        """Return whether an attribute of something unknown can hardly be another definition."""
        if found or wanted.is_gone or wanted.calls_only or wanted.word in _COMMON_NAMES:
            return False
        if not isinstance(mention.node, ast.Attribute) or "." not in wanted.name:
            return False
        # With two definitions of one name nothing chooses between them.
        if len({each.key for each in rivals}) > 1:
            return False
        # Only one file of the repository defines the name at all.
        return {path for path, _ in self.index.defined(wanted.word)} == {wanted.path}

    def _use(self, view: SourceView, mention: Mention, wanted: Watched, found: Found | None) -> Use:
        how: How = "likely" if found is None else "call" if mention.call is not None else "name"
        how = "import" if mention.taken else how
        line, inside = mention.line, view.inside(mention.line)
        is_expected = view.guards.expects_misfit(line, mention.word)
        is_expected = is_expected or (mention.call is not None and view.is_silenced(mention.call))
        return Use(wanted.key, view.path, line, inside, how, mention.call, found, is_expected)

    def _offered(self, wanted: Sequence[Watched]) -> Iterator[tuple[str, str, Watched]]:
        """Yield the packages that offer definitions, by their last name, and how each calls it."""
        self._scan({each.word for each in wanted} | {each.companion for each in wanted})
        counts = self._counts()
        for path in sorted(each for each in self._words if each.endswith("/__init__.py")):
            for each in wanted:
                if each.word in self._words[path] and not each.is_gone:
                    pattern = rf"\b{each.word}\s+as\s+(\w+)"
                    names = set(re.findall(pattern, self.files.text(path) or "")) - {each.word}
                    # Any file that has a rare word is read, whatever else it names.
                    names |= {each.word} if counts[each.word] > COMMON else set()
                    for name in sorted(names):
                        if self._is_at(each, self.index.find_in(path, name)):
                            yield path.split("/")[-2], name, each

    def _counts(self) -> Counter[str]:
        return Counter(word for there in self._words.values() for word in there)

    def _candidates(
        self,
        by_word: Mapping[str, Sequence[Watched]],
        needs: Mapping[str, set[str]],
        is_asked: Callable[[str], bool] | None,
    ) -> Iterator[tuple[str, frozenset[str]]]:
        """Yield the files to read, each with the words to look for in it."""
        words = set(by_word)
        wanted = [each for group in by_word.values() for each in group]
        self._scan(words.union(*needs.values()))
        counts = self._counts()
        common = sorted(word for word in words if counts[word] > COMMON)
        for word in common:
            self.notes.append(
                f"{word!r} is in {counts[word]} files: only those that also name "
                f"{' or '.join(sorted(needs[word]))} were read for it"
            )
        found = [
            (path, frozenset(w for w in there & words if w not in common or there & needs[w]))
            for path, there in sorted(self._words.items())
            if is_asked is None or is_asked(path)
        ]
        found = [row for row in found if row[1]]
        if len(found) > MOST_FILES:
            self.notes.append(
                f"{len(found)} files name what changed: the {MOST_FILES} nearest were read"
            )
            tops = {each.path.partition("/")[0] for each in wanted}
            # Files below the same top folder are the likelier users.
            found.sort(key=lambda row: (row[0].partition("/")[0] not in tops, row[0]))
        yield from found[:MOST_FILES]

    def _scan(self, words: set[str]) -> None:
        """Find which Python files contain which words, each word once."""
        fresh = {os.fsencode(each) for each in words - self._known}  # names of files among them
        self._known |= words
        if not fresh:
            return
        for path in self.files.python:
            data = self.files.data(path) or b""
            # Bytes translated and split find whole words many times as fast as a pattern.
            there = fresh.intersection(data.translate(_TABLE).split())
            if there:
                self._words.setdefault(path, set()).update(map(os.fsdecode, there))


def _is_unbound(view: SourceView, mention: Mention, wanted: Watched) -> bool:
    """Return whether a source names what it has lost itself, and nothing in it has the name."""
    is_own = view.path == wanted.path and isinstance(mention.node, ast.Name)
    return is_own and mention.word == wanted.name and view.lacks(wanted.name)


def _has_to_be_there(view: SourceView, mention: Mention) -> bool:
    """Return whether a place surely fails where its name is gone."""
    if isinstance(mention.node, ast.Constant) and not view.guards.is_looked_up(mention.node):
        return False  # a text may as well be a logger, or a list of what is gone
    return not view.guards.expects_lack(mention.line, mention.word)
