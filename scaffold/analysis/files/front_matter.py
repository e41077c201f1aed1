"""The front matter of a Markdown file: YAML between two lines ``---`` at its top."""

from __future__ import annotations

import re
from typing import Any, Literal, NamedTuple, cast

from scaffold.analysis.files.yaml_depth import check_depth
from scaffold.analysis.lazy_re import lazy_re

_OPEN = lazy_re(r"\A---[ \t]*\n")
_CLOSE = lazy_re(r"^---[ \t]*$", re.MULTILINE)
_CLOSE_OR_DOTS = lazy_re(r"^(?:---|\.\.\.)[ \t]*$", re.MULTILINE)

Fault = Literal["", "open", "yaml", "shape", "key"]
"""No line closes it; the YAML is broken; it is no mapping; a key is there twice."""


class FrontMatter(NamedTuple):
    """What is at the top of a file, and where its body begins.

    Args:
        fields: The keys and values; empty where there is no front matter or it is broken.
        lines: The line of each top-level key, from 1.
        body_line: The line at which the body begins, from 1.
        is_there: Whether the file begins with a line ``---``.
        problem: What is wrong with it, or None.
        problem_line: The line of the problem, from 1.
        fault: The kind of the problem.
        text: The YAML, without the last line end.
    """

    fields: dict[str, Any]
    lines: dict[str, int]
    body_line: int
    is_there: bool
    problem: str | None = None
    problem_line: int = 1
    fault: Fault = ""
    text: str = ""


NO_FRONT_MATTER = FrontMatter({}, {}, 1, False)


def read_front_matter(text: str, *, may_end_in_dots: bool = False) -> FrontMatter:
    """Read the front matter of a text; a problem is part of the result, and never raised.

    Args:
        text: The text of the file.
        may_end_in_dots: Whether the YAML may end with ``...``, as site generators allow and the
            readers of skills do not.
    """
    # The patterns end lines at "\n", and so do the marks of the YAML parser below.
    text = text.replace("\r\n", "\n")
    opening = _OPEN.match(text)
    if opening is None:
        return NO_FRONT_MATTER
    closing = (_CLOSE_OR_DOTS if may_end_in_dots else _CLOSE).search(text, opening.end())
    if closing is None:
        problem = "the front matter is not closed by a line ---"
        return FrontMatter({}, {}, 2, True, problem, fault="open")
    head = text[opening.end() : closing.start()]
    # Both lines of dashes count, and the body begins on the line after them.
    front = FrontMatter({}, {}, head.count("\n") + 3, True, text=head.removesuffix("\n"))
    return _parsed(front, head)


def _parsed(front: FrontMatter, head: str) -> FrontMatter:
    import yaml  # costs 25 ms: a repository without skills does without

    library: Any = yaml  # its stubs leave the nodes untyped
    try:
        kind = getattr(library, "CSafeLoader", library.SafeLoader)
        check_depth(head, library, kind)
        loader = kind(head)
        try:
            root = loader.get_single_node()
            keys = _keys(root)  # before it is read: that puts merged keys among them
            value = loader.construct_document(root) if root is not None else None
        finally:
            loader.dispose()
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        # Marks count from 0, and the opening line comes before the YAML.
        line = 2 + (mark.line if mark is not None else 0)
        problem = str(getattr(error, "problem", None) or str(error).splitlines()[0])
        problem = f"the YAML is broken: {problem}"
        return front._replace(problem=problem, problem_line=line, fault="yaml")
    if value is None:
        return front
    if not isinstance(value, dict):
        problem = "the front matter is not a mapping of keys"
        return front._replace(problem=problem, problem_line=2, fault="shape")
    lines: dict[str, int] = {}
    twice: tuple[str, int] | None = None
    for name, line in keys:
        if name in lines and twice is None:
            twice = name, line
        # PyYAML keeps the last of equal keys without a word, so they are counted from the nodes.
        lines.setdefault(name, line)
    fields = {str(key): each for key, each in cast("dict[Any, Any]", value).items()}
    front = front._replace(fields=fields, lines=lines)
    if twice is not None:
        problem = f"the key {twice[0]!r} is there twice"
        return front._replace(problem=problem, problem_line=twice[1], fault="key")
    return front


def _keys(root: Any) -> list[tuple[str, int]]:
    """Return the top-level keys of a mapping with their lines; none of anything else."""
    rows = root.value if getattr(root, "id", "") == "mapping" else ()
    return [(str(key.value), int(key.start_mark.line) + 2) for key, _ in rows]
