"""What an existing unit consists of: its files, and the lines in others that name it.

Pure: paths and bytes in, findings out. A file belongs to the unit by its name; a registry line by
what it says, see `scaffold.units.init.registrations`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from scaffold.edit import shapes
from scaffold.target.target import key_names
from scaffold.templating.spec import fill
from scaffold.units.init.name_forms import Spelling, as_pattern, bound_names, words_of
from scaffold.units.init.registrations import LocatedEntry, find_registrations
from scaffold.units.init.unit_name import find_name, holds, is_test

MAX_MANUAL = 3
"""How many lines of one file are left to a person; a file that says more is about the unit."""

NEAR = 3
"""How many lines above or below a line, that of another unit is looked for."""

MAX_NAMED = 8
"""How many files are named that the unit occurs in without being listed there."""

_AROUND = frozenset(["test", "tests", "unit", "spec", "conftest", "fixture", "fixtures", "data"])
"""Words that stand around a unit's name in the names of its Python files."""

# Files that name everything and register nothing: records, changelogs, lock files.
_NOT_LOOKED_AT = re.compile(r"(?i)(^|/)(\.scaffold/|changelog|changes|history|news\.|[^/]*\.lock$)")


@dataclass(frozen=True)
class UnitFile:
    """One of the unit's files; ``role`` is "source", "test", "doc" or "data"."""

    path: str
    role: str
    data: bytes


@dataclass(frozen=True)
class OtherLine:
    """A line that names the unit and that no shape can express.

    ``is_plain`` is False for the sentences in code, which register nothing.
    """

    file: str
    line: int
    text: str
    is_plain: bool = True


@dataclass(frozen=True)
class Example:
    """Everything that was found of a unit.

    Args:
        kind: What the kind is to be called.
        spelling: The unit's name.
        suffixes: Words for the kind that people may type behind a name.
        files: The unit's own files, its source first.
        symbol: What the source defines that bears the name: a class or a function; or "".
        registrations: The registry lines.
        others: Lines that a person has to add by hand.
        siblings: The other units of its kind, as far as they stand beside it.
        warnings: What was found and left alone.
    """

    kind: str
    spelling: Spelling
    suffixes: tuple[str, ...]
    files: tuple[UnitFile, ...]
    symbol: str
    registrations: tuple[LocatedEntry, ...] = ()
    others: tuple[OtherLine, ...] = ()
    siblings: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def names_sibling(self, text: str) -> bool:
        """Return whether a text names another unit of the kind, as a registry does."""
        return any(Spelling(each).occurs_in(text) for each in self.siblings)


def find_example(
    files: Mapping[str, bytes], source: str, packages: Iterable[str], kind: str = ""
) -> Example:
    """Find out what a unit consists of.

    Args:
        files: The repository's text files, by path.
        source: The unit's source among them.
        packages: The repository's own top-level packages.
        kind: What the kind is to be called, or "" to find a name.
    """
    name = find_name(files, source, kind)
    spelling = Spelling(name.key, frozenset(packages), others=name.longer)
    example = Example(name.kind, spelling, name.suffixes, (), name.symbol, siblings=name.siblings)
    own = _own_files(files, source, example)
    texts = [each.data.decode("utf-8", "replace") for each in own if each.path.endswith(".py")]
    bound = frozenset[str]().union(*map(bound_names, texts))
    spelling = replace(example.spelling, bound=bound)
    return _with_registrations(replace(example, spelling=spelling, files=own), files)


# ---- its files -----------------------------------------------------------------------------------


def _own_files(files: Mapping[str, bytes], source: str, found: Example) -> tuple[UnitFile, ...]:
    """Return the files that bear the unit's name; of Python files those that have to do with it.

    Another package may have a module of the same name. Where one test names the unit's module or
    symbol, a test that does not is another unit's.
    """
    paths = [path for path in sorted(files) if path != source and _belongs(path, source, found)]
    paths = [path for path in paths if path.endswith(".py") or _has_like(path, files, found)]
    rows = [UnitFile(path, _role(path), files[path]) for path in paths]
    linked = {row.path for row in rows if _is_linked(row, source, found)}
    tests = {row.path for row in rows if row.role == "test"}
    kept = linked | {row.path for row in rows if row.role in ("doc", "data")}
    # No test imports the unit: those with its name are then all that there is to go by.
    kept |= set() if tests & linked else tests
    home = PurePosixPath(source)
    if home.name == "__init__.py":
        kept |= {path for path in paths if PurePosixPath(path).is_relative_to(home.parent)}
    own = [row for row in rows if row.path in kept]
    return (UnitFile(source, "source", files[source]), *own)


