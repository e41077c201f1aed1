"""The Python in a document: its blocks, parsed where they can be, and what they define."""

from __future__ import annotations

import ast
import re
import textwrap
from dataclasses import dataclass
from functools import lru_cache

from scaffold.analysis.lazy_re import lazy_re
from scaffold.analysis.python.scopes import bound_names, imported
from scaffold.skills.check.claims.made import shown_files
from scaffold.skills.check.context import block_silence, is_placeholder, lead_silence, silence
from scaffold.skills.check.documents import Document
from scaffold.skills.check.markdown import Block
from scaffold.syntax import parse

LANGUAGES = frozenset({"python", "py", "python3", "pycon"})

_PLACEHOLDER = lazy_re(r"<([A-Za-z][\w /.-]*)>|\{\{\s*([\w.]+)[^{}]*\}\}")
_ELIDED = lazy_re(r"…|\.\.\.|\{\{|\{%|<[A-Za-z][^<>\n]*>|^\s*[$%!?]|^[+-] ?\S", re.MULTILINE)
_BODYLESS = lazy_re(r"^(?P<lead>\s*)(?:async\s+def|def|class)\b.*$")
# What the Python that runs this may be too old, or too new, to parse.
_OTHER_PYTHONS = lazy_re(
    r"^\s*(?:type\s+\w+.*=|(?:async\s+)?(?:def|class)\s+\w+\[|except\s+\w[\w.]*\s*,\s*\w|lazy\s"
    r"|print\s+[\"'\w]|exec\s)|\b[ftFT][\"']",
    re.MULTILINE,
)
_PATH_COMMENT = lazy_re(r"^\s*#\s*(?:file:\s*)?(?P<path>[\w./<>{}-]+\.py)\b")


@dataclass(frozen=True)
class Source:
    """One block of Python.

    Args:
        block: Where it stands.
        tree: Its syntax, or None where it cannot be parsed.
        problem: What Python says of it, where it cannot be parsed and leaves nothing out.
        problem_line: Where, in the document's lines.
        silent: Why it claims nothing of the repository, or None.
    """

    block: Block
    tree: ast.Module | None
    problem: str | None
    problem_line: int
    silent: str | None

    def line(self, node: ast.AST) -> int:
        """Return the document's line of a node."""
        return self.block.line + int(getattr(node, "lineno", 1)) - 1


@lru_cache(maxsize=16)
def python_sources(document: Document) -> tuple[Source, ...]:
    """Return the blocks of Python of a document."""
    return tuple(_source(fence) for fence in document.markdown.fences if _is_python(fence))


def _is_python(fence: Block) -> bool:
    words = fence.info.replace(",", " ").replace("{", " ").replace("}", " ").split()
    return bool(words) and words[0].lower().lstrip(".") in LANGUAGES


def _source(fence: Block) -> Source:
    text = _undoctest(fence.text)
    silent = block_silence(fence) or lead_silence(fence, is_code=True)
    tree = parse_fragment(text)
    if tree is not None:
        return Source(fence, tree, None, fence.line, silent)
    problem, line = _problem(text)
    if _ELIDED.search(text) or _OTHER_PYTHONS.search(text):
        return Source(fence, None, None, fence.line + line - 1, silent)
    return Source(fence, None, problem, fence.line + line - 1, silent)


def parse_fragment(text: str) -> ast.Module | None:
    """Parse Python that may hold placeholders, or be a part cut out of something larger.

    Lines stay where they are, so that those of the nodes are those of the text.
    """
    completed = _PLACEHOLDER.sub(lambda found: _identifier(found[1] or found[2]), text)
    for candidate in (text, completed):
        for form in (candidate, textwrap.dedent(candidate), _with_bodies(candidate)):
            if (tree := _parse(form)) is not None:
                return tree
    dedented = textwrap.dedent(completed)
    for before, after in (("_ = {", "\n}"), ("_(", "\n)"), ("_ = [", "\n]"), ("if _: pass\n", "")):
        if (tree := _parse(before + dedented + after)) is not None:
            return tree if before[-1] != "\n" else None
    return None


def _parse(text: str) -> ast.Module | None:
    try:
        return parse(text)
    except SyntaxError:
        return None


