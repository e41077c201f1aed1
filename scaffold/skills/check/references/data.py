"""Fenced JSON, YAML and TOML, and the dotted names in it.

What is cut out of a larger file, holds placeholders or comments is data for people, and undecided.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from scaffold.analysis.files.yaml_depth import check_depth
from scaffold.analysis.lazy_re import lazy_re
from scaffold.skills.check.read.documents import Document
from scaffold.skills.check.read.markdown import Block
from scaffold.skills.check.reference import Reference
from scaffold.skills.check.references.named import Named, Symbol

_LANGUAGES = {"json": "json", "yaml": "yaml", "yml": "yaml", "toml": "toml"}
_OPEN_ENDS = lazy_re(
    r"\.\.\.|…|<[^<>\n=]*[^<>\n=\s-]>|\{\{|\{%|\$\{|\$\(|<<|>>|%s|\*{3}|\bTODO\b|\bXXX\b|~~~|```"
    r"|^\+{1,3} ?\S|^@@|^\s*(?:#|//)\s*(?:or|alternatively|option)\b",
    re.MULTILINE | re.IGNORECASE,
)
_COMMENT = lazy_re(r"(?<![:\w])//|/\*|^\s*#|\s#\s", re.MULTILINE)
# Files that are called JSON and read with comments and trailing commas.
_LENIENT = lazy_re(
    r"tsconfig|jsconfig|\.vscode|vs ?code|settings\.json|launch\.json|tasks\.json|jsonc|json5"
    r"|devcontainer|opencode|biome|turbo|eslint|babel|deno|wrangler|renovate|pyright",
    re.IGNORECASE,
)
_STRING = lazy_re(r'"(?:[^"\\\n]|\\.)*"')
_WORD = lazy_re(r"[A-Za-z_$]\w*")
_PATH = lazy_re(
    r"(?:[:=]|^\s*-)\s*[\"']?(?P<path>[\w.-]+(?:/[\w.-]+)+\.(?:py|md|ya?ml|toml|json|sh))[\"']?\s*(?:#|,|$)"
)
# `_target_: package.module.Class`, `"package.module:function"`: of three parts at least.
_VALUE = lazy_re(
    r"(?:[:=,\[]|^\s*-)\s*[\"']?(?P<name>[a-z_]\w*(?:\.[a-z_]\w*)+[.:][A-Za-z_]\w*)[\"']?\s*(?:[,\]#]|$)"
)


class Problem(NamedTuple):
    """Why a block does not parse.

    Args:
        reason: In the words of its parser.
        line: The line of the block, from 0.
        doubt: Why it may be meant so, or empty.
    """

    reason: str
    line: int
    doubt: str = ""


def find_data(document: Document) -> Iterator[Reference]:
    """Yield the fenced blocks of data, and the dotted names that are values in them."""
    for fence in document.markdown.fences:
        name = (fence.info.split() or [""])[0].lower()
        language = _LANGUAGES.get(name)
        if language and fence.text.strip() and fence.is_closed:
            problem = _PARSERS[language](fence)
            doubt = (problem.doubt or _doubt(fence)) if problem else ""
            problem = problem._replace(doubt=doubt) if problem else None
            line = problem.line if problem else 0
            rows = fence.text.split("\n")
            text = rows[min(line, len(rows) - 1)].strip() or rows[0].strip() or name
            yield Reference("data", text, fence.line + line, 1, (language, problem), fence)
        if language or name in ("ini", "cfg"):
            yield from _values(fence)


def _values(fence: Block) -> Iterator[Reference]:
    for number, row in enumerate(fence.text.split("\n"), fence.line):
        for found in _VALUE.finditer(row):
            name = found["name"].replace(":", ".")
            column = found.start("name") + 1
            yield Reference("value", found["name"], number, column, Symbol(name), fence)
        if found := _PATH.search(row):
            column = found.start("path") + 1
            yield Reference("path", found["path"], number, column, Named(found["path"]), fence)


def _doubt(fence: Block) -> str:
    if _OPEN_ENDS.search(fence.text):
        return "it may hold placeholders, or show a change"
    return ""


def _json(fence: Block) -> Problem | None:
    text = fence.text.strip()
    try:
        json.loads(text)
    except RecursionError:
        return Problem("nested too deeply", 0, "it is nested deeper than a parser goes")
    except ValueError as error:
        first: Any = error
    else:
        return None
    if _is_json_part(text):
        return None
    lead = fence.text[: len(fence.text) - len(fence.text.lstrip())].count("\n")
    line = int(getattr(first, "lineno", 1)) - 1 + lead
    reason = str(getattr(first, "msg", first))
    # Pythons word this one differently and find it at different places.
    blank = _STRING.sub(lambda found: "_" * len(found.group()), text)
    for comma in re.finditer(r",\s*[}\]]", blank):
        if comma.start() <= getattr(first, "pos", 0) <= comma.end():
            line = text.count("\n", 0, comma.start()) + lead
            reason = "trailing comma"
    return Problem(f"{reason[:1].lower()}{reason[1:]}", line, _json_doubt(text, fence))


def _is_json_part(text: str) -> bool:
    """Return whether a text is several JSON values, or members of an object without its braces."""
    body = text.rstrip().rstrip(",")
    for whole in (f"{{{body}}}", f"[{body}]"):
        try:
            json.loads(whole)
        except (ValueError, RecursionError):
            continue
        return True
    decoder = json.JSONDecoder()
    at = 0
    while at < len(text):
        try:
            _, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            return False
        at += len(text[at:]) - len(text[at:].lstrip())
    return True


def _json_doubt(text: str, fence: Block) -> str:
    """Return why a text need not be strict JSON, or nothing."""
    plain = _STRING.sub('""', text)
    if _COMMENT.search(plain):
        return "it holds comments"
    words = set(_WORD.findall(plain)) - {"true", "false", "null", "e", "E"}
    if words - {"True", "False", "None"}:
        return "it has type descriptions, which are not valid JSON"
    if re.search(r"[|()`]", plain) or text[0] not in '{["':
        return "it may describe JSON and not be it"
    about = f"{fence.lead} {fence.info} {' '.join(fence.headings[-1:])}"
    if re.search(r",\s*[}\]]", plain) and _LENIENT.search(about + text):
        return "its reader may allow commas at the end"
    if plain.endswith((",", "{", "[")):
        return "it may be the beginning of a larger one"
    return ""


def _yaml(fence: Block) -> Problem | None:
    import yaml  # costs 25 ms: only blocks of YAML need it

    library: Any = yaml  # its stubs leave the loaders untyped
    loader = getattr(library, "CSafeLoader", library.SafeLoader)
    try:
        check_depth(fence.text, library, loader)
        for _ in library.compose_all(fence.text, Loader=loader):
            pass
    except (ValueError, RecursionError) as error:
        return Problem(str(error), 0, "it is nested deeper than a parser goes")
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        rows = fence.text.split("\n")
        line = min(mark.line if mark is not None else 0, len(rows) - 1)
        reason = str(getattr(error, "problem", None) or str(error).split("\n", 1)[0])
        part = "it names an anchor of a larger one" if "alias" in reason else ""
        return Problem(reason, line, part or _yaml_doubt(rows))
    return None


def _yaml_doubt(rows: list[str]) -> str:
    """Return why a text need not be YAML from its first line to its last, or nothing."""
    if sum(row.rstrip() == "---" for row in rows) > 1:
        return "it may be front matter with the text below it"
    depths = [len(row) - len(row.lstrip()) for row in rows if row.strip()]
    if depths and depths[0] > min(depths):
        return "it may be cut out of a larger one"
    if any(re.match(r"\s*[\w./-]+\.(?:ya?ml|md)\s*:?\s*$", row) for row in rows[:1]):
        return "it begins with the name of a file"
    if any(re.search(r"(?:^|[:,\[-]\s*)[@`%][\w/]", row) for row in rows):
        return "it has template placeholders"
    return ""


def _toml(fence: Block) -> Problem | None:
    try:
        tomllib.loads(fence.text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        reason = str(error)
        place = re.search(r"at line (\d+)", reason)
        line = int(place[1]) - 1 if place else 0
        doubt = ""
        if re.search(r"overwrite|declare|twice|mutate", reason):
            doubt = "it may show several choices"
        elif re.search(r"\{\s*\n", fence.text):
            doubt = "newer TOML lets braces span lines"
        reason = re.sub(r"\s*\(at .*\)$", "", reason)
        return Problem(reason[:1].lower() + reason[1:], line, doubt)
    return None


_PARSERS: dict[str, Callable[[Block], Problem | None]] = {
    "json": _json,
    "yaml": _yaml,
    "toml": _toml,
}