def _is_linked(row: UnitFile, source: str, found: Example) -> bool:
    text = row.data.decode("utf-8", "replace")
    # The module with its folder, as `rewards.gsm8k` or `from .rewards import gsm8k`.
    parts = PurePosixPath(source).with_suffix("").parts[-2:]
    module = rf"\b{re.escape(parts[0])}(\.| import \(?[^)\n]*\b){re.escape(parts[-1])}\b"
    symbol = rf"\b{re.escape(found.symbol)}\b" if found.symbol else "(?!)"
    return bool(re.search(module, text) or re.search(symbol, text))


def _has_like(path: str, files: Mapping[str, bytes], found: Example) -> bool:
    """Return whether a file is called after the unit alone, or others of its kind have the like."""
    stem = "_".join(words_of(PurePosixPath(path).name.partition(".")[0]))
    if stem == found.spelling.key or not holds(stem, found.spelling.key) or not found.siblings:
        return True
    names = key_names(found.spelling.key).items()
    # `gsm8k_cases.json` is the unit's if a sibling has the like, `math_cases.json`.
    pairs = [(each, *row) for each in found.siblings for row in names if row[1] in path]
    return any(path.replace(text, key_names(each)[name]) in files for each, name, text in pairs)


def _belongs(path: str, source: str, found: Example) -> bool:
    """Return whether a file is the unit's by its name, or by that of a folder it stands in."""
    place, home = PurePosixPath(path), PurePosixPath(source)
    is_folder = home.name == "__init__.py"
    if is_folder and place.is_relative_to(home.parent):
        return True
    if place.parts[0] == ".scaffold":
        return False
    known = {*home.parts[: -2 if is_folder else -1]}
    if any(_is_name(part, found, strict=True) for part in place.parent.parts if part not in known):
        return True
    return _is_name(place.name.partition(".")[0], found, strict=place.suffix in (".py", ".pyi"))


def _is_name(part: str, found: Example, *, strict: bool) -> bool:
    words = words_of(part)
    text, key = "_".join(words), found.spelling.key
    if not holds(text, key) or any(holds(text, other) for other in found.spelling.others):
        return False
    # What is left of the file's name besides the unit's: `test` of `test_gsm8k`.
    rest = f"_{text}_".replace(f"_{key}_", "_", 1).strip("_").split("_")
    around = {"", *_AROUND, *words_of(found.kind), found.kind + "s"}
    return not strict or set(rest) <= around


def _role(path: str) -> str:
    place = PurePosixPath(path)
    if place.suffix == ".py":
        return "test" if is_test(path) else "source"
    return "doc" if place.suffix in (".md", ".markdown", ".rst") else "data"


# ---- the lines in other files --------------------------------------------------------------------


