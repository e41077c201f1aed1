"""What inline code names: paths, places in files, names of code, and a name with its file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from scaffold.analysis.lazy_re import lazy_re
from scaffold.skills.check.read.documents import Document
from scaffold.skills.check.read.markdown import Block, Span, words_of
from scaffold.skills.check.reference import Reference
from scaffold.skills.check.references.code import TELLING
from scaffold.skills.check.references.named import Anchor, Symbol
from scaffold.skills.check.references.placeholders import is_invented, is_placeholder

_EXTENSIONS = (
    "py|pyi|pyx|pxd|md|mdc|rst|toml|ya?ml|json|jsonl|jsonc|sh|bash|zsh|ps1|bat|js|mjs|cjs|ts|tsx|jsx"
    "|css|scss|html|txt|cfg|ini|lock|rs|go|java|kt|c|cc|cpp|h|hpp|cu|cuh|rb|php|sql|proto|tf|xml"
    "|csv|ipynb|j2|jinja2?|svg|png|jpg|pdf|conf|service|dockerfile|mk|cmake|swift|lua|in|gradle"
)
# Lines as they are given behind a file: "f.py:10-20", "f.py: 10-20", "f.py#L10", "f.py L10-L20".
_COLON = r"(?::(?=\d)|#L(?=\d)|:\s(?=\d+\s*[-–]\s*\d))"
_WORD = r"(?:[Ll]ines?|L)\.?\s*~?"
_RANGE = r"(?P<line>\d{1,7})(?:\s*(?:[-–:]|to|and)\s*L?(?P<end>\d{1,7}))?(?!\d)"
_PATH = lazy_re(
    r"(?P<path>\.{0,2}/?[\w@.+~<>{}$*\[\]-]+(?:/[\w@.+~<>{}$*\[\]-]+)*/?)"
    rf"(?:(?:{_COLON}|,?\s+{_WORD}){_RANGE}(?P<more>(?:,\s*\d+(?:[-–]\d+)?)*))?"
    r"(?P<node>(?:::[\w\[\]-]+)*)"
)
_HAS_EXTENSION = lazy_re(rf"[\w>}}\])*-]\.(?:{_EXTENSIONS})$")
_NO_PATH = lazy_re(r"^(?:https?:|[a-z]+://|~|/|@|\$|-|\d+/\d+$|[\w-]+\.(?:com|org|io|dev|ai)\b)")
_HOME = lazy_re(r"/(?:home|Users)/[\w.-]+/(?=[\w.-]+/)")
# The end of a file's name behind another part or in front of lines, between blanks or brackets.
_WORDS = lazy_re(
    rf"(?<![\w./@:~$#<>{{}}*-])(?P<path>\.?[\w-][\w.-]*(?:/[\w.-]+)*\.(?:{_EXTENSIONS}))"
    rf"(?:(?:{_COLON}|[\s,(]{{1,3}}{_WORD}){_RANGE}(?!\w|\s?%))?(?![\w/*<{{-]|\.\w)"
)
_MARKED = lazy_re(r"`[^`]*`|\]\([^()]*\)|<[^<>]*>|https?://\S+", re.DOTALL)
_COMMENT = lazy_re(r"(?:^|\s)(?:#|//)(?=\s)")
_BRANCH = lazy_re(r"[├└│]")
_LISTED = lazy_re(
    rf"^\s*(?P<path>(?:\.\.?/)*[\w.-]+(?:/[\w.-]+)*\.(?:{_EXTENSIONS}))\s*(?:(?:#|//|←|→|—)\s.*)?$"
)
_IMPORT = lazy_re(r"(?<!\S)@(?P<path>[\w./-]+\.\w+)(?!\S)")
_SYMBOL = lazy_re(r"(?P<name>[A-Za-z_]\w*(?:(?:\.|::)[A-Za-z_]\w*)*)(?P<call>\(.*\))?", re.DOTALL)
_LINKED = lazy_re(
    r"^\s*(?:is|are|—|–|:|\()?\s*(?:an? )?sym(?:bolic )?link(?:s|ed)? (?:to )?(?:the )?(?:→\s*)?$"
)
# `trainer.policy.lr=1e-6`: a setting as command lines and OmegaConf write it.
_KEY = lazy_re(r"\+{0,2}(?P<key>[a-z_]\w*(?:\.[a-z_]\w*)+)=(?:[^=\s(].*)?")
# `/create-worktree`: of several words, as a path of one part may be anything.
_SLASH = lazy_re(r"/(?P<name>[a-z]+(?:-[a-z]+)+)(?: .*)?")
_MARK = lazy_re(r"@?pytest\.mark\.(?P<name>\w+)")
# "lines 10-20" or "line 7" beside a path, in front of it or behind.
_BEHIND = lazy_re(
    rf"^(?:{_COLON}|[\s,(]{{0,3}}(?:(?:at|on|near|around)\s+)?{_WORD}){_RANGE}\b", re.IGNORECASE
)
_AHEAD = lazy_re(rf"\b{_WORD}{_RANGE}\s+(?:of|in)\s+(?:the\s+)?$", re.IGNORECASE)
_ROUGH = lazy_re(r"[~≈]|\b(?:near|around|about|approx)", re.IGNORECASE)
# Between a name and its file: "`NAME` in `FILE`", "`FILE`: `NAME`", "`FILE` (`NAME`, lines 1-2)".
_NAME_FILE = lazy_re(
    r"^\s*(?:\(|,?\s*(?:is |are )?(?:defined |declared |found |lives |located )?(?:in|from|inside)"
    r"\s+(?:the\s+)?|(?:at|@)\s+)$"
)
_FILE_NAME = lazy_re(r"^(?:\s*\(|'s\s+|’s\s+|\s*:\s*|\s*→\s*|\s+[—–-]{1,2}\s+)$")
_NEXT = lazy_re(r"^\s*,\s*(?:and\s+)?$")
_IN_FILE = lazy_re(r"^[^`]*\b(?:in|from)\s+`(?P<path>[\w./-]+\.\w+)`[^`]{0,12}:\s*\Z")
_BOLD = lazy_re(r"^\*\*(?P<name>[A-Za-z_]\w*)\*\*\s*(?:[:(—–-]|$)")
# "(default: `x`)", "(optional, defaults to 3)", ": what it does, default true".
_DEFAULT = lazy_re(
    r"^(?:\s*\((?:[^()`]{0,40},\s*)?|[\s:—–(-]{1,4}(?:[^`.;|]{0,60}[,(]\s*)?)"
    r"defaults?(?:\s+(?:to|is))?[:=]?\s*(?:`(?P<value>[^`]+)`|(?P<plain>true|false|\d+(?:\.\d+)?)\b)",
    re.IGNORECASE,
)
# "`Client(temp_dir=...)`; the default is `/tmp`": a call that shows nothing but one argument.
_ONE_ARGUMENT = lazy_re(r"`?[\w.]*\((?P<name>[a-z_]\w*)=(?:\.\.\.|…|[A-Z_]+)\)`?")
_ITS_DEFAULT = lazy_re(
    r"^[;,]?\s*(?:(?:the|its|whose)\s+)?defaults?\s+(?:is|to)\s+`(?P<value>[^`]+)`", re.IGNORECASE
)
# "the `gpu` extra", "the `docs` dependency group"; a column may have it as its title.
_EXTRA = lazy_re(r"\[?[a-z][a-z0-9]*(?:[-_][a-z0-9]+)*\]?")
_CALLED = lazy_re(
    r"^\s+(?:\w+\s+)?(?:(?P<extra>extras?)|(?:dependency|uv|pip) (?P<group>groups?))\b",
    re.IGNORECASE,
)
_TITLED = lazy_re(
    r"^\W*(?:(?P<extra>extras?)|(?:uv |dependency )+(?P<group>groups?))\W*$", re.IGNORECASE
)
# A job, a hook, a class of a style sheet: of two parts at least, in small letters.
_KEBAB = lazy_re(r"\.?[a-z][a-z0-9]*(?:-[a-z0-9]+)+")
_ONE_CODE = lazy_re(r"\**`(?P<name>(?:--)?[A-Za-z_][\w-]*)`\**")
_DEFAULTS = lazy_re(r"\W*default(?: value)?\W*(?:$|/)", re.IGNORECASE)
_ONE_FILE = lazy_re(r"`[\w./-]+\.\w+`")
_MOST_NAMES = 12
_MORE = lazy_re(r"(\d{1,7})(?:[-–](\d{1,7}))?")
_END = lazy_re(r"(?<!e\.g)(?<!i\.e)[.!?]\s")
_FENCE = lazy_re(r"^(?P<line>\d+):(?P<end>\d+):(?P<path>[\w./@-]+)$")


class Place(NamedTuple):
    """A span that names a path, with the lines that are given with it.

    Args:
        span: The span.
        path: The path.
        line: The first line, or 0.
        end: The last line, or 0.
        node: What follows ``::``.
        more: Further lines of the same file, as they are written.
    """

    span: Span
    path: str
    line: int
    end: int
    node: str
    more: str = ""


def find_spans(document: Document) -> Iterator[Reference]:
    """Yield what the inline code of a document names, and the words of tables that are paths."""
    rows: dict[int, list[Span]] = {}
    for span in document.markdown.codes:
        rows.setdefault(id(span.block), []).append(span)
    for spans in rows.values():
        yield from _of_block(spans)
    for block in document.markdown.blocks:
        if block.kind == "item" and (bold := _BOLD.match(block.text)):
            yield from _bold(block, bold["name"])
        if block.kind == "cell" and _DEFAULTS.match(block.info):
            yield from _default(block)
        if "." in block.text and block.kind in ("paragraph", "item", "cell", "heading"):
            yield from _in_words(block)
        elif block.kind == "fence":
            is_plain = block.info.lower() in ("", "text")
            yield from _in_code(block, is_plain=is_plain)
            yield from _in_listing(block) if is_plain else ()
    if document.path.endswith((".md", ".mdc")) and document.kind in ("guide", "rules"):
        yield from _imports(document)


def _bold(block: Block, name: str) -> Iterator[Reference]:
    """Yield the name that an item is about, where no word of prose is written so."""
    if TELLING.fullmatch(name):
        span = Span(name, block.line, 1, block, "", block.text[len(name) + 4 :][:400])
        yield Reference.at(span, "name", Symbol(name))


def _default(cell: Block) -> Iterator[Reference]:
    """Yield the default that a table gives what its row begins with."""
    argument = next(filter(None, map(_ONE_ARGUMENT.search, cell.row)), None)
    named = _ONE_CODE.fullmatch(cell.row[0].strip()) or argument
    value = cell.text.strip().strip("`")
    if named is not None and value and " " not in value:
        span = Span(value, cell.line, 1, cell, "", "")
        yield _given(span, named["name"].lstrip("-").replace("-", "_"), value)


def _given(span: Span, name: str, value: str) -> Reference:
    return Reference.at(span, "default", (name, value), f"{name} (default: {value})")


def _in_words(block: Block) -> Iterator[Reference]:
    """Yield the paths that running text names without marks around them, and lines of files."""
    plain = _MARKED.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), block.text)
    for found in _WORDS.finditer(plain):
        closes = "(" in found.group() and plain.startswith(")", found.end())
        span = words_of(block, found.start(), found.end() + closes)
        lines = found if found["line"] else _AHEAD.search(span.before[-40:])
        kind, data = _worded(found["path"], lines)
        if lines or "/" in found["path"]:
            yield Reference.at(span, kind, data)


def _worded(path: str, lines: re.Match[str] | None) -> tuple[str, str | Anchor]:
    """Return what a path in plain words is, with the lines that are given with it."""
    if lines is None:
        return "path", path
    line, end = int(lines["line"]), int(lines["end"] or lines["line"])
    return "line", Anchor(path, line, end, "", "", (), _ROUGH.search(lines.group()) is not None)


def _in_code(fence: Block, *, is_plain: bool) -> Iterator[Reference]:
    """Yield the paths in the comments of code and in all of a plain block, and lines of files."""
    for number, row in enumerate(fence.text.split("\n"), fence.line):
        comment = _COMMENT.search(row)
        start = comment.end() if comment else len(row)
        is_drawn = _BRANCH.search(row) is not None
        for found in _WORDS.finditer(row, 0 if is_plain and not is_drawn else start):
            lines = found if found["line"] and found.start() >= start else None
            if lines or "/" in found["path"]:
                kind, data = _worded(found["path"], lines)
                text, column = found.group() if lines else found["path"], found.start("path") + 1
                yield Reference(kind, text, number, column, data, fence)


def _in_listing(fence: Block) -> Iterator[Reference]:
    """Yield what begins the rows of a plain block: a path alone or with a remark, or a skill."""
    for number, row in enumerate(fence.text.split("\n"), fence.line):
        if called := _SLASH.fullmatch(row.strip()):
            column = row.index("/") + 1
            yield Reference("skill", f"/{called['name']}", number, column, called["name"], fence)
        if (found := _LISTED.match(row)) and is_path(found["path"]):
            column = found.start("path") + 1
            yield Reference("path", found["path"], number, column, found["path"], fence)


def find_shown(document: Document) -> Iterator[Reference]:
    """Yield the fenced code that names the lines and the file it shows."""
    for fence in document.markdown.fences:
        found = _FENCE.match(fence.info)
        if found is not None:
            anchor = Anchor(found["path"], int(found["line"]), int(found["end"]), "", fence.text)
            yield Reference("line", fence.info, fence.line - 1, 4, anchor, block=fence)


def _of_block(spans: Sequence[Span]) -> Iterator[Reference]:
    places = [place_of(span) for span in spans]
    file = ""
    for index, (span, place) in enumerate(zip(spans, places, strict=True)):
        if place is not None:
            yield from _of_place(place, spans, places, index)
            continue
        if found := _KEY.fullmatch(span.text):
            yield Reference.at(span, "key", found["key"])
            continue
        if called := _SLASH.fullmatch(span.text):
            yield Reference.at(span, "skill", called["name"])
            continue
        called = _CALLED.match(span.after) or (index == 0 and _titled(span.block))
        if called and _EXTRA.fullmatch(span.text):
            family = "extra" if called["extra"] else "group"
            data = (family, span.text.strip("[]"))
            yield Reference.at(span, "extra", data)
            continue
        if _KEBAB.fullmatch(span.text) and not is_invented(span.text):
            data = span.text.lstrip(".")
            yield Reference.at(span, "label", data)
            continue
        found = _SYMBOL.fullmatch(span.text)
        if marked := _MARK.match(span.text):
            yield Reference.at(span, "marker", marked["name"])
            continue
        if found is None or is_placeholder(found["name"]):
            continue
        name, call = found["name"].replace("::", "."), found["call"] or ""
        one = _ONE_ARGUMENT.fullmatch(span.text)
        if (given := _DEFAULT.match(span.after)) and "." not in name and not call:
            yield _given(span, name, given["value"] or given["plain"])
        elif one and (given := _ITS_DEFAULT.match(span.after)):
            yield _given(span, one["name"], given["value"])
        # "`FILE`: `NAME`, `OTHER`": the others of a list are in it, too.
        is_next = index > 0 and _NEXT.match(_gap(spans[index - 1], span)) is not None
        file = _file_of(spans, places, index) or (file if is_next else "")
        file = file or ("" if index else _file_above(span) or _file_of_row(span))
        if "." in name or call or TELLING.fullmatch(name) or (file and len(name) > 3):
            data = Symbol(name, call, file)
            yield Reference.at(span, "name", data)


def _titled(block: Block) -> re.Match[str] | None:
    """Return what the column or the section of a cell lists, where that is extras or groups."""
    title = block.info.strip("*` ")
    section = block.headings[-1] if block.headings else ""
    # "| Group |" below "uv dependency groups".
    is_short = bool(title) and title.lower() in section.lower()
    return _TITLED.match(title) or (_TITLED.match(section) if is_short else None)


def _of_place(
    place: Place, spans: Sequence[Span], places: Sequence[Place | None], index: int
) -> Iterator[Reference]:
    span = place.span
    after = places[index + 1] if index + 1 < len(places) else None
    if after is not None and _LINKED.match(_gap(span, after.span)):
        yield Reference.at(span, "symlink", (place.path, after.path))
    if place.line:
        symbol = _symbol_beside(spans, places, index)
        around = () if symbol else tuple(_names_around(spans, index))
        end = place.end or place.line
        anchor = Anchor(place.path, place.line, end, symbol, "", around, _is_rough(place))
        yield Reference.at(span, "line", anchor)
        for more in _MORE.finditer(place.more):
            first, end = int(more[1]), int(more[2] or more[1])
            again = anchor._replace(line=first, end=end)
            yield Reference.at(span, "line", again, f"{place.path}:{more[0]}")
        return
    if place.node:
        yield Reference.at(span, "node", place.path + place.node)
        return
    yield Reference.at(span, "path", place.path)


def place_of(span: Span) -> Place | None:
    """Return the path that inline code is, with the lines in it or beside it, or None."""
    found = _PATH.fullmatch(span.text)
    if found is None or not is_path(found["path"]):
        return None
    line, end = found["line"], found["end"]
    if line is None and not found["path"].endswith("/"):
        beside = _BEHIND.match(span.after) or _AHEAD.search(span.before[-40:])
        # Behind a name in brackets: "`f.py` (`sym`, lines 10-20)".
        beside = beside or re.match(rf"^\s*\(`[^`]+`,?\s+{_WORD}{_RANGE}", span.after)
        line, end = (beside["line"], beside["end"]) if beside else (None, None)
    more = found["more"] or ""
    return Place(span, found["path"], int(line or 0), int(end or 0), found["node"], more)


def is_path(text: str) -> bool:
    """Return whether a word has the form of a path: a slash in it, or the end of a file's name."""
    # A path on its author's machine may be one of the repository.
    if _HOME.match(text) and _HAS_EXTENSION.search(text):
        return True
    if _NO_PATH.match(text) or " " in text or not re.search(r"[a-z_]", text, re.IGNORECASE):
        return False
    return "/" in text or bool(_HAS_EXTENSION.search(text))