def _problem(text: str) -> tuple[str, int]:
    try:
        parse(textwrap.dedent(text))
    except SyntaxError as error:
        return error.msg, error.lineno or 1
    return "it cannot be parsed", 1


def _identifier(words: str) -> str:
    return "placeholder_" + re.sub(r"\W+", "_", words).strip("_")


def _undoctest(text: str) -> str:
    """Return a doctest's commands with the output blanked out, line by line."""
    if not re.search(r"^\s*>>> ", text, re.MULTILINE):
        return text
    rows = (re.match(r"\s*(?:>>>|\.\.\.)(?: (?P<code>.*))?$", line) for line in text.split("\n"))
    return "\n".join((row["code"] or "") if row else "" for row in rows)


def _with_bodies(text: str) -> str:
    """Return a text in which a `def` or `class` that stands there alone has a body."""
    lines = textwrap.dedent(text).split("\n")
    for index, line in enumerate(lines):
        found = _BODYLESS.match(line)
        if found is None:
            continue
        following = next((each for each in lines[index + 1 :] if each.strip()), "")
        lead = len(found["lead"])
        if len(following) - len(following.lstrip()) <= lead and line.count("(") == line.count(")"):
            lines[index] = line.rstrip().removesuffix(":") + ": ..."
    return "\n".join(lines)


@lru_cache(maxsize=16)
def imported_names(document: Document) -> dict[str, str]:
    """Return what each name means that a block of the document imports, as a dotted name.

    A name that blocks import from different packages means neither for certain.
    """
    names: dict[str, str] = {}
    tops: dict[str, set[str]] = {}
    for source in python_sources(document):
        if source.tree is not None:
            for name, dotted in imported(source.tree):
                names[name] = dotted
                tops.setdefault(name, set()).add(dotted.split(".")[0])
    return {name: dotted for name, dotted in names.items() if len(tops[name]) == 1}


@lru_cache(maxsize=16)
def defined_names(document: Document) -> frozenset[str]:
    """Return every name that some block of the document binds: its own, not the repository's."""
    return frozenset(
        name
        for source in python_sources(document)
        if source.tree is not None
        for name in bound_names(source.tree)
    )


@lru_cache(maxsize=16)
def written_names(document: Document) -> dict[str, frozenset[str]]:
    """Return the functions, classes and members that some block writes out, with what they take.

    They may be those of the repository as the reader is to change them.
    """
    taken: dict[str, frozenset[str]] = {}
    for source in python_sources(document):
        for node in source.tree.body if source.tree is not None else ():
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                taken[node.name] = _parameters(node)
            elif isinstance(node, ast.ClassDef):
                taken |= _members(node)
    return taken


def _parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> frozenset[str]:
    given = node.args
    every = (*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg)
    return frozenset(each.arg for each in every if each is not None)


def _members(node: ast.ClassDef) -> dict[str, frozenset[str]]:
    members: dict[str, frozenset[str]] = {}
    for each in node.body:
        if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)):
            members[f"{node.name}.{each.name}"] = _parameters(each)
        elif isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            members[f"{node.name}.{each.target.id}"] = frozenset()
    fields = frozenset(name.partition(".")[2] for name, taken in members.items() if not taken)
    return members | {node.name: members.get(f"{node.name}.__init__", fields)}


@lru_cache(maxsize=16)
def made_modules(document: Document) -> frozenset[str]:
    """Return the stems of the Python files that the document tells its reader to make."""
    paths: set[str] = set()
    for span in document.markdown.codes:
        if span.text.endswith(".py") and silence(span) is not None:
            paths.add(span.text)
    paths.update(each for each in shown_files(document) if each.endswith(".py"))
    for fence in document.markdown.fences:
        first = _PATH_COMMENT.match(fence.text.split("\n", 1)[0])
        if first:
            paths.add(first["path"])
    return frozenset(path.rpartition("/")[2].removesuffix(".py") for path in paths)


def is_made(module: str, document: Document) -> bool:
    """Return whether a module that does not exist may be one that the document has made."""
    last = module.rpartition(".")[2]
    return is_placeholder(module) or "placeholder_" in module or last in made_modules(document)
