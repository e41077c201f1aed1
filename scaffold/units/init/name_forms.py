"""The spellings of a unit's name in text, and text in which variables stand for them.

One word is spelled alike in several ways: ``heise`` is the key, the dashed and the plain words.
Which one is meant is told by what stands around it, so that a name of two words comes out right.
"""

from __future__ import annotations

import ast
import functools
import io
import re
import tokenize
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from scaffold.syntax import parse
from scaffold.target.target import key_names
from scaffold.templating.names import fold

Region = Literal["code", "data", "prose"]
"""Python source; a text without spaces, or a file of data; sentences."""

PROSE = (".md", ".markdown", ".rst", ".txt")

# Of the spellings that are written alike the first is the default; `_chosen` looks around it.
_ORDER = ("key", "dashed", "pascal", "camel", "upper", "words", "title", "headline")
_LOWER = ("key", "dashed", "camel", "words")
# What Jinja would read as a tag; the second also takes a brace right in front of a variable.
_BRACE = re.compile(r"\{(?=[{%#\r])")
_BRACE_OR_LAST = re.compile(r"\{(?=[{%#\r]|\Z)")


@dataclass(frozen=True)
class Hit:
    """A place in a text where a spelling stands, and the variable that is meant by it."""

    start: int
    end: int
    variable: str
    region: Region = "data"


@dataclass(frozen=True)
class Spelling:
    """A unit's name, as it may be found in text.

    Args:
        key: The canonical name.
        packages: The top-level packages whose attributes may be the unit; ``torch.mean`` is not.
        bound: The names that the unit's own files define.
        others: Longer names of other units that hold this one: ``heise_plus``.
    """

    key: str
    packages: frozenset[str] = frozenset()
    bound: frozenset[str] = frozenset()
    others: tuple[str, ...] = ()

    def occurs_in(self, text: str) -> bool:
        """Return whether a text holds the name in any spelling."""
        return next(self._found(text), None) is not None

    def hits_in_file(self, path: str, text: str) -> list[Hit]:
        """Return where the name stands in a file that is the unit's own."""
        if path.endswith((".py", ".pyi")):
            regions = _python_regions(text)
            if regions is not None:
                # `mean` of `np.mean` in a unit called mean is numpy's and stays.
                skipped = _foreign(text, self)
                return [
                    hit
                    for hit in self._hits(text, regions)
                    if not any(start <= hit.start < end for start, end in skipped)
                ]
        if path.endswith(PROSE):
            return self._hits(text, _page_regions(text))
        return self._hits(text, _Regions((0,), ("data",)))

    def hits(self, text: str, region: Region) -> list[Hit]:
        """Return where the name stands in a text of one kind."""
        return self._hits(text, _Regions((0,), (region,)))

    def _hits(self, text: str, regions: _Regions) -> list[Hit]:
        found: list[Hit] = []
        for match in self._found(text):
            variables = _texts(self.key)[match[0]]
            region = regions.at(match.start())
            variable = _chosen(text, match.span(), variables, region)
            found.append(Hit(*match.span(), variable, region))
        return found

    def _found(self, text: str) -> Iterator[re.Match[str]]:
        own = _texts(self.key)
        found = _pattern(self.key, self.others).finditer(text)
        return (match for match in found if match[0] in own)


@functools.cache
def _pattern(key: str, others: tuple[str, ...]) -> re.Pattern[str]:
    """Return what finds every spelling of a name, and those of the longer ones that hold it."""
    parts: list[str] = []
    rows = [row for each in (key, *others) for row in _texts(each).items()]
    # Alternatives match in their order: the longer name has to be tried before the one it holds.
    for spelled, variables in sorted(rows, key=lambda row: -len(row[0])):
        if variables[0] in _LOWER:
            # A capital may follow: `heiseParser` is camel case. An underscore is a border on both
            # sides.
            parts.append(rf"(?<![A-Za-z0-9]){re.escape(spelled)}(?![a-z0-9])")
        elif variables[0] == "upper":
            parts.append(rf"(?<![A-Za-z0-9]){re.escape(spelled)}(?![A-Za-z0-9])")
        else:
            # Lower-case letters may come before: `getHeise`.
            parts.append(rf"(?<![A-Z]){re.escape(spelled)}(?![a-z0-9])")
    return re.compile("|".join(parts))


