"""Faults that only show beside the other documents: two of a name, copies, orphans, odd names."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from scaffold.analysis.files.files import Files
from scaffold.analysis.lazy_re import lazy_re
from scaffold.findings import Finding
from scaffold.skills.check.read.documents import CLIENT_FOLDERS, Document
from scaffold.skills.check.references.links import unquoted
from scaffold.skills.check.rules import fault

_TOKEN = lazy_re(r"[\w.*-]*(?:/[\w.*-]+)*[/.][\w.*-]*/?")


def check_pack(documents: Sequence[Document], files: Files) -> Iterator[Finding]:
    """Yield the faults of the documents of a repository taken together."""
    skills = [each for each in documents if each.kind == "skill"]
    yield from _duplicates(skills)
    yield from _copies(skills)
    yield from _orphans(documents, files)
    for name in ("skill.md", "Skill.md", "SKILL.MD", "SKILLS.md"):
        for path in files.by_name.get(name, ()):
            if not files.has(f"{path.rpartition('/')[0]}/SKILL.md") and _is_skill_folder(path):
                yield fault(path, 1, "skill-case", name, f"{name} must be called SKILL.md")


def copies(documents: Sequence[Document]) -> set[str]:
    """Return the paths of documents whose body is in another root too, and count there."""
    bodies: dict[tuple[str, str], str] = {}
    found: set[str] = set()
    for document in documents:  # sources come first
        is_part = document.kind in ("skill", "reference")
        # A CLAUDE.md is often AGENTS.md under another name.
        key = (_place(document) if is_part else document.kind, _body(document))
        if key in bodies:
            found.add(document.path)
        bodies.setdefault(key, document.path)
    return found


def _duplicates(skills: Sequence[Document]) -> Iterator[Finding]:
    names: dict[tuple[str, str], Document] = {}
    for skill in skills:
        name = skill.front_matter.fields.get("name")
        if not isinstance(name, str):
            continue
        root = skill.folder.rpartition("/")[0]
        first = names.setdefault((root, name), skill)
        if first is not skill:
            message = f"the name {name!r} is also that of {first.path}"
            line = skill.front_matter.lines.get("name", 1)
            yield fault(skill.path, line, "name-duplicate", name, message)


def _copies(skills: Sequence[Document]) -> Iterator[Finding]:
    """Yield the copies in clients' folders that say something else than the first one."""
    places: dict[str, list[Document]] = defaultdict(list)
    for skill in skills:
        if skill.path.startswith(CLIENT_FOLDERS):
            places[_place(skill)].append(skill)
    for first, *others in places.values():
        for other in others:
            for line, text in _differences(first, other):
                message = f"the copy differs from {first.path} here"
                yield fault(other.path, line, "copy-differs", text or other.folder, message)


def _place(document: Document) -> str:
    """Return where a document is in its root of skills: the same for all its copies."""
    root = document.folder.rpartition("/")[0]
    return document.path.removeprefix(f"{root}/" if root else "")


def _body(document: Document) -> str:
    return "\n".join(document.lines[document.front_matter.body_line - 1 :]).strip()


def _differences(first: Document, other: Document) -> Iterator[tuple[int, str]]:
    """Yield the line and the first words of each part in which a copy differs."""
    if _body(first) == _body(other):
        return
    from difflib import SequenceMatcher

    start = other.front_matter.body_line
    ours = [line.rstrip() for line in other.lines[start - 1 :]]
    theirs = [line.rstrip() for line in first.lines[first.front_matter.body_line - 1 :]]
    for kind, _, _, low, _ in SequenceMatcher(None, theirs, ours, autojunk=False).get_opcodes():
        if kind != "equal":
            at = min(low, len(ours) - 1)
            yield start + at, ours[at].strip()[:80] if ours else ""


def _orphans(documents: Sequence[Document], files: Files) -> Iterator[Finding]:
    """Yield the references that no text of their skill names by their path or, as code, stem."""
    texts: dict[str, list[Document]] = defaultdict(list)
    for document in documents:
        if document.kind in ("skill", "reference"):
            texts[document.folder].append(document)
    for folder, own in texts.items():
        tokens = {each.path: frozenset(_named(each)) for each in own}
        for path in sorted(files.below(f"{folder}/references")):
            if path.rpartition("/")[2].startswith("."):
                continue
            others = (each for other, found in tokens.items() if other != path for each in found)
            if not any(_is_named(path, each, folder) for each in others):
                inside = path.removeprefix(f"{folder}/references/")
                message = f"nothing in {folder} names it"
                yield fault(path, 1, "reference-orphaned", inside, message)


def _named(document: Document) -> Iterator[str]:
    words = (found.group() for found in _TOKEN.finditer(document.text))
    links = (unquoted(link.text.partition("#")[0]) for link in document.markdown.links)
    # A loader is given the stem alone: "- **`gotchas`**: traps of notebooks".
    stems = (f"{span.text}.md" for span in document.markdown.codes)
    for each in (*words, *links, *stems):
        yield re.sub(r"^(?:\.{1,2}/)+", "", each).rstrip(".")


def _is_named(path: str, token: str, folder: str) -> bool:
    """Return whether a word of a text is the path of a file, or of a folder that it is in."""
    if "*" in token:
        return token.startswith("references/") or "/references/" in token
    clean = token.rstrip("/")
    if path == clean or path.endswith(f"/{clean}"):
        return True
    is_folder = token.endswith("/") or "/" in clean
    return is_folder and f"{path}/".startswith(f"{folder}/{clean}/")


def _is_skill_folder(path: str) -> bool:
    parts = path.split("/")
    return len(parts) >= 3 and parts[-3] in ("skills", ".skills")