def _is_rough(place: Place) -> bool:
    """Return whether the text calls its lines approximate: "~120", "around line 120"."""
    span = place.span
    return _ROUGH.search(f"{span.before[-12:]}\0{span.after[:20]}") is not None


def _symbol_beside(spans: Sequence[Span], places: Sequence[Place | None], index: int) -> str:
    """Return the name that is beside a path in the same clause, or nothing."""
    for other, gap in _neighbours(spans, index):
        found = _SYMBOL.fullmatch(spans[other].text)
        if found and places[other] is None and (_NAME_FILE.match(gap) or _FILE_NAME.match(gap)):
            return found["name"]
    return ""


def _names_around(spans: Sequence[Span], index: int) -> Iterator[str]:
    """Yield the telling names of the sentence that a span is in, the nearest first.

    Where it has none they are those of the block.
    """
    for is_near in (True, False):
        found: list[str] = []
        for step in (-1, 1):
            at = index
            while 0 <= at + step < len(spans):
                first, second = sorted((at, at + step))
                end = spans[first].after.find(f"`{spans[second].text}`")
                if is_near and (end < 0 or _END.search(spans[first].after[:end])):
                    break
                at += step
                symbol = _SYMBOL.fullmatch(spans[at].text)
                name = re.split(r"\.|::", symbol["name"])[-1] if symbol else ""
                found += [name] if TELLING.fullmatch(name) else []
        if found:
            yield from found[:_MOST_NAMES]
            return


