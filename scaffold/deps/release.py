"""One release of a package, unpacked: its names, and its own words on their deprecation."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path

from scaffold.analysis.files.files import Files, walk
from scaffold.analysis.python.annotations import sides_of
from scaffold.analysis.python.follower import CALLED
from scaffold.analysis.python.index import PythonIndex, Signature
from scaffold.analysis.python.lookup_result import Found
from scaffold.analysis.python.module_getattr import Branch, find_branch
from scaffold.analysis.python.sources import Source, Sources
from scaffold.deps.deprecation_texts import Defined, Function, has_warning, raised_text, stub_of

_TRUSTED = re.compile(
    r"deprecat|docstring|doc_|^wraps|requires?_|^staticmethod$|^classmethod$|no_grad|override"
    r"|abstractmethod|contextmanager|^final$|_example|can_return|check_model|merge_with_config|^t\."
)
"""Decorators that leave the parameters of what they decorate as they are."""


Place = tuple[Source, Function]
"""A function with its source."""


@dataclass(frozen=True)
class Ask:
    """A question to the index: a name inside of a file, or a dotted one with path ""."""

    path: str
    name: str

    def member(self, name: str) -> Ask:
        return Ask(self.path, f"{self.name}.{name}")


@dataclass(frozen=True)
class Given:
    """What a module's ``__getattr__`` does with a name.

    Args:
        text: The words of the error or warning.
        target: Where the name is now by a table, dotted, or "".
    """

    is_refused: bool
    text: str
    target: str
    path: str
    line: int


@dataclass(frozen=True)
class Meaning:
    """The meaning of a chain in one release.

    Args:
        found: The last thing that was found, or what is missing.
        lacking: Where it is not there: the name that is not.
        given: What the module's ``__getattr__`` does with it, or None.
    """

    release: Release
    found: Found
    ask: Ask
    lacking: str = ""
    given: Given | None = None

    @property
    def is_there(self) -> bool:
        return self.found.exists or self.found.kind == "third_party"

    @property
    def is_missing(self) -> bool:
        return self.found.is_missing

    @property
    def definition(self) -> Defined | None:
        """The ``def`` or ``class`` that was found, or None."""
        return self.release.definition(self.found)

    @property
    def signature(self) -> Signature | None:
        """What a call of it takes; None where that is not certain."""
        return self.release.index.signature_of(self.found)

    @property
    def dotted(self) -> str:
        """The absolute dotted name that was asked for; "" where it has none."""
        if not self.ask.path:
            return self.ask.name
        names = self.release.index.dotted_names(self.ask.path)
        return f"{names[0]}.{self.ask.name}" if names else ""

    @property
    def place(self) -> str:
        """What the release has, as its signature or kind, with path and line."""
        if not self.found.exists or not self.found.path:
            return self.found.evidence
        text = str(self.signature or self.found.kind)
        text = text if len(text) <= 300 else f"{text[:297]}..."
        return f"{self.found.path}:{self.found.line} {text}"


class Release:
    """One release of a package as text, unpacked to a folder."""

    def __init__(self, version: str, root: Path) -> None:
        self.version = version
        self.root = root
        self.files = Files(root, list(walk(root)), has_git=False)
        self.index = PythonIndex(self.files, _TRUSTED)
        self._sources = Sources(self.files)
        # A release does not change, and an audit asks for the same names often.
        self.follow = cache(self._follow)
        self.follow_ask = cache(self._follow_ask)
        self.defines = cache(self._defines)
        self._find = cache(self._look_up)
        self._assignments = cache(self._statements)

    def _follow(self, parts: tuple[str, ...]) -> Meaning:
        """Return what a chain means, through calls by what is annotated or plain to see."""
        # Up to the first call a chain is one dotted name; behind it each part is asked of a result.
        end = parts.index(CALLED) if CALLED in parts else len(parts)
        meaning = self.follow_ask(Ask("", ".".join(parts[:end])))
        receiver = meaning.ask
        for part in parts[end:]:
            if not meaning.found.exists:
                return meaning
            if part == CALLED:
                result = self._result(meaning, receiver)
                if result is None:
                    return _unsure(meaning, "what its call gives is not written down")
                meaning, receiver = self.follow_ask(result), result
                continue
            member = self.follow_ask(meaning.ask.member(part))
            receiver, meaning = meaning.ask, member
        return meaning

    def _follow_ask(self, ask: Ask) -> Meaning:
        """Return what a name means, asked for in a file or dotted."""
        found = self._find(ask)
        if found.exists or found.kind == "third_party":
            return Meaning(self, found, ask)
        parts = ask.name.split(".")
        # From the left, up to the first part that is not there.
        for count in range(1, len(parts) + 1):
            before = Ask(ask.path, ".".join(parts[:count]))
            outer = self._find(before)
            if not outer.exists:
                break
        else:
            return Meaning(self, found, ask, parts[-1])
        lacking = parts[count - 1]
        given = None
        if outer.kind == "undecided" and outer.path:
            names = self.index.dotted_names(outer.path)
            branch = find_branch(self.source, self.index.find_in, outer.path, names, lacking)
            given = None if branch is None else _given(branch, lacking)
            source = self.source(outer.path)
            stub = stub_of(source, lacking) if source is not None and given is None else None
            if stub is not None:
                text = f"its stub raises {stub[0]}"
                given = Given(True, text, "", outer.path, stub[1])
        # The hook sends the name on, so it means what is there.
        if given is not None and given.target and count == len(parts):
            moved = self._find(Ask("", given.target))
            if moved.exists:
                return Meaning(self, moved, Ask("", given.target), "", given)
        if given is not None and given.is_refused:
            # A refusal of the hook is as certain as an absent name, and better worded.
            gone = outer._replace(kind="missing", evidence=given.text, line=given.line)
            return Meaning(self, gone._replace(path=given.path), ask, lacking, given)
        return Meaning(self, outer._replace(name=ask.name), ask, lacking, given)

    def _in_class(self, ask: Ask) -> Ask:
        """Return the question inside of the class's own file, without the way that led there."""
        owner, _, name = ask.name.rpartition(".")
        outer = self._find(Ask("", owner)) if owner and not ask.path else None
        if outer is None or outer.kind != "class" or not outer.path:
            return ask
        source, node = self.source(outer.path), self.definition(outer)
        if source is None or not isinstance(node, ast.ClassDef) or node not in source.tree.body:
            return ask
        return Ask(outer.path, f"{node.name}.{name}")

    def _look_up(self, ask: Ask) -> Found:
        index, inner = self.index, self._in_class(ask)
        found = index.find_in(inner.path, inner.name) if inner.path else index.find(inner.name)
        found = found._replace(name=ask.name)
        # The release is the whole world here: a top-level name that it lacks is gone.
        if found.kind == "third_party" and not (inner.path or found.path):
            top = ask.name.partition(".")[0]
            return found._replace(kind="missing", evidence=f"{self.version} has no module {top!r}")
        if found.kind != "undecided" or "." not in ask.name:
            return found
        owner, _, name = ask.name.rpartition(".")
        outer = self._find(Ask(ask.path, owner))
        if not outer.exists or outer.path is None or outer.line is None:
            return found
        return self._rebound(outer, owner.rpartition(".")[2], name) or found

    def _rebound(self, outer: Found, owner: str, name: str) -> Found | None:
        """Find a member through ``Name = make(Name)`` and through ``Name = Other``."""
        source, node = self.source(outer.path or ""), self.assigned(outer)
        if source is None or node is None or outer.kind not in ("constant", "attribute"):
            return None
        value = node.value
        bases: list[str] = []
        if isinstance(value, (ast.Name, ast.Attribute)):
            # `Config = _v2.Config`.
            bases = [ast.unparse(value)]
        # `Model = decorate(Model)`: what the class inherits is still there.
        elif isinstance(value, ast.Call) and any(
            isinstance(each, ast.Name) and each.id == owner for each in value.args
        ):
            bases = [
                ast.unparse(base)
                for each in source.tree.body
                if isinstance(each, ast.ClassDef) and each.name == owner
                for base in each.bases
            ]
        for base in bases:
            found = self.index.find_in(source.path, f"{base}.{name}")
            if found.exists:
                return found
        return None

    def assigned(self, found: Found) -> ast.Assign | ast.AnnAssign | None:
        return self._assignments(found.path or "").get(found.line or 0)

    def _statements(self, path: str) -> dict[int, ast.Assign | ast.AnnAssign]:
        source = self.source(path)
        nodes = ast.walk(source.tree) if source is not None else ()
        kinds = (ast.Assign, ast.AnnAssign)
        return {each.lineno: each for each in nodes if isinstance(each, kinds)}

    def source(self, path: str) -> Source | None:
        """Return a source of the release; None where it does not parse."""
        return self._sources.get(path)

    def definition(self, found: Found) -> Defined | None:
        """Return the ``def`` or ``class`` that was found, or None."""
        if found.kind == "module":
            return None  # it begins at line 1, where a definition of its own may be
        source = self.source(found.path) if found.path else None
        node = None if source is None else source.definitions.get(found.line or 0)
        if node is not None and found.kind == "attribute":
            return node if node.name == found.name.rpartition(".")[2] else None
        return node

    def body_of(self, signature: Signature) -> Place | None:
        """Return the ``def`` that a signature is of, be it a constructor's."""
        source = self.source(signature.path)
        node = None if source is None else source.definitions.get(signature.line)
        if source is None or node is None or isinstance(node, ast.ClassDef):
            return None
        return source, node

    def _result(self, meaning: Meaning, receiver: Ask) -> Ask | None:
        """Return the class of which a call gives an instance; None where it does not show."""
        if meaning.found.kind == "class":
            return meaning.ask
        node = self.definition(meaning.found)
        if node is None or isinstance(node, ast.ClassDef):
            return None
        owner = self._owner(meaning, receiver)
        if node.returns is not None:
            return self._class_of(node.returns, meaning.found.path or "", owner)
        given = [each.value for each in ast.walk(node) if isinstance(each, ast.Return)]
        if not given:
            return None
        if all(isinstance(each, ast.Name) and each.id == "self" for each in given):
            return owner
        made = {ast.unparse(each.func) for each in given if isinstance(each, ast.Call)}
        if len(made) == 1 and all(isinstance(each, ast.Call) for each in given):
            name = made.pop()
            # `return cls(...)` in a class method.
            if name == "cls":
                return owner
            found = self.index.find_in(meaning.found.path or "", name)
            return Ask(meaning.found.path or "", name) if found.kind == "class" else None
        return None

    def _owner(self, meaning: Meaning, receiver: Ask) -> Ask | None:
        """Return the class whose method was found."""
        owner = self._find(receiver)
        return receiver if owner.kind == "class" and receiver != meaning.ask else None

    def _class_of(self, node: ast.expr, path: str, owner: Ask | None) -> Ask | None:
        """Return the class that an annotation names, without Optional, quotes and parameters."""
        # A union of two classes does not single one out.
        sides = list(sides_of(node))
        if len(sides) != 1:
            return None
        side = sides[0].value if isinstance(sides[0], ast.Subscript) else sides[0]
        name = ast.unparse(side)
        # One capital letter is by custom a TypeVar, bound to the receiver in a method.
        if name.rpartition(".")[2] == "Self" or (len(name) == 1 and owner is not None):
            return owner
        found = self.index.find_in(path, name)
        assigned = self.assigned(found) if found.kind == "constant" else None
        value = assigned.value if assigned is not None else None
        if isinstance(value, ast.Call) and ast.unparse(value.func).endswith("TypeVar"):
            return owner  # of a method, it is the receiver
        return Ask(path, name) if found.kind == "class" and found.path else None

    @cached_property
    def _blob(self) -> bytes:
        rows = (self.files.data(path) or b"" for path in self.files.python)
        return b"\n".join(rows)

    def _defines(self, text: str) -> bool:
        """Return whether any source may bring a name: by definition, import, or as a string.

        Each line with the word is looked at: a pattern over all sources would take seconds.
        """
        word = text.encode()
        name = re.escape(word)
        brings = re.compile(
            rb"(?:class|def)[ \t]+%s\b|^[ \t]*(?:\w+\.)*%s[ \t]*[:=]|[\"']%s[\"']"
            rb"|\bas[ \t]+%s\b|\bimport[ \t(].*\b%s\b|^[ \t]+%s,[ \t]*(?:#.*)?$" % ((name,) * 6)
        )
        # bytes.find is many times as fast as the pattern, and most lines lack the word.
        blob, at = self._blob, self._blob.find(word)
        while at >= 0:
            start, end = blob.rfind(b"\n", 0, at) + 1, blob.find(b"\n", at)
            end = len(blob) if end < 0 else end
            if brings.search(blob[start:end]):
                return True
            at = blob.find(word, end)
        return False

    def mentions(self, pattern: bytes) -> bool:
        """Return whether a pattern matches anywhere in the sources."""
        return re.search(pattern, self._blob) is not None


def _given(branch: Branch, name: str) -> Given:
    refused = raised_text(branch.body)
    if not branch.body:
        refused = f"no table of {branch.path} gives {name!r}"
    if refused is not None:
        return Given(True, refused, "", branch.path, branch.line)
    text = has_warning(branch.body) or (branch.target and f"it is given from {branch.target}")
    return Given(False, text, branch.target, branch.path, branch.line)


def _unsure(meaning: Meaning, reason: str) -> Meaning:
    evidence = f"{meaning.found.evidence}: {reason}"
    found = meaning.found._replace(kind="undecided", evidence=evidence)
    return replace(meaning, found=found)