def as_template(text: str, hits: Iterable[Hit]) -> str:
    """Return a text as a Jinja template that renders it, with variables for the hits."""
    parts: list[str] = []
    last = 0
    for hit in hits:
        parts += [_raw(text[last : hit.start], is_before=True), f"{{{{ {hit.variable} }}}}"]
        last = hit.end
    return "".join([*parts, _raw(text[last:])])


def as_pattern(text: str, hits: Iterable[Hit]) -> str | None:
    """Return a text as a manifest's string, or None where it holds what looks like a variable."""
    parts: list[str] = []
    last = 0
    for hit in hits:
        parts += [text[last : hit.start], f"{{{hit.variable}}}"]
        last = hit.end
    parts.append(text[last:])
    # Manifests have no escape for a brace.
    if any(re.search(r"\{\w+\}", part) for part in parts[::2]):
        return None
    pattern = "".join(parts)
    # A brace of the text beside one of ours would be read with it.
    return pattern if len(re.findall(r"\{\w+\}", pattern)) == len(parts) // 2 else None


def bound_names(text: str) -> frozenset[str]:
    """Return the names that a Python text defines, assigns or takes as arguments."""
    try:
        tree = parse(text)
    except (SyntaxError, ValueError):
        return frozenset()
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.attr)
    return frozenset(found)


def words_of(name: str) -> list[str]:
    """Return the words of a file's or symbol's name, in lower case."""
    parts = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    return [part.lower() for part in re.split(r"[^A-Za-z0-9]+", parts) if part]


def same_name(one: str, other: str) -> bool:
    """Return whether two names are spellings of one."""
    return fold(one) == fold(other)


@functools.cache
def _texts(key: str) -> dict[str, tuple[str, ...]]:
    """Return every spelling of a key with the variables that give it."""
    names = key_names(key)
    found: dict[str, tuple[str, ...]] = {}
    for variable in _ORDER:
        found[names[variable]] = (*found.get(names[variable], ()), variable)
    return found


# ---- what is meant -------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Regions:
    """The kind of text, code or prose, from each offset on."""

    starts: Sequence[int]
    kinds: Sequence[Region]

    def at(self, offset: int) -> Region:
        return self.kinds[bisect_right(self.starts, offset) - 1]


def _chosen(text: str, span: tuple[int, int], variables: tuple[str, ...], region: Region) -> str:
    if len(variables) == 1:
        return variables[0]
    before, after = text[: span[0]][-1:], text[span[1] :][:1]
    if variables[0] == "pascal":
        # `Heise` in a sentence is the title, in `HeiseParser` a class.
        is_name = region == "code" or _is_word(before) or _is_word(after)
        return "pascal" if is_name else "title"
    # `heiseParser`: only camel case goes on with a capital.
    if after.isupper():
        return "camel"
    around = (re.split(r"\s", text[: span[0]])[-1], re.split(r"\s", text[span[1] :], maxsplit=1)[0])
    # `heise-online` or an address: dashes are what separates words here.
    if region != "code" and ("-" in (before, after) or "://" in around[0]):
        return "dashed"
    # Between blanks and punctuation of a sentence the plain words are meant, else the key.
    is_alone = region == "prose" and re.fullmatch(r"[(]?", around[0])
    return "words" if is_alone and re.fullmatch(r"[).,;:!?'s]*", around[1]) else "key"


def _is_word(char: str) -> bool:
    return char == "_" or char.isalnum()


def _raw(text: str, *, is_before: bool = False) -> str:
    """Return text that Jinja outputs as it is; a brace before a tag would be read with it."""
    pattern = _BRACE_OR_LAST if is_before else _BRACE
    return pattern.sub('{{ "{" }}', text).replace("\r", '{{ "\\r" }}')


