"""Cases of a test in Markdown: a heading a case, its options in TOML, its files in fenced blocks.

    # Dictionaries

    ```toml
    shape = "dict"          # above the first case: for every case of the page
    ```

    ## A sorted table

    ```toml
    key = "k"
    ```

    ```python before
    T = {}
    ```

The info string of a file's block has its language, its name, and what Markdown cannot show of its
bytes: a codec, ``bom``, ``cr`` or ``crlf``, ``no-final-newline``, or ``escaped`` where the text has
the escapes of a Python literal. The form follows ruff's mdtest.
"""

from __future__ import annotations

import codecs
import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt

LINE_ENDS = {"cr": "\r", "crlf": "\r\n"}
FLAGS = {"bom", "escaped", "no-final-newline", *LINE_ENDS}


@dataclass
class MarkdownCase:
    """One heading of a page: ``id`` is ``<page>/<slug of the heading>``."""

    id: str
    options: dict[str, Any]
    files: dict[str, bytes] = field(default_factory=dict[str, bytes])


def file_bytes(text: str, flags: list[str]) -> bytes:
    """Return the bytes of a block's text; raise LookupError for a flag that is no codec either."""
    encodings = [flag for flag in flags if flag not in FLAGS] or ["utf-8"]
    (encoding,) = (codecs.lookup(name).name for name in encodings)
    if "no-final-newline" in flags:
        text = text.removesuffix("\n")
    for name in LINE_ENDS.keys() & flags:
        text = text.replace("\n", LINE_ENDS[name])
    data = text.encode(encoding)
    if "escaped" in flags:
        data, _ = codecs.escape_decode(data)
    return codecs.BOM_UTF8 + data if "bom" in flags else data


def read_cases(page: Path) -> list[MarkdownCase]:
    """Return the cases of a page in their order."""
    common: dict[str, Any] = {}
    cases: list[MarkdownCase] = []
    tokens = MarkdownIt().parse(page.read_text(encoding="utf-8"))
    for number, token in enumerate(tokens):
        if token.type == "heading_open" and token.tag == "h2":
            slug = re.sub(r"[^\w.]+", "-", tokens[number + 1].content.lower()).strip("-")
            cases.append(MarkdownCase(f"{page.stem}/{slug}", dict(common)))
        if token.type != "fence":
            continue
        language, *name = token.info.split()
        if not name and language == "toml":
            (cases[-1].options if cases else common).update(tomllib.loads(token.content))
            continue
        files = cases[-1].files
        assert name[0] not in files, f"{cases[-1].id} has two files {name[0]!r}"
        files[name[0]] = file_bytes(token.content, name[1:])
    return cases
