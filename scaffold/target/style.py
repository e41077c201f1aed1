"""The style of a repository's files: licence header, form of docstrings, place of tests.

What ``[tool.scaffold.style]`` leaves open is learned from the files beside the new one: what most
of them do is the style. Everything here is pure: texts in, texts out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from scaffold.syntax import parse
from scaffold.target.docstrings import convert, form_of

MIN_SIBLINGS = 2
"""How many files have to agree before a style is taken from them."""

# What makes a comment at the top a licence header, a shebang or encoding cookie in front of it, and
# the block of comments itself.
_LICENCE = re.compile(r"(?i)copyright|licen[cs]e|SPDX-")
_PROLOGUE = re.compile(r"\A(?:#![^\n]*\n)?(?:#[^\n]*coding[:=][^\n]*\n)?")
_HEADER = re.compile(r"(?:#[^\n]*\n)+\n?")


@dataclass(frozen=True)
class FileStyle:
    """How a repository writes its files.

    Args:
        header: The licence header, comment lines that each end in a line feed.
        docstrings: One of `scaffold.target.layouts.DOCSTRING_FORMS`.
        names: What has another name than in a kind's manifest, such as "test".
    """

    header: str = ""
    docstrings: str = "google"
    names: Mapping[str, str] = field(default_factory=dict[str, str])


def learn_file_style(siblings: Mapping[str, str]) -> FileStyle:
    """Learn header and docstrings from Python files.

    Args:
        siblings: Path to text of the files beside the new one.
    """
    texts = [text for text in siblings.values() if text.strip()]
    forms = filter(None, map(form_of, texts))
    return FileStyle(_most(map(_header, texts)), _most(forms) or "google")


def learn_test(stems: Iterable[str], tests: Iterable[str]) -> str:
    """Return where the tests of siblings are, as a pattern with ``{key}``, or "".

    Args:
        stems: The siblings' names without suffix.
        tests: Paths of the files below the folder of the tests.
    """
    found: list[str] = []
    for stem in stems:
        # The two names by which pytest finds tests, with the variable that a manifest has for the
        # unit.
        names = {f"test_{stem}.py": "test_{key}.py", f"{stem}_test.py": "{key}_test.py"}
        for path in map(PurePosixPath, tests):
            # A brace in a folder's name would be read as the beginning of a variable.
            if path.name in names and "{" not in str(path.parent):
                # Some repositories have a folder for each unit's tests.
                parent = [part if part != stem else "{key}" for part in path.parent.parts]
                found.append("/".join([*parent, names[path.name]]))
    return _most(found)


def apply_file_style(path: str, data: bytes, file_style: FileStyle) -> bytes:
    """Return a rendered file as the repository would write it; other files than Python stay."""
    if not path.endswith(".py"):
        return data
    text = data.decode("utf-8")
    if file_style.docstrings != "google":
        text = convert(text, file_style.docstrings)
    if file_style.header and file_style.header.strip() not in text and not _header(text):
        prologue = _PROLOGUE.match(text)
        end = prologue.end() if prologue else 0
        gap = "\n" if text[end:].strip() else ""
        text = text[:end] + file_style.header.rstrip("\n") + "\n" + gap + text[end:]
    # A header or docstring that breaks the file is found here, before anything is written.
    parse(text)
    return text.encode("utf-8")


def _header(text: str) -> str:
    """Return the comment block at the top of a file if it speaks of a licence, else ""."""
    prologue = _PROLOGUE.match(text)
    found = _HEADER.match(text, prologue.end() if prologue else 0)
    block = found[0].rstrip("\n") + "\n" if found else ""
    return block if _LICENCE.search(block) else ""


def _most(values: Iterable[str]) -> str:
    """Return what more than half of the values are, if they are enough."""
    counts = Counter(values)
    value, count = counts.most_common(1)[0] if counts else ("", 0)
    return value if count >= MIN_SIBLINGS and 2 * count > counts.total() else ""
