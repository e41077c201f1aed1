"""Code that does without a name where it is missing: fallbacks and questions of version."""

from __future__ import annotations

import ast
import re

# What Python raises for a module, a name or a parameter that is not there, and their bases.
_FORGIVING = frozenset(
    {"ImportError", "ModuleNotFoundError", "AttributeError", "TypeError", "NameError"}
    | {"Exception", "BaseException"}
)
# `pkg.__version__ >= "2"`, `hasattr(x, "y")`, `find_spec(...)`, `IS_PYDANTIC_V2`, `TORCH_GTE_2_4`.
_VERSION = re.compile(r"version|hasattr\(|find_spec|_V\d|\bV\d|_LT_|_GTE?_", re.IGNORECASE)
_OF_PYTHON = re.compile(r"sys\.version_info|python_version|sys\.hexversion")


def guard_of_try(node: ast.Try) -> str:
    """Return what a ``try`` forgives of what a package may lack; "" where it forgives nothing."""
    for handler in node.handlers:
        if handler.type is None:
            return "except"
        kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
        for each in kinds:
            name = each.attr if isinstance(each, ast.Attribute) else getattr(each, "id", "")
            if name in _FORGIVING:
                return f"except {name}"
    return ""


def guard_of_test(test: ast.expr) -> str:
    """Return a condition that asks for a version or a name; "" where it asks for neither."""
    text = ast.unparse(test)
    # A question about Python's own version guards nothing of the package.
    if _VERSION.search(_OF_PYTHON.sub("", text)):
        return f"if {text}" if len(text) <= 60 else f"if {text[:57]}..."
    return ""


def guard_of_with(node: ast.With | ast.AsyncWith) -> str:
    """Return the ``suppress(...)`` around a block, or ""."""
    for item in node.items:
        call = item.context_expr
        if isinstance(call, ast.Call) and ast.unparse(call.func).endswith("suppress"):
            names = {ast.unparse(each).rpartition(".")[2] for each in call.args}
            if names & _FORGIVING:
                return ast.unparse(call)
    return ""
