"""Block lists and block mappings of a YAML file, and on which lines each item lies.

PyYAML's parser gives the events; what edits need beside them is the source of each scalar, the
dash or key that an item begins with, and where it ends. Flow collections and texts over several
lines are stepped over. No tag is read and no alias followed: such values have no text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import yaml

Kind = Literal["list", "mapping", "text", "flow", "block", "alias", "empty"]

MAX_DEPTH = 100
"""How deep values may be nested, far below where Python's stack ends."""

_YAML: Any = yaml  # its stubs leave events and marks untyped
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# Anchors and tags in front of a value: `&base !!str `.
_PROPERTIES = re.compile(r"\A(?:[&!][^\s,\[\]{}]*\s*)+")
_COLON = re.compile(r"[ \t]*:")
# Jinja: `{{ name }}` is two flow mappings to a parser, `{% if %}` and `{# note #}` are errors.
_TEMPLATE = re.compile(r"\{[{%#]")
_SEPARATOR = re.compile("[\x85\u2028\u2029]")
"""What ends a line for YAML 1.1 and not for `scaffold.edit.lines.Text`."""

# What the character at a parser's error means.
_REASONS = {
    "%": "the file has a directive or template code",
    "\t": "there is a tab in the indentation",
}
# What YAML 1.1 reads as null, a truth value, a number, infinity, a date or a merge key; readers of
# 1.2 agree on fewer, so whatever is not in here is text to all.
_NO_TEXT = re.compile(
    r"(?i)~|null|y|n|yes|no|on|off|true|false|=|<<|[-+]?0x[\da-f_]+|[-+]?0[ob]?[\d_]+"
    r"|[-+]?\d[\d_]*(?::[0-5]?\d)*(?:\.[\d_]*)?(?:e[-+]?\d+)?|[-+]?\.[\d_]+(?:e[-+]?\d+)?"
    r"|[-+]?\.inf|\.nan|\d{4}-\d\d?-\d\d?(?:[t \t].*)?|"
)


