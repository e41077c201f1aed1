"""HTTP paths that a Python source asks a server for."""

from __future__ import annotations

import ast
import re

from scaffold.deps.command_uses import text_of
from scaffold.deps.source_code import Code
from scaffold.deps.use import Use

_METHODS = frozenset({"get", "post", "put", "delete", "patch", "head", "options"})
_OTHERS = frozenset({"request", "stream", "urlopen", "Request", "send", "fetch", "urljoin"})
# `https://host/v1/models?limit=1`, `{}/v1/models/{}`, or the path alone.
_PATH = re.compile(r"^(?:https?://[^/\s]+|\{\})?(/[A-Za-z][\w\-./{}:]*)(?:\?\S*)?$")


def requests_in(code: Code) -> list[Use]:
    """Return the paths of requests, with their method where it is the call's name."""
    found: list[Use] = []
    nodes = list(ast.walk(code.source.tree))
    # `@app.get("/x")` serves a route of the tree's own and asks for none.
    served = {id(mark) for each in nodes for mark in getattr(each, "decorator_list", ())}
    for node in nodes:
        if not isinstance(node, ast.Call) or not node.args or id(node) in served:
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        name = node.func.id if isinstance(node.func, ast.Name) else name
        if name not in _METHODS and name not in _OTHERS:
            continue
        method = name.upper() if name in _METHODS else "ANY"
        # request("GET", url) has the path second.
        for each in node.args[:2]:
            path = _path(each)
            if path:
                detail = f"{name}({ast.unparse(each)})"[:110]
                found.append(Use("endpoint", (method, path), code.source.path, each.lineno, detail))
    return found


def _path(node: ast.expr) -> str:
    """Return the path in a text or f-string, with ``{}`` for what is filled in; "" for none."""
    # In `base + "/v1/models"` the path is the right side.
    is_sum = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add)
    text = text_of(node.right if is_sum else node) or ""
    # A computed host becomes one placeholder, as _PATH allows only one before the path.
    text = re.sub(r"^https?://\{\}(?::\{\}|:\d+)?", "{}", text)
    found = _PATH.match(text)
    return found[1].rstrip("/") if found else ""
