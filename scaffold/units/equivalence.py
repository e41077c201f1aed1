"""Whether two texts say the same: what a formatter changes is no edit, and all else is one."""

from __future__ import annotations

import ast
import io
import re
import tokenize

from scaffold.syntax import read

# The line below a table's header, which formatters pad: `|---|:-:|`, `----- | ---`.
_RULE = re.compile(r"^[|:\-\s+]*-{2,}[|:\-\s+]*$", re.MULTILINE)

_WITH_DOCSTRING = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def is_equivalent(path: str, was: bytes, now: bytes) -> bool:
    """Return whether a file means what it meant.

    Python is compared by its syntax tree and its comments, Markdown by its words, and other text by
    its lines without the white space at their ends.

    Args:
        path: The file's path; its suffix shows what it holds.
        was: The bytes as rendered.
        now: The bytes as they are.
    """
    if was == now:
        return True
    try:
        before, after = was.decode("utf-8-sig"), now.decode("utf-8-sig")
    except UnicodeDecodeError:
        return False
    if path.endswith((".py", ".pyi")):
        code = _code(after)
        return code is not None and code == _code(before)
    if path.endswith((".md", ".markdown")):
        return _words(before) == _words(after)
    return _lines(before) == _lines(after)


def _code(text: str) -> tuple[str, tuple[str, ...], list[str]] | None:
    """Return the syntax tree and the comments of Python, or None for what is no Python."""
    try:
        tree, _, residue = read(text)
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (SyntaxError, ValueError, tokenize.TokenError):
        return None
    for node in ast.walk(tree):
        if isinstance(node, _WITH_DOCSTRING) and ast.get_docstring(node) is not None:
            # A formatter moves the lines of a docstring with the code around it.
            node.body[0] = ast.Expr(ast.Constant(ast.get_docstring(node)))
    comments = [token.string.strip() for token in tokens if token.type == tokenize.COMMENT]
    # The residue is what the spelling for an older Python loses (decision 016).
    return ast.dump(tree), residue, comments


def _words(text: str) -> list[str]:
    """Return the words of Markdown, whatever its wrapping and the width of its tables."""
    return _RULE.sub("---", text).replace("|", " | ").split()


def _lines(text: str) -> list[str]:
    return [row.rstrip() for row in text.rstrip().splitlines()]