class YamlError(Exception):
    """The text cannot be read with certainty; ``line`` counts from 1."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line
        self.reason = reason


@dataclass(frozen=True)
class Node:
    """A value; ``last`` is its last line, ``text`` its content where it is text on one line."""

    kind: Kind
    line: int
    last: int
    source: str = ""
    text: str | None = None
    is_marked: bool = False
    """Whether an anchor or a tag comes before the value."""
    items: tuple[Item, ...] = ()


@dataclass(frozen=True)
class Item:
    """An entry of a list (``key`` None) or mapping; ``end`` counts deeper comments below it."""

    key: str | None
    source: str
    line: int
    column: int
    end: int
    node: Node


def is_plain_text(source: str) -> bool:
    """Return whether YAML reads an unquoted scalar as text: "true" and "1.0" are none."""
    return _NO_TEXT.fullmatch(source) is None


def read_yaml(lines: tuple[str, ...]) -> Node:
    """Read a file that holds one document.

    Raises:
        YamlError: The file is no YAML, or of a form that lines cannot be added to.
    """
    for number, line in enumerate(lines, 1):
        if _SEPARATOR.search(line):
            raise YamlError(number, "there is a line separator inside a line")
    try:
        return _Reader(lines).document()
    except yaml.MarkedYAMLError as error:
        mark: Any = error.problem_mark
        number = int(mark.line)
        char = lines[number][mark.column : mark.column + 1] if number < len(lines) else ""
        reason = _REASONS.get(char, f"its layout is none that can be read: {error.problem}")
        raise YamlError(number + 1, reason) from error
    except yaml.YAMLError as error:
        raise YamlError(1, str(error).partition("\n")[0]) from error


class _Reader:
    """Builds nodes from the events of one file."""

    def __init__(self, lines: tuple[str, ...]) -> None:
        self.lines = lines
        self.text: str = "\n".join(lines)
        self.events: Iterator[Any] = _YAML.parse(self.text, Loader=_LOADER)

    def document(self) -> Node:
        root = Node("empty", 0, 0)
        is_read = False
        for event in self.events:
            if isinstance(event, yaml.DocumentStartEvent):
                if event.version or event.tags:
                    raise _problem(event, "the file has a directive or template code")
                if is_read:
                    raise _problem(event, "the file has more than one document")
                root, is_read = self._node(next(self.events), 0), True
            # `...` ends the document, and a line below it would begin another one.
            elif isinstance(event, yaml.DocumentEndEvent) and event.explicit:
                raise _problem(event, "the file has more than one document")
        return Node("empty", 0, 0) if root.kind == "empty" else root

    def _node(self, event: Any, depth: int) -> Node:
        if depth > MAX_DEPTH:
            raise _problem(event, f"more than {MAX_DEPTH} values are in one another")
        if not isinstance(event, yaml.CollectionStartEvent):
            node = self._scalar(event)
        elif event.flow_style:
            node = self._flow(event)
        else:
            node = self._block(event, depth)
        is_marked = node.kind != "alias" and bool(event.anchor or event.tag)
        return replace(node, text=None, is_marked=True) if is_marked else node

    def _block(self, event: Any, depth: int) -> Node:
        is_list = isinstance(event, yaml.SequenceStartEvent)
        items: list[Item] = []
        start, behind = event.end_mark.line, event.end_mark.index
        # The event of a list as deep as its key ends behind the first dash, others in front of it.
        dash = event.end_mark.column - (self.text[behind : behind + 1] != "-")
        while not isinstance(first := next(self.events), yaml.CollectionEndEvent):
            line, column = first.start_mark.line, first.start_mark.column
            key, source = None, ""
            if is_list:
                column = dash
                line = self._dash_line(range(start, line + 1), column)
            else:
                key, source = self._key(first)
                first = next(self.events)
            node = self._node(first, depth + 1)
            items.append(Item(key, source, line, column, self._end(node.last, column), node))
            # The next dash lies below this value, so it is not looked for above that.
            start = node.last + 1
        kind = "list" if is_list else "mapping"
        return Node(kind, items[0].line, items[-1].node.last, items=tuple(items))

    def _dash_line(self, lines: range, column: int) -> int:
        """Return the line of an item's dash; no event marks it, and its value may be below."""
        rows = (n for n in lines if self.lines[n][column : column + 1] == "-")
        return next((n for n in rows if _has_content(self.lines[n])), lines[-1])

    def _end(self, last: int, column: int) -> int:
        """Return the last line of an item with the comments that are indented deeper than it."""
        end = last
        for number in range(last + 1, len(self.lines)):
            text = self.lines[number]
            if not text.strip():
                continue
            if _has_content(text) or len(text) - len(text.lstrip(" \t")) <= column:
                break
            end = number
        return end

    def _key(self, event: Any) -> tuple[str, str]:
        if not isinstance(event, yaml.ScalarEvent):
            raise _problem(event)
        if event.anchor or event.tag:
            raise _problem(event, "an anchor or a tag is in front of a key")
        source = self._source(event, event)
        # A key behind a question mark has its colon on the next line, or none.
        if not source or not _COLON.match(self.text, event.end_mark.index):
            raise _problem(event)
        return str(event.value), source

    def _scalar(self, event: Any) -> Node:
        line, last = event.start_mark.line, event.end_mark.line
        source = self._source(event, event)
        if isinstance(event, yaml.AliasEvent):
            return Node("alias", line, last, source)
        if event.style in ("|", ">"):
            return Node("block", line, self._block_end(event))
        if not source and not event.style:
            return Node("empty", line, line, text="")
        # Over several lines a text is folded: no line of the file is its source.
        is_text = last == line and (event.style or is_plain_text(source))
        return Node("text", line, last, source, event.value if is_text else None)

    def _block_end(self, event: Any) -> int:
        """Return the last line of a text in lines, whose event ends where the next value begins."""
        line, last = int(event.start_mark.line), int(event.end_mark.line)
        # Column 0 of the next value's line is not part of the text.
        last -= not event.end_mark.column
        # `|+` keeps the blank lines at the end; a plus in a comment behind it does not count.
        header, *_ = self.lines[line][event.start_mark.column :].split("#")
        if "+" in header:
            return last  # the blank lines below belong to the text
        return next((n for n in range(last, line, -1) if self.lines[n].strip()), line)

    def _flow(self, event: Any) -> Node:
        if _TEMPLATE.match(self.text, event.end_mark.index - 1):
            raise _problem(event, "the file has template code")
        inner, depth = event, 1
        while depth:
            inner = next(self.events)
            depth += isinstance(inner, yaml.CollectionStartEvent)
            depth -= isinstance(inner, yaml.CollectionEndEvent)
        last = inner.end_mark.line
        return Node("flow", event.start_mark.line, last, self._source(event, inner))

    def _source(self, event: Any, end: Any) -> str:
        """Return a value as it is written; of an unquoted text over lines the first one."""
        text = self.text[event.start_mark.index : end.end_mark.index]
        if not isinstance(event, yaml.AliasEvent):
            text = _PROPERTIES.sub("", text, count=1)
        first, is_more, _ = text.partition("\n")
        is_plain = isinstance(event, yaml.ScalarEvent) and not event.style
        return first.rstrip() if is_plain or not is_more else ""


def _problem(event: Any, reason: str = "its layout is none that can be read") -> YamlError:
    return YamlError(event.start_mark.line + 1, reason)


def _has_content(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip(" \t").startswith("#")
