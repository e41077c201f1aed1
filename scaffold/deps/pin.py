"""One version specifier of a package in a manifest, and how it is moved to another release."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from scaffold.analysis.files.files import Files
from scaffold.analysis.project.project import normal_name

_VARIANT = re.compile(r"(?:^|/)pyproject(?:[._-](?P<name>[^/]+))?\.toml$")
DEFAULT_VARIANT = "default"
"""What the variant of a plain ``pyproject.toml`` is called."""

_CLAUSE = re.compile(r"\s*(===|==|~=|>=|<=|!=|<|>|\^|~|)\s*([^\s,<>=!~^][^\s,<>=~^]*)\s*")


@dataclass(frozen=True)
class Pin:
    """One version specifier of a package in a manifest.

    Args:
        line: Its line, from 1.
        start: The offset of the specifier in the text, as ``end`` is the one behind it.
        spec: The specifier as written; "" where the package has none.
        group: What the manifest calls the list: "project.dependencies", or "" for a plain file.
        why_fixed: Why no edit is made here, or "".
    """

    path: str
    line: int
    start: int
    end: int
    spec: str
    group: str = ""
    why_fixed: str = ""

    @property
    def variant(self) -> str:
        """The variant of a project that the manifest is for; "" where it is for all of them."""
        return variant_of(self.path)


def variant_of(path: str) -> str:
    """Return the variant that a ``pyproject*.toml`` is for; "" for any other file."""
    found = _VARIANT.search(path)
    return "" if found is None else found["name"] or DEFAULT_VARIANT


def name_pattern(name: str) -> str:
    """Return a pattern for a name in any of its spellings."""
    parts = [re.escape(each) for each in normal_name(name).split("-")]
    # No \b, since "-" and "." are part of names. PEP 503 folds runs of [-_.].
    return rf"(?i:(?<![\w.$/-]){'[-_.]+'.join(parts)})(?![\w-]|\.\w)"


def pin_at(path: str, text: str, span: tuple[int, int], group: str = "", why: str = "") -> Pin:
    """Return the pin between two offsets of a manifest's text."""
    start, end = span
    return Pin(path, text.count("\n", 0, start) + 1, start, end, text[start:end], group, why)


class EditedFiles(Files):
    """A tree whose pins have moved, each to its new specifier."""

    def __init__(self, files: Files, specs: Iterable[tuple[Pin, str]]) -> None:
        super().__init__(files.root, list(files.paths), has_git=files.has_git)
        self._files = files
        places: dict[str, dict[tuple[int, int], str]] = {}
        for pin, spec in specs:
            places.setdefault(pin.path, {})[pin.start, pin.end] = spec
        self.edits = {path: self._edited(path, each) for path, each in sorted(places.items())}
        """The new bytes of each file that changes."""

    def _edited(self, path: str, places: dict[tuple[int, int], str]) -> bytes:
        # Offsets count in this decoding, which find_pins uses as well.
        text = (self._files.data(path) or b"").decode("utf-8", "surrogateescape")
        # From the end, so that earlier offsets stay right.
        for (start, end), spec in sorted(places.items(), reverse=True):
            text = f"{text[:start]}{spec}{text[end:]}"
        return text.encode("utf-8", "surrogateescape")

    def _read_bytes(self, path: str) -> bytes | None:
        return self.edits[path] if path in self.edits else self._files.data(path)


def admits(spec: str, version: Version) -> bool | None:
    """Return whether a specifier admits a release; None where it is none that can be read."""
    try:
        plain = ",".join(_plain(*_split(each)) for each in spec.split(",") if each.strip())
        # Pre-releases are off by default in packaging, and the user asked for this one by name.
        return SpecifierSet(plain).contains(version, prereleases=True)
    except (InvalidSpecifier, InvalidVersion, ValueError):
        return None


