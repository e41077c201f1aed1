"""Numbers beside what can be counted, lowest versions, exact pins, tags of images."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from scaffold.analysis.lazy_re import lazy_re
from scaffold.skills.check.read.documents import Document
from scaffold.skills.check.read.markdown import Block, Span, words_of
from scaffold.skills.check.reference import Reference
from scaffold.skills.check.references.placeholders import ELISION, is_placeholder
from scaffold.skills.check.references.shell import invocations
from scaffold.skills.check.references.trees import find_trees

_SPELLED: str = "two|three|four|five|six|seven|eight|nine|ten|eleven|twelve"
_WORDS = tuple(_SPELLED.split("|"))
_NUMBER = rf"(?P<number>\d{{1,4}}|{_SPELLED})"
_ENTRIES = r"(?:entries|items|elements|keys|members|options|choices|rows|values|variants)"
_FILES = (
    r"(?:\w+\s+)?(?:files|modules|skills|folders|subfolders|directories|packages|tests|scripts"
    r"|examples|templates|workflows|agents|commands|pages|migrations|rules|benchmarks)"
)
_VERB = r"(?:has|have|holds?|contains?|lists?|defines?|registers?|includes?)"
_BEHIND = lazy_re(
    rf"^\s*(?:\(|(?:currently\s+|now\s+)?{_VERB}\s+)(?:exactly\s+)?{_NUMBER}\s+"
    rf"(?:(?P<entries>{_ENTRIES})|(?P<files>{_FILES}))\b"
    r"(?!\s*/|\s+(?:per|each|or more|or fewer))",
    re.IGNORECASE,
)
_AHEAD = lazy_re(
    rf"(?:^|[.:(;,]\s*|\b(?:the|all|are|these|of|is)\s+){_NUMBER}\s+"
    rf"(?:(?P<entries>{_ENTRIES})|(?P<files>{_FILES}))\s+(?:in|of|under|inside)\s+(?:the\s+)?\Z",
    re.IGNORECASE,
)
# "(~675 lines)", "— the largest file, 675 lines": a bound, "under 500 lines", is another thing.
_LENGTH = lazy_re(
    r"^\s*(?:[(,:–—-]|is|has)\s*(?:[^.;|`()\d~≈]{0,40}?[,\s])??(?:[~≈]|(?:about|around|roughly"
    r"|approximately|currently)\s+)?(?P<number>\d{1,3}(?:,\d{3})+|\d{2,6})\s+(?:lines|LOC)\b(?!\s+or)",
    re.IGNORECASE,
)
_CELL = lazy_re(r"[~≈]?(?P<number>\d{1,3}(?:,\d{3})+|\d{2,6}) (?:lines|LOC)", re.IGNORECASE)
_BOUND = lazy_re(
    r"\b(?:under|below|up to|at most|max|more|less|fewer|over|first|last|keep|limit)", re.I
)
# "119 characters (configured in `pyproject.toml`)": what a file is said to hold.
_HELD = lazy_re(
    r"(?<![\w.])(?P<number>\d{2,6})\b[^.;|`\d]{0,40}\(?(?:configured|set|defined|specified|declared"
    r"|enforced)\s+(?:in|by)\s+(?:the\s+)?\Z",
    re.IGNORECASE,
)
# "There are three layers:" above a list counts its items.
_INTRODUCED = lazy_re(
    rf"(?:^|(?<!least)(?<!most)(?<!than)(?<!up to)[\s(*]){_NUMBER}\**\s+"
    r"(?:[\w/-]+\s+){0,3}[\w-]+s\**\s*(?:\([^()]*\))?\s*:\s*\Z",
    re.IGNORECASE,
)
_VARIABLE = lazy_re(r"(?:[A-Za-z_]\w*\.)*_*[A-Z][A-Za-z0-9_]+")
_FILE = lazy_re(r"(?:\.{0,2}/)?(?:[\w.@-]+/)*[\w.@-]*\.\w+")
_FOLDER = lazy_re(r"\.{0,2}/?[\w.@-]+(?:/[\w.@-]+)*/?")
# "Python 3.10+", "Python >= 3.10"; a word behind it makes it that of a feature.
_FLOOR = lazy_re(
    r"\b(?P<tool>Python|Node(?:\.js)?|Go|Rust)\**:?\**\s*(?P<sign>>=|≥)?\s*v?"
    r"(?P<version>\d+(?:\.\d+){0,2})(?![\d.]*[A-Za-z\d])\s*"
    r"(?P<more>\+|or (?:newer|later|higher|above))?"
    r"(?=\**\s*(?:$|[.,;:)|]|\n|—|-\s))",
    re.MULTILINE,
)
# "Python 3.10, 3.11 and 3.12", "Python version (3.10-3.12)": the first is the lowest.
_SET = lazy_re(
    r"\bPython\b[^\d\n.;]{0,30}?(?P<version>[23]\.\d+)"
    r"(?:(?:\s*[,/–-]\s*|\s*,?\s+(?:and|or|to)\s+)\**(?:(?:and|or)\s+)?[23]\.\d+)+",
)
_TOOLS = {"Python": "python", "Node": "node", "Node.js": "node", "Go": "go", "Rust": "rust"}
_PIN = lazy_re(
    r"(?<![\w./@-])(?P<name>[A-Za-z][\w.-]*)(?:\[[\w,.-]+\])?==(?P<version>\d[\w.!+]*)(?![\w.*])"
)
_IMAGE = lazy_re(
    r"(?P<name>[a-z0-9][\w.-]*(?::\d{2,5})?(?:/[a-z0-9][\w-]*)+):(?P<tag>[A-Za-z0-9_][\w.-]*)"
)
# Without a slash it may be anything, except behind `docker run`.
_SHORT = lazy_re(r"(?P<name>[a-z][a-z0-9-]*):(?P<tag>v?\d[\w.-]*)")
# A package and its limit in one clause, with some words between.
_LIMIT = lazy_re(
    r"(?<![\w./@-])`?(?P<name>[A-Za-z][\w-]*[\w])`?(?:[ \t]+[a-z]+){0,4}[ \t]*`?"
    r"(?P<sign><=?|≤)[ \t]*v?(?P<version>\d+(?:\.\d+)+)(?![\w.-]*\w)"
)
_MINOR = lazy_re(r"[23]\.\d+")
_INSTALLERS = frozenset({"pip", "pip3", "uv", "poetry", "pdm", "conda", "mamba", "pipx"})
_MAKERS = frozenset({"build", "push", "tag"})


class Count(NamedTuple):
    """A number with what it counts: entries of a variable, files of a folder, lines of a file.

    Args:
        number: The number.
        written: The words for it.
        of: The variable or the path.
        unit: "entries", "files" or "lines"; "held" for a number that a file is said to hold;
            "items" for those of the list below it, with their number as what it is of.
    """

    number: int
    written: str
    of: str
    unit: str


class Given(NamedTuple):
    """A version: the lowest of a tool ("floor"), a pin, a tag ("image") or a limit ("<2.1")."""

    what: str
    name: str
    version: str


def find_numbers(document: Document) -> Iterator[Reference]:
    """Yield the counts, versions and tags of a document."""
    for span in document.markdown.codes:
        yield from _count(span)
        if found := _PIN.fullmatch(span.text):
            data = Given("pin", found["name"], found["version"])
            yield Reference("version", span.text, span.line, span.column, data, span=span)
        elif (found := _IMAGE.fullmatch(span.text)) and not is_placeholder(span.text):
            data = Given("image", found["name"], found["tag"])
            yield Reference.at(span, "image", data)
    yield from _drawn_lengths(document)
    yield from _introduced(document)
    for block in document.markdown.blocks:
        if block.kind in ("heading", "paragraph", "item", "cell") or (
            block.kind == "fence" and not block.info
        ):
            yield from _versions(block)
    for line in invocations(document):
        if line.span is not None:
            continue
        texts = [word.text for word in line.words]
        installs = not _INSTALLERS.isdisjoint(texts[:4]) and "upgrade" not in " ".join(texts)
        takes = texts[0] in ("docker", "podman") and texts[1:2] in (["pull"], ["run"])
        for index, word in enumerate(line.words):
            before = texts[index - 1] if index else ""
            if texts[0] == "uv" and before in ("--python", "-p") and _MINOR.fullmatch(word.text):
                data = Given("floor", "python", word.text)
                place = (line.line_of(index), line.columns[index])
                yield Reference("version", f"{before} {word.text}", *place, data, line.block)
                continue
            pin = _PIN.fullmatch(word.text) if installs and word.is_sure else None
            image = None if pin or _MAKERS & set(texts) else _IMAGE.fullmatch(word.text)
            if takes and image is None:
                image = _SHORT.fullmatch(word.text)
                takes = image is None  # what follows is for the program in it
            if pin or (image and word.is_sure and not is_placeholder(word.text)):
                found = pin or image
                assert found is not None, "one of the two is there"
                what = "pin" if pin else "image"
                data = Given(what, found["name"], found["version" if pin else "tag"])
                place = (line.line_of(index), line.columns[index])
                yield Reference(
                    "version" if pin else "image", found.group(), *place, data, line.block
                )


def _count(span: Span) -> Iterator[Reference]:
    # `pkg/.../a.py` may be of one file.
    path = ELISION.sub("/", span.text)
    if _FILE.fullmatch(path) and not is_placeholder(path):
        lines, held = _LENGTH.match(span.after), _HELD.search(span.before[-80:])
        if lines and not _BOUND.search(lines.group()):
            yield _of_file(span, lines["number"], "lines")
        elif number := _row_length(span):
            yield _of_file(span, number, "lines")
        elif held:
            yield _of_file(span, held["number"], "held")
    found = _BEHIND.match(span.after) or _AHEAD.search(span.before[-60:])
    if found is None or "each" in span.before[-30:].lower() or is_placeholder(span.text):
        return
    is_folder = bool(found["files"])
    if not (_FOLDER if is_folder else _VARIABLE).fullmatch(span.text):
        return
    written = found["number"]
    number = int(written) if written.isdigit() else _WORDS.index(written.lower()) + 2
    text = f"{span.text}: {written} {found['files'] or found['entries']}"
    data = Count(number, written, span.text, "files" if is_folder else "entries")
    yield Reference("count", text, span.line, span.column, data, span=span)


def _row_length(span: Span) -> str:
    """Return the size that another cell gives the file which begins a row, or nothing."""
    block = span.block
    if block.kind != "cell" or block.row[:1] != (block.text,):
        return ""
    return next((found["number"] for each in block.row[1:] if (found := _CELL.fullmatch(each))), "")


def _drawn_lengths(document: Document) -> Iterator[Reference]:
    """Yield the sizes that a drawing gives its files: `trace.ts  (183 lines)`."""
    for each in find_trees(document):
        if each.kind != "tree" or each.block is None:
            continue
        row = each.block.text.split("\n")[each.line - each.block.line]
        found = _LENGTH.match(row.rpartition(each.data.path.rpartition("/")[2])[2])
        if found and not _BOUND.search(found.group()):
            of = f"{each.data.root}/{each.data.path}".strip("/")
            written = found["number"]
            count = Count(int(written.replace(",", "")), written, of, "lines")
            text = f"{each.text}: {written} lines"
            yield Reference("count", text, each.line, each.column, count, each.block)


def _introduced(document: Document) -> Iterator[Reference]:
    """Yield the numbers that introduce a list: "three layers:"."""
    blocks = document.markdown.blocks
    items = Counter(each.intros for each in blocks if each.opens_item)
    written = Counter(each.text for each in blocks)
    for block in blocks:
        found = _INTRODUCED.search(block.text) if block.text[-1:] == ":" else None
        sizes = [size for intros, size in items.items() if intros[-1] == block.text]
        # One item may be of all that is counted.
        if found and len(sizes) == 1 and sizes[0] > 1 and written[block.text] == 1:
            number = found["number"]
            value = int(number) if number.isdigit() else _WORDS.index(number.lower()) + 2
            span = words_of(block, found.start("number"), len(block.text))
            yield Reference.at(span, "count", Count(value, number, str(sizes[0]), "items"))


def _of_file(span: Span, written: str, unit: str) -> Reference:
    data = Count(int(written.replace(",", "")), written, span.text, unit)
    text = f"{span.text}: {written}{' lines' if unit == 'lines' else ''}"
    return Reference.at(span, "count", data, text)


def _versions(block: Block) -> Iterator[Reference]:
    """Yield the lowest versions of tools, and the limits of packages: "scipy must be <1.8.0"."""
    for found in _FLOOR.finditer(block.text) if block.kind != "fence" else ():
        if found["sign"] or found["more"]:
            data = Given("floor", _TOOLS[found["tool"]], found["version"])
            yield _version(block, found, data, found.group().strip().strip("*"))
    for found in _SET.finditer(block.text):
        yield _version(block, found, Given("floor", "python", found["version"]))
    # The pattern is tried at each word.
    has_sign = block.kind != "fence" and ("<" in block.text or "≤" in block.text)
    for found in _LIMIT.finditer(block.text) if has_sign else ():
        sign = found["sign"].replace("≤", "<=")
        yield _version(block, found, Given("limit", found["name"], f"{sign}{found['version']}"))


def _version(block: Block, found: re.Match[str], data: Given, text: str = "") -> Reference:
    return Reference.at(words_of(block, found.start(), found.end(), text), "version", data)