def _with_registrations(found: Example, files: Mapping[str, bytes]) -> Example:
    own = {each.path for each in found.files}
    foreign = _foreign_modules(found, files, own)
    registrations: list[LocatedEntry] = []
    others: list[OtherLine] = []
    warnings: list[str] = []
    for path in sorted(set(files) - own):
        text = files[path].decode("utf-8", "replace")
        if _NOT_LOOKED_AT.search(path) or not found.spelling.occurs_in(text):
            continue
        # First what a shape can edit, then the lines that are left for a person.
        rows, rest = find_registrations(path, files[path], found.spelling.occurs_in)
        rows = [row for row in rows if not _is_about(foreign, f"{row.entry.key} {row.entry.value}")]
        # A registry lists other units as well; a line that is the only one of its sort is no entry.
        listed = [row for row in rows if _is_registry(row, files[path], found)]
        registrations += listed
        left = _lines_left(path, text, rest.decode("utf-8", "replace"), found.spelling)
        # Many lines of one file are about the unit and no list of units: a person is only warned of
        # those.
        left = [row for row in left if not _is_about(foreign, row.text)]
        like = [row for row in left if row.is_plain and _is_among_siblings(row, text, found)]
        others += like if len(like) <= MAX_MANUAL else []
        alone = [row.line for row in rows if row not in listed]
        alone += [row.line for row in left if row not in like or len(like) > MAX_MANUAL]
        if alone:
            warnings.append(
                f"{path}:{min(alone)}" + f" and {len(alone) - 1} more" * (len(alone) > 1)
            )
    note = f"it is named, and nothing is made of that, in {', '.join(warnings[:MAX_NAMED])}"
    note += f" and {len(warnings) - MAX_NAMED} more files" * (len(warnings) > MAX_NAMED)
    return replace(
        found,
        registrations=tuple(registrations),
        others=tuple(others),
        warnings=(note,) * bool(warnings),
    )


def _foreign_modules(found: Example, files: Mapping[str, bytes], own: set[str]) -> list[str]:
    """Return the modules of the same name in other packages, as ``dataset.gsm8k``."""
    stem = PurePosixPath(found.files[0].path).stem
    paths = [PurePosixPath(each) for each in files if each.endswith(f"/{stem}.py")]
    return [f"{path.parent.name}.{stem}" for path in paths if str(path) not in own]


def _is_about(modules: Iterable[str], text: str) -> bool:
    return any(
        re.search(rf"\b{re.escape(each).replace(re.escape('.'), '[./]')}", text) for each in modules
    )


def _is_registry(row: LocatedEntry, data: bytes, found: Example) -> bool:
    """Return whether others of the kind are listed where the unit is, as far as there are any.

    Their lines are known by the like: ``mime_{key}`` is no list of things that has no other such.
    Titles are written more freely, so that in pages any line that names another will do.
    """
    if not found.siblings:
        return True
    entries = shapes.read_entries(data, row.entry)
    if row.entry.shape in ("markdown", "markdown-list", "yaml", "branch", "owners"):
        return any(found.names_sibling(f"{key} {value or ''}") for key, value in entries.items())
    parts = [(row.entry.key, set(entries))]
    if row.entry.shape == "import":
        parts.append((row.entry.value, {value or "" for value in entries.values()}))
    return any(_has_sibling(found, text, known) for text, known in parts)


def _has_sibling(found: Example, text: str, known: set[str]) -> bool:
    """Return whether the like of a text stands there for another unit."""
    hits = found.spelling.hits(text, "data")
    pattern = as_pattern(text, hits)
    if not hits or pattern is None:
        return False
    return any(fill(pattern, key_names(each)) in known for each in found.siblings)


def _is_among_siblings(row: OtherLine, text: str, found: Example) -> bool:
    """Return whether a line may be one of many; what tests say of a unit is no registry."""
    if {"tests", "test"} & set(PurePosixPath(row.file).parts):
        return False
    rows = text.splitlines()
    near = rows[max(row.line - 1 - NEAR, 0) : row.line + NEAR]
    return not found.siblings or any(map(found.names_sibling, near))


def _lines_left(path: str, text: str, rest: str, spelling: Spelling) -> list[OtherLine]:
    """Return the lines of what is left of a file that name the unit, as they are in the file."""
    rows, found = text.splitlines(), list[OtherLine]()
    plain: dict[int, bool] = {}
    for hit in spelling.hits_in_file(path, rest):
        # Line numbers of `rest`, from which the registry lines are gone.
        number = rest.count("\n", 0, hit.start)
        is_word = hit.region == "prose" and hit.variable in ("words", "title")
        is_plain = not (is_word and path.endswith(".py"))
        plain[number] = plain.get(number, False) or is_plain
    last = 0
    for number, is_plain in plain.items():
        line = rest.split("\n")[number].rstrip("\r")
        # The same line in the file itself, below the one that was found before.
        if line in rows[last:]:
            last = rows.index(line, last) + 1
            found.append(OtherLine(path, last, line, is_plain))
    return found
