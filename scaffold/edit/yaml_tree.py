"""A reader of YAML that knows on which lines each item lies, and gives up where it is not sure.

It reads block lists and block mappings to the end and steps over everything else (flow
collections, block scalars, quoted text over several lines). It reads no tags and follows no
aliases: such values have no text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Kind = Literal["list", "mapping", "text", "flow", "block", "alias", "empty"]

_QUOTED = r"""'(?:[^']|'')*'|"(?:[^"\\]|\\.)*\""""
_PLAIN_START = r"(?:[^\s,\[\]{}#&*!|>'\"%@`?:-]|[-?:](?=[^\s]))"
_KEY = re.compile(
    rf"(?P<key>{_QUOTED}|{_PLAIN_START}(?:[^:#]|:(?=\S)|(?<=\S)#)*?)[ \t]*:(?=[ \t]|$)"
)
_REST = re.compile(r"[ \t]*(?:$|[ \t]#|(?<=[ \t])#)")
_PROPERTY = re.compile(r"([&!])[^\s,\[\]{}]*[ \t]*")
_HEADER = re.compile(r"[|>][-+0-9]{0,2}[ \t]*(?:[ \t]#.*)?$")
_COMMENT = re.compile(r"[ \t]#")
_TEMPLATE = re.compile(r"\{[{%#]")
_MARK = re.compile(r"(?:---|\.\.\.)(?:[ \t]|$)")
_IN_SINGLE = re.compile(r"(?:[^']|'')*")
_IN_DOUBLE = re.compile(r'(?:[^"\\]|\\.|\\$)*')
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)")
_ESCAPES = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "0": "\0",
    "a": "\a",
    "b": "\b",
    "e": "\x1b",
    "f": "\f",
    "v": "\v",
    "_": "\xa0",
    "N": "\x85",
    "L": "\u2028",
    "P": "\u2029",
}
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
    """A value; ``last`` is its last line, ``text`` what it says where it is plain text."""

    kind: Kind
    line: int
    last: int
    source: str = ""
    text: str | None = None
    is_marked: bool = False
    """Is true where an anchor or a tag stands in front."""
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


def scalar_text(source: str) -> str:
    """Return the content of a scalar on one line."""
    if source.startswith("'"):
        return source[1:-1].replace("''", "'")
    if source.startswith('"'):
        return _ESCAPE.sub(_unescaped, source[1:-1])
    return source


def _unescaped(found: re.Match[str]) -> str:
    if len(found[1]) > 1:
        return chr(int(found[1][1:], 16))
    return _ESCAPES.get(found[1], found[1])


def read_yaml(lines: tuple[str, ...]) -> Node:
    """Read a file that holds one document.

    Raises:
        YamlError: The layout is wrong, or one that this reader does not know.
    """
    return _Reader(lines).document()