def _page_regions(text: str) -> _Regions:
    """Return where sentences begin and where code does: in fences, and between backticks."""
    starts: list[int] = [0]
    kinds: list[Region] = ["prose"]
    pattern = r"(?ms)^[ \t]*(```|~~~).*?^[ \t]*\1[^\n]*$|(`+)[^`\n]+\2|\]\([^)\n]*\)"
    for found in re.finditer(pattern, text):
        starts += [found.start(), found.end()]
        kinds.extend(("data", "prose"))
    return _Regions(starts, kinds)


def _python_regions(text: str) -> _Regions | None:
    tokens = _tokens(text)
    if tokens is None:
        return None
    lines = _line_starts(text)
    starts: list[int] = [0]
    kinds: list[Region] = ["code"]
    for token in tokens:
        # A string without blanks is a key or a path, one with blanks a sentence.
        if token.type in (tokenize.STRING, tokenize.COMMENT):
            is_prose = token.type == tokenize.COMMENT or re.search(r"\s", token.string.strip())
            starts += [_offset(lines, token.start), _offset(lines, token.end)]
            kinds.extend(("prose" if is_prose else "data", "code"))
    return _Regions(starts, kinds)


def _foreign(text: str, spelling: Spelling) -> list[tuple[int, int]]:
    """Return the identifiers of a Python text that only happen to be spelled so.

    They are builtins and what belongs to other packages: no name that the unit's files bind, and no
    part of an import from, or of an attribute of, one of the target's packages.
    """
    tokens = [t for t in _tokens(text) or () if t.type not in (tokenize.NL, tokenize.COMMENT)]
    lines = _line_starts(text)
    own, own_lines = _own_imports(text, spelling.packages)
    bound = spelling.bound | bound_names(text) | own
    found: list[tuple[int, int]] = []
    root, statement, previous = "", "", ""
    for token in tokens:
        if token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT):
            statement = ""
            continue
        statement = statement or token.string
        if token.type == tokenize.NAME:
            is_part = previous == "."
            # The first name of a dotted one: `np` of `np.linalg.mean`.
            root = root if is_part else token.string
            is_import = statement in ("from", "import")
            # `np.mean` in a unit `mean` is numpy's; `self.mean` and `pkg.mean` are the unit's.
            is_own = token.string in bound or (is_part and root in (*own, "self", "cls"))
            if is_import:
                is_own = is_own or token.start[0] in own_lines
            elif is_part and root not in (*own, "self", "cls", *spelling.bound):
                is_own = spelling.key != token.string and token.string in bound
            if not is_own:
                found.append((_offset(lines, token.start), _offset(lines, token.end)))
        elif token.string != ".":
            root = ""
        previous = token.string
    return found


def _own_imports(text: str, packages: Iterable[str]) -> tuple[frozenset[str], frozenset[int]]:
    """Return what a text imports from the target's own packages: the names, and the lines."""
    names: set[str] = set()
    lines: set[int] = set()
    for node in ast.walk(parse(text)):
        found: list[str] = []
        if isinstance(node, ast.ImportFrom):
            if node.level or (node.module or "").partition(".")[0] in packages:
                found = [alias.asname or alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            own = [each for each in node.names if each.name.partition(".")[0] in packages]
            found = [each.asname or each.name.partition(".")[0] for each in own]
        if found and isinstance(node, ast.Import | ast.ImportFrom):
            names |= set(found)
            # An import in parentheses goes over several lines, all of which hold names of ours.
            lines |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return frozenset(names), frozenset(lines)


def _tokens(text: str) -> list[tokenize.TokenInfo] | None:
    try:
        parse(text)
        # newline="" ends lines at a lone "\r" as well, as `_line_starts` does.
        return list(tokenize.generate_tokens(io.StringIO(text, newline="").readline))
    except (SyntaxError, ValueError, tokenize.TokenError):
        return None


def _line_starts(text: str) -> list[int]:
    return [0, *(found.end() for found in re.finditer(r"\r\n|\r|\n", text))]


def _offset(lines: Sequence[int], place: tuple[int, int]) -> int:
    return lines[place[0] - 1] + place[1]
