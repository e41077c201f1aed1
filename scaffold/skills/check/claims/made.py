"""Files that a text has its reader make: it tells so once, and names them freely from then on."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from scaffold.analysis.lazy_re import lazy_re
from scaffold.analysis.repository import Repository
from scaffold.skills.check.assertion import Stance
from scaffold.skills.check.claims.places import locate
from scaffold.skills.check.context import MADE, is_placeholder, silence
from scaffold.skills.check.documents import Document
from scaffold.skills.check.markdown import Block, Span
from scaffold.skills.check.sentence import any_of, compiled, plain, sentence_around

WHY = "the text has its reader make it"

_FILE = lazy_re(r"(?:\./)?(?P<path>[\w.@+-]+(?:/[\w.@()+-]+)*)")
_TEST = lazy_re(r"^test_|[._-](?:test|tests|spec|stories)$")
# What tells of a file that is there, and what shows a part of one or only uses it.
_TOLD = compiled(
    r"\b(?:",
    any_of("is are has have lives? sits? stands? looks? comes? excerpt existing current"),
    r"\b|",
    any_of("from of see like as via with against by using than this"),
    r"\W*$)",
)
_LABEL = lazy_re(r"^(?:\W|\d+[.)]|and\b|or\b)*$")
_COMMANDS = frozenset({"sh", "bash", "shell", "zsh", "console", "shell-session", "powershell"})


class Made(NamedTuple):
    """What a text makes.

    Args:
        paths: The files, as the text names them.
        folders: The folders of these that are not there.
        stems: Their names without endings: those of the example that the text goes through.
    """

    paths: frozenset[str]
    folders: frozenset[str]
    stems: frozenset[str]


def is_made_by(path: str, document: Document, repository: Repository) -> bool:
    """Return whether a text may make a file that is not there.

    Args:
        path: The file, without placeholders.
        document: The text.
        repository: The repository that lacks the file.
    """
    clean, made = path.removeprefix("./").strip("/"), _made(document, repository)
    if clean in made.paths or clean in made.folders or _stem(clean) in made.stems:
        return True
    return any(clean.startswith(f"{folder}/") for folder in made.folders)


@lru_cache(maxsize=16)
def shown_files(document: Document) -> frozenset[str]:
    """Return the files whose content a text shows behind their names."""
    followed = {(each.headings, each.lead) for each in document.markdown.fences if _is_file(each)}
    return frozenset(
        span.text.removeprefix("./")
        for span in document.markdown.codes
        if (_headings(span.block), span.block.text) in followed and _is_title(span)
    )


def _is_file(fence: Block) -> bool:
    return (fence.info.split() or ["sh"])[0].lower() not in _COMMANDS


def _headings(block: Block) -> tuple[str, ...]:
    """Return the headings that stand above what follows a block."""
    return (*block.headings, block.text) if block.kind == "heading" else block.headings


def _is_title(span: Span) -> bool:
    """Return whether a span names the content that follows: "`x.py`:", "A test, in `x.py`:"."""
    if _FILE.fullmatch(span.text) is None or "." not in span.text or is_placeholder(span.text):
        return False
    before, after = (plain(text).strip() for text in sentence_around(span))
    stance = Stance(span)
    if stance.is_directed or stance.is_described:
        return False
    if _LABEL.match(before) and (after.endswith(":") or not after.strip("*_.()")):
        return True
    return after.strip("*_)") == ":" and _TOLD.search(before) is None


@lru_cache(maxsize=16)
def _made(document: Document, repository: Repository) -> Made:
    told = {
        span.text.removeprefix("./")
        for span in document.markdown.codes
        if _FILE.fullmatch(span.text) and "/" in span.text and silence(span) == MADE
    }
    named = {path for path in {*told, *shown_files(document)} if not is_placeholder(path)}
    paths = {path.strip("/") for path in named if locate(path, document, repository) is None}
    folders = {
        folder
        for path in paths
        for folder in _folders(path)
        if locate(folder, document, repository) is None
    }
    stems = {_stem(path) for path in paths if "." in path.rpartition("/")[2]}
    return Made(frozenset(paths), frozenset(folders), frozenset(stems))


def _folders(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(2, len(parts))]


def _stem(path: str) -> str:
    return _TEST.sub("", path.rpartition("/")[2].partition(".")[0])
