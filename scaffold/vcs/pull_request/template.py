"""The template of a repository's pull requests: where it is, and how it is filled."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from scaffold.analysis.files.files import MAX_BYTES
from scaffold.analysis.files.markdown import FENCE
from scaffold.errors import RequestError

# The names and folders in which GitHub looks, in any case of letters.
_NAMES = ("pull_request_template.md", "pull_request_template.txt", "pull_request_template")
_FOLDERS = (".github", "", "docs")
_HEADING = re.compile(r" {0,3}#{1,6}\s+(?P<title>.*?)\s*#*\s*")
_UNDERLINE = re.compile(r" {0,3}(?:=+|-{2,})\s*")
_UNDERLINED = re.compile(r" {0,3}(?![-*+>#|`<])\S.*")
# A line in bold: a title where no heading is above it, else one inside of a section.
_BOLD = re.compile(r"\*\*(?P<title>[^*]+)\*\*:?\s*")
# `- [ ] Bug fix`: a box that nobody has ticked.
_BOX = re.compile(r"(?P<lead>\s*[-*+] \[) (?P<rest>\]\s+(?P<label>.*))")

DEFAULT = """\
## Why

<!-- Say what this is for; the diff shows what it does. -->

## Changes

## Risk areas

## Tests

## Breaking changes