def moved(spec: str, version: Version) -> str | None:
    """Return the specifier for a release; None where no edit in its style admits it.

    An exact pin moves always, and a range only where it does not admit the release: then both of
    its ends move, each as precise as it was. What separates the clauses stays as it is.

    Args:
        spec: What is written, as PEP 440 or as poetry has it (``^1.2``, ``~1.2``, ``1.*``).
    """
    inside = admits(spec, version)
    if inside is None:
        return None
    clauses = [_split(each) for each in spec.split(",") if each.strip()]
    is_exact = any(op in ("==", "===") and "*" not in text for op, text in clauses)
    if not clauses or (inside and not is_exact):
        return spec
    # The commas stay in the list, so that blanks around them are kept as written.
    pieces = re.split(r"(,)", spec)
    try:
        changed = "".join(each if each == "," else _moved(each, version) for each in pieces)
    except (InvalidVersion, ValueError):
        return None
    # Each clause was moved alone; together they may still exclude the release.
    return changed if admits(changed, version) else None


def _split(clause: str) -> tuple[str, str]:
    found = _CLAUSE.fullmatch(clause)
    if found is None:
        raise ValueError(clause)
    return found[1], found[2]


def _plain(op: str, text: str) -> str:
    """Return a clause of poetry as PEP 440 has it."""
    if op in ("^", "~"):
        parts = list(Version(text).release)
        # ^ keeps the leftmost number that is not zero: ^0.2.3 means <0.3. poetry's ~1.2 means <1.3
        # and ~1 means <2, unlike PEP 440's ~=.
        first = next((index for index, each in enumerate(parts) if each), len(parts) - 1)
        at = first if op == "^" else min(1, len(parts) - 1)
        return f">={text},<{'.'.join(map(str, [*parts[:at], parts[at] + 1]))}"
    if op == "":
        return "" if text == "*" else f"=={text}"
    return f"{op}{text}"


def _moved(clause: str, version: Version) -> str:
    op, text = _split(clause)
    new = text
    if op in ("==", "===", "") and "*" not in text:
        new = str(version)
    elif text.endswith(".*"):
        new = f"{_cut(version, text.count('.'))}.*"
    elif op in ("~=", "^", "~"):
        new = _cut(version, text.count(".") + 1)
    elif op in (">=", ">"):
        new = _cut(version, text.count(".") + 1)
        fits = SpecifierSet(f"{op}{new}").contains(version, prereleases=True)
        # `>1.2` cut to the release itself would exclude it.
        new = new if fits else text
    elif op == "<" and not SpecifierSet(f"<{text}").contains(version, prereleases=True):
        new = _upper(text, version)
    elif op == "<=" and not version <= Version(text):
        new = str(version)
    elif op == "!=" and not SpecifierSet(f"!={text}").contains(version, prereleases=True):
        raise ValueError(clause)
    at = clause.index(text, len(clause) - len(clause.lstrip()) + len(op))
    return f"{clause[:at]}{new}{clause[at + len(text) :]}"


def _upper(text: str, version: Version) -> str:
    """Return the next bound of the kind that was written: ``<8``, ``<7.2``, ``<8.0.0``."""
    parts = [int(each) for each in Version(text).release]
    written = len(parts)
    # Trailing zeros are style: <8.0.0 is a bound of the major number.
    while len(parts) > 1 and parts[-1] == 0:
        parts.pop()
    release = [*version.release, *[0] * len(parts)][: len(parts)]
    release[-1] += 1
    return ".".join(str(each) for each in [*release, *[0] * (written - len(release))])


def _cut(version: Version, count: int) -> str:
    """Return the first numbers of a release; all of it where a suffix follows them."""
    # >=2.0 does not admit 2.0rc1, so the suffix has to stay.
    if version.is_prerelease or version.is_postrelease:
        return str(version)
    return ".".join(str(each) for each in [*version.release, 0, 0, 0][: max(count, 1)])


def excludes(one: str, other: str) -> bool:
    """Return whether no release is admitted by both of two specifiers, as far as they are read."""
    try:
        both = SpecifierSet(f"{one},{other}".strip(","))
    except InvalidSpecifier:
        return False
    ends = [each.version.removesuffix(".*") for each in both]
    # What is admitted by both, if anything, begins at an end or just behind one.
    tried = [f"{end}{more}" for end in ends for more in ("", ".1")] + ["0"]
    return not any(both.contains(each, prereleases=True) for each in tried)
