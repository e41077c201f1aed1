"""Docstrings in three forms: what is rendered in Google's is rewritten for a repository's own."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from scaffold.syntax import parse

# A section's heading in each form: `Args:`, `Parameters` over dashes, `:param x:`.
_GOOGLE = re.compile(r"^ *(Args|Returns|Raises|Yields):\s*$", re.MULTILINE)
_NUMPY = re.compile(r"^ *(Parameters|Returns|Raises|Yields)\s*\n *-{4,}\s*$", re.MULTILINE)
_SPHINX = re.compile(r"^ *:(param|returns?|raises|rtype|type)\b[^:\n]*:", re.MULTILINE)
_SECTION = re.compile(r"(Args|Returns|Yields|Raises|Source|Example|Examples):")
# `name: text` or `**kwargs: text`, at the margin of its section.
_ITEM = re.compile(r"(\*{0,2}[A-Za-z_][\w.]*): ?(.*)")

Function = ast.FunctionDef | ast.AsyncFunctionDef
Owner = ast.Module | ast.ClassDef | Function


@dataclass(frozen=True)
class _Section:
    title: str
    rows: list[str]


def form_of(text: str) -> str:
    """Return the form that most docstring sections of a file have, or ""."""
    counts = {
        "google": len(_GOOGLE.findall(text)),
        "numpy": len(_NUMPY.findall(text)),
        "sphinx": len(_SPHINX.findall(text)),
    }
    best = max(counts, key=lambda form: counts[form])
    return best if counts[best] else ""


def convert(text: str, form: str) -> str:
    """Rewrite the docstrings of a Python text from Google's form into another one.

    Args:
        text: The text of a module.
        form: One of `scaffold.target.layouts.DOCSTRING_FORMS`.

    Raises:
        SyntaxError: The text is no Python.
    """
    lines = text.splitlines(keepends=True)
    # From the bottom up: the lines above keep their numbers.
    for owner, node in sorted(_docstrings(parse(text)), key=lambda each: -each[1].lineno):
        doc = inspect.cleandoc(str(node.value))
        head, sections = _parse(doc)
        if not sections:
            continue
        body = head + [row for each in sections for row in _written(each, form, _types(owner))]
        if form == "sphinx":
            body = _joined_fields(body)
        indent = " " * node.col_offset
        start, end = node.lineno - 1, node.end_lineno or node.lineno
        # The three quotes with the prefix in front of them, as in `r"""`.
        quote = lines[start].lstrip()[: lines[start].lstrip().index('"') + 3]
        rows = [indent + quote + body[0], *(indent + row if row else "" for row in body[1:])]
        lines[start:end] = [row + "\n" for row in [*rows, f'{indent}"""']]
    return "".join(lines)


def _docstrings(tree: ast.Module) -> Iterator[tuple[Owner, ast.Constant]]:
    for owner in ast.walk(tree):
        if isinstance(owner, Owner) and ast.get_docstring(owner) is not None:
            statement = owner.body[0]
            assert isinstance(statement, ast.Expr)
            assert isinstance(statement.value, ast.Constant)
            yield owner, statement.value


def _parse(doc: str) -> tuple[list[str], list[_Section]]:
    """Split a docstring into what comes before its sections, and these, their rows dedented."""
    head: list[str] = []
    sections: list[_Section] = []
    # The rows go back between three double quotes.
    for row in doc.replace("\\", "\\\\").replace('"""', '\\"\\"\\"').split("\n"):
        found = _SECTION.fullmatch(row.rstrip()) or re.match(r"(Source|Example): (.+)", row)
        if found:
            # `Source: a paper` has its text on the heading's own line.
            rest = [found[2]] if found.re.groups == 2 else []
            sections.append(_Section(found[1], rest))
        elif sections:
            sections[-1].rows.append(row.removeprefix("    "))
        else:
            head.append(row.rstrip())
    for section in sections:
        while section.rows and not section.rows[-1].strip():
            section.rows.pop()
    while head and not head[-1]:
        head.pop()
    return head, sections


def _items(section: _Section) -> Iterator[tuple[str, list[str]]]:
    """Yield the names that a section explains, each with its text."""
    name, rows = "", list[str]()
    for row in section.rows:
        # An indented row goes on with the item above it.
        found = None if row.startswith(" ") else _ITEM.match(row)
        if found:
            if name or rows:
                yield name, rows
            name, rows = found[1], [found[2]]
        else:
            rows.append(row.strip())
    if name or rows:
        yield name, rows


def _written(section: _Section, form: str, types: Mapping[str, str]) -> Iterator[str]:
    yield from _numpy(section, types) if form == "numpy" else _sphinx(section)


def _numpy(section: _Section, types: Mapping[str, str]) -> Iterator[str]:
    title = {"Args": "Parameters", "Source": "References"}.get(section.title, section.title)
    yield from ("", title, "-" * len(title))
    if section.title in ("Returns", "Yields"):
        # numpydoc requires a type there.
        yield types.get("return", "object")
        yield from (f"    {row.strip()}" for row in section.rows)
    elif section.title in ("Args", "Raises"):
        for name, rows in _items(section):
            kind = types.get(name.lstrip("*"), "")
            yield f"{name} : {kind}" if kind else name
            yield from (f"    {row}" for row in rows)
    else:
        yield from section.rows


def _sphinx(section: _Section) -> Iterator[str]:
    yield ""
    if section.title in ("Args", "Raises"):
        word = "param" if section.title == "Args" else "raises"
        for name, rows in _items(section):
            yield f":{word} {name.lstrip('*')}: {rows[0]}".rstrip()
            yield from (f"    {row}" for row in rows[1:])
    elif section.title in ("Returns", "Yields"):
        first, *more = section.rows or [""]
        yield f":returns: {first}".rstrip()
        yield from (f"    {row}" for row in more)
    else:
        yield f"{section.title}:"
        yield from (f"    {row}" for row in section.rows)


def _joined_fields(rows: list[str]) -> list[str]:
    """Drop the empty lines between fields, which make one list."""
    return [
        row
        for n, row in enumerate(rows)
        if row or not (n + 1 < len(rows) and _is_field(rows[n + 1]) and _in_fields(rows[:n]))
    ]


def _is_field(row: str) -> bool:
    return row.startswith((":param", ":returns", ":raises"))


def _in_fields(rows: list[str]) -> bool:
    return _is_field(next((row for row in reversed(rows) if not row.startswith(" ")), ""))


def _types(owner: Owner) -> dict[str, str]:
    """Return the annotations of a function's parameters, or of a class's constructor."""
    if isinstance(owner, ast.ClassDef):
        found = (node for node in owner.body if isinstance(node, Function))
        owner = next((node for node in found if node.name == "__init__"), owner)
    if not isinstance(owner, Function):
        return {}
    given = owner.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    types = {arg.arg: ast.unparse(arg.annotation) for arg in every if arg and arg.annotation}
    return types | ({"return": ast.unparse(owner.returns)} if owner.returns else {})