## References
"""

NO_RISKS = "None of the areas that reviews tell apart."
NO_BREAKING = "None that the diff shows."
NO_REFERENCES = "None."
_ONLY_WHERE_ASKED = (NO_RISKS, NO_BREAKING, NO_REFERENCES)
"""Below a heading that asks; a template that does not ask needs no such line."""

_TITLES = {
    "why": "Why",
    "changes": "Changes",
    "risks": "Risk areas",
    "tests": "Tests",
    "breaking": "Breaking changes",
    "references": "References",
}
"""What is above a part that no heading of a template asks for, in the order of the parts."""

SECTIONS: dict[str, re.Pattern[str]] = {
    "breaking": re.compile(r"breaking|compatib|migration", re.I),
    "risks": re.compile(r"\brisk|\bimpact|\baffected\b", re.I),
    "tests": re.compile(r"\b(test|validat|verif)", re.I),
    "references": re.compile(r"\b(issue|reference|related|link|ticket|closes|fixes)", re.I),
    "why": re.compile(
        r"^\W*why\b|motivation|rationale|purpose|(?<!additional )\b(context|background)", re.I
    ),
    "changes": re.compile(r"\b(change|summary|description|what|overview|implement|detail)", re.I),
}
"""What a heading asks for, in the order in which it is tried."""

_TYPE_WORDS: dict[str, re.Pattern[str]] = {
    "feat": re.compile(r"\bfeatures?\b|\bfeat\b|\benhancement", re.I),
    "fix": re.compile(r"\bbugs?\b|\b(?:bug|hot)?fix(?:es)?\b", re.I),
    "docs": re.compile(r"\bdoc", re.I),
    "refactor": re.compile(r"refactor", re.I),
    "test": re.compile(r"^\W*tests?\b", re.I),
    "perf": re.compile(r"\bperf(?:ormance)?\b", re.I),
    "style": re.compile(r"\bstyl(?:e|ing)\b|\b(?:re)?formatting\b", re.I),
    "build": re.compile(r"\bbuild|dependenc", re.I),
    "ci": re.compile(r"\bci\b|continuous", re.I),
    "chore": re.compile(r"chore|mainten", re.I),
    "revert": re.compile(r"revert", re.I),
}
# `Fixes #(issue)`, `Closes: #<number>`, `Resolves #`: a place for the issue, which nobody filled.
# A number is an example: no issue is that of every pull request.
_GAP = re.compile(
    r"(?P<lead>.*\b(?:fix(?:es|ed)?|close[sd]?|resolve[sd]?|refs?|related to|part of|issue)\b:?\s*)"
    r"#\s*(?:\([^)]*\)|<[^>]*>|\[[^\]]*\]|\{[^}]*\}|_+|x+|n+|\d+|issue\w*|number|\.\.\.)?\s*[.]?",
    re.I,
)
_QUOTE = re.compile(r" {0,3}>")
_ALERT = re.compile(r" {0,3}>\s*\[!\w+\]")
# "Delete all quotes before creating the pull request."
_NO_QUOTES = re.compile(r"\b(?:delete|remove)\b[^.!]*\bquotes?\b", re.I)
_BREAKING_WORD = re.compile(r"\bbreaking\b", re.I)
_NOT_BREAKING = re.compile(r"\b(?:non|not|no|without)\b.*\bbreaking\b", re.I)
_ASIDE = re.compile(r"\([^)]*\)?")
_KIND = re.compile(r"\b(type|kind)\b", re.I)


class Template(NamedTuple):
    """The text that a pull request begins with; its path is None for the built-in one."""

    path: str | None
    text: str


def find_template(root: Path, name: str | None = None) -> Template:
    """Return a repository's template.

    Args:
        name: Of several in a folder PULL_REQUEST_TEMPLATE, the one to take.

    Raises:
        RequestError: There is none of that name, or it is no text.
    """
    single, several = _all_templates(root)
    if name is not None:
        for path in (*several, *single):
            if name in (path.name, path.stem, path.relative_to(root).as_posix()):
                return _read(root, path)
        known = ", ".join(path.stem for path in several) or "none"
        raise RequestError(
            f"there is no template {name!r}; known: {known}",
            code="template_unknown",
            hint="they are in .github/PULL_REQUEST_TEMPLATE",
        )
    # Of several templates GitHub takes none unasked either.
    for path in (*single, *(each for each in several if len(several) == 1)):
        return _read(root, path)
    return Template(None, DEFAULT)


def _all_templates(root: Path) -> tuple[list[Path], list[Path]]:
    single: list[Path] = []
    several: list[Path] = []
    for folder in (root / each for each in _FOLDERS):
        rows = sorted(folder.iterdir()) if folder.is_dir() else []
        single += [
            row for wanted in _NAMES for row in rows if row.name.lower() == wanted and row.is_file()
        ]
        for row in rows:
            if row.name.lower() == "pull_request_template" and row.is_dir():
                several += sorted(path for path in row.iterdir() if path.suffix in (".md", ".txt"))
    return single, several


def _read(root: Path, path: Path) -> Template:
    shown = path.relative_to(root).as_posix()
    try:
        if not path.resolve().is_relative_to(root.resolve()):
            raise OSError("it is a link that leads out of the repository")
        if path.stat().st_size > MAX_BYTES:
            raise OSError("it is too long")
        return Template(shown, path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        raise RequestError(
            f"the template {shown} cannot be read: {error}",
            code="source_unreadable",
            hint="repair it, or give the text with --body",
        ) from error


def fill_template(
    text: str,
    parts: Mapping[str, str],
    type_: str,
    references: Sequence[str] = (),
    *,
    is_breaking: bool,
) -> str:
    """Return a template with what is known below its headings, its own lines kept.

    What no heading asks for follows the changes, and those the text above the first heading. A line
    such as ``Fixes #(issue)`` names the issue of the branch, or goes. A quote that is
    first below a heading asks for a text there, and goes where that is written; below other
    headings it is for the author still. All go where the template asks for that.

    Args:
        type_: The type of the change; boxes that name it are ticked.
    """
    text = text.replace("\r\n", "\n")
    filled = _without_gaps(text, references)
    blocks = _blocks(filled)
    left = {key: part.strip() for key, part in parts.items() if part.strip()}
    if references and filled != text:
        left.pop("references", None)  # they are where the template wants them
    # The first heading that asks for a part gets it; a second one stays the author's.
    places: dict[str, int] = {}
    for number, (title, _) in enumerate(blocks):
        asks = _asked(title)
        if asks in left:
            places.setdefault(asks, number)
    if "why" in left and "changes" in places and "why" not in places:
        left["changes"] = f"{left.pop('why')}\n\n{left['changes']}"
    found: dict[int, list[str]] = {number: [left.pop(key)] for key, number in places.items()}
    last = places.get("changes", places.get("why", 0))
    found.setdefault(last, []).extend(
        f"**{title}**\n\n{left[key]}"
        for key, title in _TITLES.items()
        if left.get(key, NO_RISKS) not in _ONLY_WHERE_ASKED
    )
    rows: list[str] = []
    is_bare = _NO_QUOTES.search(text) is not None
    for number, (title, lines) in enumerate(blocks):
        if number in places.values() or is_bare:
            lines = _without_quotes(lines, is_all=is_bare)
        rows += _ticked(title, lines, type_, is_breaking=is_breaking)
        if found.get(number):
            # Blank lines below a heading would pile up with those around the part.
            while rows and not rows[-1].strip():
                rows.pop()
            rows += ["", *"\n\n".join(found[number]).split("\n"), ""]
    return "\n".join(rows).strip("\n") + "\n"


def _without_gaps(text: str, references: Sequence[str]) -> str:
    rows: list[str] = []
    for line, is_hidden in _lines(text):
        gap = None if is_hidden or "<!--" in line else _GAP.fullmatch(line)
        rows += [line] if gap is None else [f"{gap['lead']}{each}" for each in references]
        # Further places say the same by other words.
        references = references if gap is None else ()
    return "\n".join(rows)


def _without_quotes(lines: Sequence[str], *, is_all: bool) -> list[str]:
    """Drop the quote that is first below a heading, or all; ``> [!NOTE]`` is for readers."""
    rows: list[str] = []
    is_quote = is_dropped = False
    for line, is_hidden in _lines("\n".join(lines)):
        was_quote, is_quote = is_quote, not is_hidden and _QUOTE.match(line) is not None
        if is_quote and not was_quote:
            is_first = not any(row.strip() for row in rows[1:])
            is_dropped = (is_all or is_first) and _ALERT.match(line) is None
        # The blank line behind a quote goes with it.
        is_behind = was_quote and not line.strip()
        rows += [] if is_dropped and (is_quote or is_behind) else [line]
    return rows


def _lines(text: str) -> Iterator[tuple[str, bool]]:
    """Yield each line, and whether it is code or part of a comment that began above it."""
    is_code = is_comment = False
    for line in text.split("\n"):
        is_code ^= FENCE.match(line) is not None
        yield line, is_code or is_comment
        # A comment that closes and opens again on one line is open at its end.
        is_comment = (is_comment or "<!--" in line) and line.rfind("-->") <= line.rfind("<!--")


def _blocks(text: str) -> list[tuple[str, list[str]]]:
    """Split at headings: the title and the lines, with the heading's own; "" above the first."""
    blocks: list[tuple[str, list[str]]] = [("", [])]
    is_below = False
    for line, is_hidden in _lines(text.rstrip("\n")):
        above = blocks[-1][1]
        match = None if is_hidden else _HEADING.fullmatch(line)
        if match is None and not is_hidden and not is_below:
            match = _BOLD.fullmatch(line)
        elif match is not None:
            is_below = True
        is_underline = not is_hidden and _UNDERLINE.fullmatch(line) is not None
        if is_underline and above and _UNDERLINED.fullmatch(above[-1]):
            is_below = True
            blocks.append((above[-1].strip(), [above.pop()]))
        elif match is not None:
            blocks.append((match["title"], []))
        blocks[-1][1].append(line)
    return blocks


