"""The text of one Python file, put together from imports and blocks."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from scaffold.archon.codegen.layout import WIDTH, break_lines
from scaffold.archon.codegen.names import ModelNames
from scaffold.templating.render import sorted_imports

INDENT = "    "


class Source:
    """Collects the imports and blocks of one file.

    Args:
        doc: Its docstring: one line, or a line, an empty one and more.
        names: Of the model that it belongs to.
        annotations: Whether annotations stay text, so that names may come later.
    """

    def __init__(self, doc: str, names: ModelNames, annotations: bool = True) -> None:
        self.doc, self.names = doc, names
        self._imports: list[str] = []
        self._blocks: list[str] = []
        if annotations:
            self.use("__future__", "annotations")

    def use(self, module: str, *names: str) -> None:
        """Import names from a module, or the module itself."""
        found = [f"from {module} import {name}" for name in names]
        self._imports += found or [f"import {module}"]

    def share(self, part: str, *names: str) -> None:
        """Import names from a shared part."""
        self.use(f"{self.names.parts}.{part}", *names)

    def use_as(self, module: str, name: str) -> None:
        """Import a module under another name."""
        self._imports.append(f"import {module} as {name}")

    def add(self, block: str) -> None:
        """Add a class, a function or some statements."""
        self._blocks.append(block.strip("\n"))

    def text(self) -> str:
        """Return the file."""
        parts = [docstring(self.doc)]
        if self._imports:
            parts.append(
                sorted_imports("\n".join(self._imports), (self.names.first_party, "tests"))
            )
        head = "\n\n".join(part.strip("\n") for part in parts)
        # Two blank lines around definitions, one between statements, as formatters have it.
        statements = [block for block in self._blocks if not _is_definition(block)]
        definitions = [block for block in self._blocks if _is_definition(block)]
        top = "\n\n".join([head, *statements])
        return break_lines("\n\n\n".join([top, *definitions]) + "\n")


def _is_definition(block: str) -> bool:
    return block.startswith(("class ", "def ", "@"))


def docstring(text: str, indent: str = "") -> str:
    """Return text as a docstring, wrapped; paragraphs stay apart, indented lines stay lines."""
    width = WIDTH - len(indent)
    first, *rest = text.strip().split("\n")
    lines = _wrapped([first], width - 3) if rest else [first]
    lines += _wrapped(rest, width)
    if len(lines) == 1 and len(lines[0]) + 6 <= width:
        return f'{indent}"""{lines[0]}"""'
    if len(lines) == 1:
        lines = _wrapped(lines, width - 3)
    body = [f'"""{lines[0]}', *lines[1:], '"""']
    return "\n".join(indent + line if line else "" for line in body)


def _wrapped(lines: Iterable[str], width: int) -> list[str]:
    found: list[str] = []
    for line in lines:
        lead = line[: len(line) - len(line.lstrip())]
        # An entry of a list goes on further to the right.
        hanging = lead + INDENT if lead else ""
        found += textwrap.wrap(
            line, width, subsequent_indent=hanging, break_long_words=False, break_on_hyphens=False
        ) or [""]
    return found


def indented(lines: Iterable[str], depth: int = 1) -> list[str]:
    """Return lines further to the right."""
    return [INDENT * depth + line if line else "" for line in lines]


def function_text(signature: str, body: Sequence[str], doc: str = "") -> str:
    """Return a function: ``def``, its docstring and its statements."""
    lines = [f"{signature}:"]
    lines += docstring(doc, INDENT).split("\n") if doc else []
    return "\n".join([*lines, *indented(body)])


def class_text(name: str, base: str, doc: str, parts: Sequence[str], decorator: str = "") -> str:
    """Return a class of fields and methods, each part given at the left margin."""
    head = [decorator] if decorator else []
    head += [f"class {name}({base}):", docstring(doc, INDENT)]
    bodies = ["\n".join(indented(part.strip("\n").split("\n"))) for part in parts if part.strip()]
    return "\n\n".join(["\n".join(head), *bodies])