def _file_of(spans: Sequence[Span], places: Sequence[Place | None], index: int) -> str:
    """Return the file that a name is said to be in, or nothing."""
    if index + 1 < len(spans):
        place, gap = places[index + 1], _gap(spans[index], spans[index + 1])
        # A list of files, "`x` in `a.py` or `b.py`", is not said of the first alone.
        is_one = re.match(r"\s*(?:,|or\b|and\b|/)\s*`", spans[index + 1].after) is None
        if place is not None and _NAME_FILE.match(gap) and is_one and not place.line:
            return place.path
    if index:
        place, gap = places[index - 1], _gap(spans[index - 1], spans[index])
        if place is not None and _FILE_NAME.match(gap) and not place.path.endswith("/"):
            return place.path
    return ""


def _file_above(span: Span) -> str:
    """Return the file that a list is said to be in, for what its item begins with.

    "Fixtures in `conftest.py`:", and below it "- `NAME`: ...".
    """
    intro = span.block.intros[-1] if span.block.kind == "item" and span.block.intros else ""
    found = _IN_FILE.search(intro)
    is_first = found is not None and not span.before.strip("*_ ")
    return found["path"] if found is not None and is_first and is_path(found["path"]) else ""


def _file_of_row(span: Span) -> str:
    """Return the one file that another cell gives what a row begins with, or nothing."""
    block = span.block
    if block.kind != "cell" or block.row[:1] != (block.text,):
        return ""
    found = [each.strip("` ") for each in block.row[1:] if _ONE_FILE.fullmatch(each.strip())]
    return found[0] if len(found) == 1 and is_path(found[0]) else ""


def _neighbours(spans: Sequence[Span], index: int) -> Iterator[tuple[int, str]]:
    if index:
        yield index - 1, _gap(spans[index - 1], spans[index])
    if index + 1 < len(spans):
        yield index + 1, _gap(spans[index], spans[index + 1])


def _gap(first: Span, second: Span) -> str:
    """Return what is between two spans of a block."""
    end = first.after.find(f"`{second.text}`")
    return first.after[:end] if 0 <= end < 60 else ".\n\n"


def _imports(document: Document) -> Iterator[Reference]:
    """Yield what a guide takes in: a word that begins with @ and is a path."""
    for block in document.markdown.blocks:
        if block.kind in ("paragraph", "item") and "@" in block.text:
            for found in _IMPORT.finditer(block.text):
                line = block.line + block.text.count("\n", 0, found.start())
                if is_path(found["path"]):
                    whole = block._replace(lead="", headings=())
                    yield Reference("path", found["path"], line, 1, found["path"], whole)