def _asked(title: str) -> str:
    if _KIND.search(title):  # "Type of change" asks for a box, not for the changes
        return ""
    return next((key for key, pattern in SECTIONS.items() if title and pattern.search(title)), "")


def _ticked(title: str, lines: list[str], type_: str, *, is_breaking: bool) -> list[str]:
    """Tick the box of the type where a section asks for it, if one alone fits.

    A box for breaking changes is about the change and not about its type.
    """
    boxes = [box for line in lines if (box := _BOX.fullmatch(line))] if _KIND.search(title) else []
    fits = [box for box in boxes if type_ in _types_of(box["label"])]
    # Of a breaking fix "Bug fix (non-breaking change)" is wrong.
    fits = [box for box in fits if not (is_breaking and _NOT_BREAKING.search(box["label"]))]
    breaks = [box for box in boxes if is_breaking and _is_for_breaking(box["label"])]
    hits = {id(box) for each in (fits, breaks) if len(each) == 1 for box in each}
    ticked = {box.string: f"{box['lead']}x{box['rest']}" for box in boxes if id(box) in hits}
    return [ticked.get(line, line) for line in lines]


def _is_for_breaking(label: str) -> bool:
    said = _ASIDE.sub("", label)
    return bool(_BREAKING_WORD.search(said)) and not _NOT_BREAKING.search(said)


def _types_of(label: str) -> set[str]:
    """Return the types that a box names, its explanation apart; none where it is on breaking."""
    said = _ASIDE.sub("", label)
    if _BREAKING_WORD.search(said):
        return set()
    found = {name for name, pattern in _TYPE_WORDS.items() if pattern.search(said)}
    # "Documentation fix" is for another type than fix.
    return found - {"fix"} or found