class _Reader:
    """Reads from a line on; every method returns the node and the next line after it."""

    def __init__(self, lines: tuple[str, ...]) -> None:
        self.lines = lines

    def document(self) -> Node:
        first = next((n for n, line in enumerate(self.lines) if self._has_content(line)), None)
        if first is not None and re.fullmatch(r"---[ \t]*(?:#.*)?", self.lines[first]):
            start = self._content(first + 1)
        else:
            start = self._content(0)
        if start is None:
            return Node("empty", 0, 0)
        node, after = self._node(start, self._indent(start), -1)
        rest = self._content(after)
        if rest is not None:
            raise self._problem(rest)
        return node

    def _problem(self, line: int, reason: str = "its layout is none that can be read") -> Exception:
        return YamlError(line + 1, reason)

    @staticmethod
    def _has_content(line: str) -> bool:
        return bool(line.strip()) and not line.lstrip(" \t").startswith("#")

    def _content(self, line: int) -> int | None:
        """Return the next line that is neither blank nor a comment."""
        for number in range(line, len(self.lines)):
            text = self.lines[number]
            if not self._has_content(text):
                continue
            if _MARK.match(text):
                raise self._problem(number, "the file holds more than one document")
            if text.startswith("%"):
                raise self._problem(number, "the file holds a directive or template code")
            return number
        return None

    def _indent(self, line: int) -> int:
        text = self.lines[line]
        indent = len(text) - len(text.lstrip(" "))
        if text[indent] == "\t":
            raise self._problem(line, "a tab stands in the indentation")
        return indent

    def _node(self, line: int, column: int, parent: int) -> tuple[Node, int]:
        rest = self.lines[line][column:]
        if re.match(r"-(?:[ \t]|$)", rest):
            return self._collection(line, column, "list")
        if _KEY.match(rest):
            return self._collection(line, column, "mapping")
        return self._value(line, column, parent)

    def _collection(
        self, line: int, column: int, kind: Literal["list", "mapping"]
    ) -> tuple[Node, int]:
        items: list[Item] = []
        current = line
        while True:
            item, after = self._item(current, column, kind)
            items.append(item)
            following = self._content(after)
            if following is None or self._indent(following) < column:
                break
            current = following
            is_dash = re.match(r"-(?:[ \t]|$)", self.lines[current][column:]) is not None
            if kind == "mapping" and is_dash and self._indent(current) == column:
                raise self._problem(current)
            if kind == "list" and not is_dash and self._indent(current) == column:
                break  # a list may stand as deep as the key it belongs to
            if self._indent(current) > column:
                raise self._problem(current)
        after = items[-1].node.last + 1
        return Node(kind, line, items[-1].node.last, items=tuple(items)), after

    def _item(self, line: int, column: int, kind: Literal["list", "mapping"]) -> tuple[Item, int]:
        text = self.lines[line]
        if kind == "list":
            key, source, offset = None, "", column + 1
        else:
            found = _KEY.match(text, column)
            if found is None:
                raise self._problem(line)
            key, source, offset = scalar_text(found["key"]), found["key"], found.end()
        padding = re.compile(r"[ \t]*").match(text, offset)
        assert padding is not None
        start = padding.end()
        if start == len(text) or (text[start] == "#" and padding[0]):
            node, after = self._below(line, column, kind)
        elif kind == "list" and text[start] not in "&!":
            if "\t" in padding[0]:
                raise self._problem(line, "a tab stands in the indentation")
            node, after = self._node(line, start, column)
        else:
            node, after = self._value(line, start, column)
        return Item(key, source, line, column, self._end(node.last, after, column), node), after

    def _below(self, line: int, column: int, kind: Literal["list", "mapping"]) -> tuple[Node, int]:
        """Read the value that stands on the lines below its key or dash."""
        start = self._content(line + 1)
        if start is not None:
            indent = self._indent(start)
            is_dash = re.match(r"-(?:[ \t]|$)", self.lines[start][indent:]) is not None
            if indent > column or (indent == column and is_dash and kind == "mapping"):
                return self._node(start, indent, column)
        return Node("empty", line, line, text=""), line + 1

    def _end(self, last: int, after: int, column: int) -> int:
        """Return the last line of an item with the comments that are indented deeper than it."""
        end = last
        for number in range(after, len(self.lines)):
            text = self.lines[number]
            if not text.strip():
                continue
            if self._has_content(text) or len(text) - len(text.lstrip(" \t")) <= column:
                break
            end = number
        return end

    def _value(self, line: int, column: int, parent: int) -> tuple[Node, int]:
        """Read a value that begins on a line and is no block collection on that line."""
        is_marked = False
        while found := _PROPERTY.match(self.lines[line], column):
            is_marked, column = True, found.end()
        text = self.lines[line][column:]
        if is_marked and (not text or text.startswith("#")):
            node, after = self._below(line, parent, "mapping")
        elif is_marked and (_KEY.match(text) or text.startswith("- ")):
            raise self._problem(line, "an anchor or a tag stands in front of a key")
        else:
            node, after = self._scalar(line, column, parent)
        if is_marked:
            node = Node(node.kind, node.line, node.last, node.source, None, True, node.items)
        return node, after

    def _scalar(self, line: int, column: int, parent: int) -> tuple[Node, int]:
        text = self.lines[line][column:]
        if text[0] in "|>":
            return self._block(line, text, parent)
        if text[0] in "[{":
            return self._flow(line, column)
        if text[0] in "\"'":
            return self._quoted(line, column)
        if text[0] in "%@`,]}" or re.match(r"[-?](?:[ \t]|$)", text):
            raise self._problem(line)
        comment = _COMMENT.search(text)
        source = (text[: comment.start()] if comment else text).rstrip()
        if re.search(r":(?:[ \t]|$)", source):
            raise self._problem(line)
        if text[0] == "*":
            return Node("alias", line, line, source), line + 1
        last = line if comment else self._folded(line, parent)
        is_text = last == line and is_plain_text(source)
        return Node("text", line, last, source, source if is_text else None), last + 1

    def _folded(self, line: int, parent: int) -> int:
        """Return the last line of an unquoted scalar that may go on, indented deeper."""
        last = line
        for number in range(line + 1, len(self.lines)):
            text = self.lines[number]
            if not text.strip():
                continue
            indent = len(text) - len(text.lstrip(" "))
            if indent <= parent or text.lstrip(" \t").startswith("#"):
                break
            if re.search(r":(?:[ \t]|$)|[ \t]#", text):
                raise self._problem(number)
            last = number
        return last

    def _block(self, line: int, text: str, parent: int) -> tuple[Node, int]:
        if not _HEADER.match(text):
            raise self._problem(line)
        last = line
        for number in range(line + 1, len(self.lines)):
            row = self.lines[number]
            if not row.strip():
                last = number if "+" in text.split("#")[0] else last
                continue
            if len(row) - len(row.lstrip(" ")) <= parent:
                break
            last = number
        return Node("block", line, last), last + 1

    def _quoted(self, line: int, column: int) -> tuple[Node, int]:
        last, end = self._close_quote(line, column)
        if not _REST.match(self.lines[last], end):
            raise self._problem(last)
        source = self.lines[line][column:end] if last == line else ""
        text = scalar_text(source) if last == line else None
        return Node("text", line, last, source, text), last + 1

    def _close_quote(self, line: int, column: int) -> tuple[int, int]:
        """Return the line and the offset behind a closing quote."""
        quote = self.lines[line][column]
        body = _IN_SINGLE if quote == "'" else _IN_DOUBLE
        offset = column + 1
        for number in range(line, len(self.lines)):
            found = body.match(self.lines[number], offset)
            assert found is not None
            if found.end() < len(self.lines[number]):
                return number, found.end() + 1
            offset = 0
        raise self._problem(line, "a quotation mark is never closed")

    def _flow(self, line: int, column: int) -> tuple[Node, int]:
        if _TEMPLATE.match(self.lines[line], column):
            raise self._problem(line, "the file holds template code")
        depth, number, offset, before = 0, line, column, ""
        while number < len(self.lines):
            text = self.lines[number]
            if offset >= len(text) or (
                text[offset] == "#" and (not offset or text[offset - 1] in " \t")
            ):
                number, offset = number + 1, 0
                continue
            char = text[offset]
            if char in "\"'" and before in "[{,:":
                number, offset = self._close_quote(number, offset)
                before = char
                continue
            depth += (char in "[{") - (char in "]}")
            offset += 1
            before = before if char in " \t" else char
            if not depth:
                if not _REST.match(text, offset):
                    raise self._problem(number)
                source = self.lines[line][column:offset] if number == line else ""
                return Node("flow", line, number, source), number + 1
        raise self._problem(line, "a bracket is never closed")
