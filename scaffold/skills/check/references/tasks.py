"""What programs of the trade are given: targets, scripts, extras, files, tests, markers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from scaffold.analysis.cli.shell_words import Word
from scaffold.analysis.lazy_re import lazy_re
from scaffold.skills.check.references.placeholders import is_placeholder

RUNNERS = frozenset(
    {"make", "gmake", "npm", "pnpm", "yarn", "bun", "just", "task", "pytest", "py.test"}
    | {"pre-commit", "prek", "uv", "pip", "pip3", "poetry", "pdm", "tox", "nox"}
)
# What makes another folder, or another file, count.
_ELSEWHERE = frozenset({"-C", "-f", "--file"})
_MAKE_VALUES = frozenset({"-o", "-W", "-I"})
TEST = lazy_re(r"^(?P<path>[\w./-]+\.py)(?P<node>(?:::[\w.-]+)*)(?:\[.*\])?$", re.DOTALL)
_CALLED = lazy_re(r"\([^()]*=[^()]*\)")
_WORD = lazy_re(r"[A-Za-z_]\w*")
_EXTRA = lazy_re(r"^(?P<base>[\w./-]*)\[(?P<extras>[\w.,\s-]+)\]$")


class Task(NamedTuple):
    """One word that a runner is given.

    Args:
        family: What it is: "make", "npm", "just", "extra", "group", "file", "test", "marker",
            "argument", "maybe".
        word: The word.
        name: The name within the word.
        folder: The folder, or the project, that the line names with it, or "".
    """

    family: str
    word: Word
    name: str
    folder: str = ""


def tasks_of(words: Sequence[Word]) -> Iterator[Task]:
    """Yield what the words of a command line name, from the runner on."""
    reader = _READERS.get(words[0].text.rpartition("/")[2]) if words else None
    for task in reader(words) if reader is not None else ():
        is_sure = task.word.is_sure or task.family in ("extra", "marker")
        if is_sure and not is_placeholder(task.name):
            yield task


def _make(line: Sequence[Word]) -> Iterator[Task]:
    words = line[1:]
    for index, each in enumerate(words):
        if each.text in _ELSEWHERE or each.text.startswith("--directory="):
            return
        is_value = index > 0 and words[index - 1].text in _MAKE_VALUES
        if is_value or each.text.startswith("-") or "=" in each.text or each.text.isupper():
            continue
        if re.fullmatch(r"[\w./-]+", each.text) and not each.text.isdigit():
            yield Task("make", each, each.text)


def _text(words: Sequence[Word], index: int) -> str:
    return words[index].text if index < len(words) else ""


def _npm(line: Sequence[Word]) -> Iterator[Task]:
    verb, rest = _text(line, 1), line[2:]
    # An option in front of either leads to another package, or has a value of its own.
    if verb in ("run", "run-script") and rest and re.fullmatch(r"[\w:.@/][\w:.@/-]*", rest[0].text):
        yield Task("npm", rest[0], rest[0].text)
    elif line[0].text == "npm" and verb in ("test", "stop", "restart"):
        yield Task("npm", line[1], verb)


def _just(line: Sequence[Word]) -> Iterator[Task]:
    words = line[1:]
    if words and re.fullmatch(r"[A-Za-z_][\w-]*", words[0].text):
        yield Task("just", words[0], words[0].text)


def _pip(line: Sequence[Word]) -> Iterator[Task]:
    words = line[1:]
    if _text(words, 0) == "pip":  # uv pip install
        words = words[1:]
    if _text(words, 0) in ("install", "add", "sync", "compile", "wheel", "download"):
        yield from _requirements(line, words[1:])


def _requirements(line: Sequence[Word], words: Sequence[Word]) -> Iterator[Task]:
    for index, each in enumerate(words):
        name, is_set, value = each.text.partition("=")
        if name in ("-r", "--requirement", "-c", "--constraint"):
            if is_set:
                yield Task("file", each, value)
            elif index + 1 < len(words):
                yield Task("file", words[index + 1], words[index + 1].text)
            continue
        raw = each.raw.strip("'\"").removeprefix("--editable=")
        found = _EXTRA.match(raw)
        if found:
            for extra in found["extras"].split(","):
                yield Task("extra", each, extra.strip(), found["base"])


def _uv(line: Sequence[Word]) -> Iterator[Task]:
    verb = _text(line, 1)
    if verb == "pip":
        yield from _pip(line)
    elif verb in ("sync", "run", "export", "lock"):
        yield from _named_options(line, ("--extra",), ("--group", "--only-group", "--no-group"))


def _poetry(line: Sequence[Word]) -> Iterator[Task]:
    if _text(line, 1) in ("install", "sync"):
        yield from _named_options(line, ("--extras", "-E"), ("--with", "--without", "--only"))


def _named_options(
    line: Sequence[Word], extras: Sequence[str], groups: Sequence[str]
) -> Iterator[Task]:
    words = line[2:]
    for index, each in enumerate(words):
        name, is_set, value = each.text.partition("=")
        if each.text == "--" or not (name.startswith("-") or line[1].text != "run"):
            return
        family = "extra" if name in extras else "group" if name in groups else ""
        word = each if is_set else words[index + 1] if index + 1 < len(words) else None
        if family and word is not None and word.is_sure:
            for part in re.split(r"[,\s]+", value if is_set else word.text):
                if re.fullmatch(r"[\w.-]+", part):
                    yield Task(family, word, part)


def _pytest(line: Sequence[Word]) -> Iterator[Task]:
    words = line[1:]
    for index, each in enumerate(words):
        before = words[index - 1].text if index else ""
        if before == "-m":
            expression = _CALLED.sub("", each.text)
            for name in _WORD.findall(expression) if each.is_sure else ():
                if name not in ("and", "or", "not", "True", "False"):
                    yield Task("marker", each, name)
        elif not each.text.startswith("-") and TEST.match(each.text) and each.is_sure:
            yield Task("test", each, each.text)
        elif not each.is_sure and (found := TEST.match(each.raw.strip("'\""))) and found["node"]:
            bare = Word(f"{found['path']}{found['node']}", each.line, each.column, raw=each.raw)
            yield Task("test", bare, bare.text)


def _go(line: Sequence[Word]) -> Iterator[Task]:
    if _text(line, 1) in ("test", "build", "run", "vet", "generate"):
        for each in line[2:]:
            if each.text.startswith("./") and "..." not in each.text and each.text != "./":
                yield Task("file", each, each.text)


_READERS: dict[str, Callable[[Sequence[Word]], Iterator[Task]]] = {
    "make": _make,
    "gmake": _make,
    "npm": _npm,
    "pnpm": _npm,
    "just": _just,
    "pip": _pip,
    "pip3": _pip,
    "uv": _uv,
    "poetry": _poetry,
    "pytest": _pytest,
    "py.test": _pytest,
    "go": _go,
}
