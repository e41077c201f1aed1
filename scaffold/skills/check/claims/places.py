"""Where a path that a text names could be: from the repository's root, a package, the skill."""

from __future__ import annotations

import itertools
import os
import re
from bisect import bisect_left
from typing import NamedTuple

from scaffold.analysis.lazy_re import lazy_re
from scaffold.analysis.repository import Repository
from scaffold.findings import Fix
from scaffold.skills.check.claim import Verdict
from scaffold.skills.check.context import is_placeholder
from scaffold.skills.check.documents import Document

SKILL_FOLDERS = frozenset({"scripts", "references", "assets"})
# Folders that any project has: in a pack they are those of the reader's project.
_ANYWHERE = frozenset(
    {"app", "apps", "assets", "bin", "build", "components", "config", "configs", "data", "dist"}
    | {
        "doc",
        "docs",
        "examples",
        "include",
        "lib",
        "libs",
        "output",
        "outputs",
        "packages",
        "pages",
    }
    | {"public", "resources", "scripts", "src", "static", "styles", "templates", "test", "tests"}
    | {"tools", "utils", "references", "models", "api", "server", "client", "skills", "commands"}
    | {"agents", "hooks", "plugins", "rules", "specs", "plans", "notes", "reports", "tmp", "logs"}
)
# Folders that tools make; whoever names one knows that it is not kept.
_MADE_FOLDERS = frozenset(
    {"node_modules", "__pycache__", ".venv", "venv", ".cache", ".pytest_cache", ".mypy_cache"}
    | {"dist", "build", "target", ".next", ".ruff_cache", "htmlcov", "coverage"}
)
# What is made on each machine, and kept on none: logs, results, secrets, settings of one person.
_MADE_NAMES = lazy_re(
    r"(?:^|/)(?:logs?|results?|outputs?|out|\.?cache[\w-]*|tmp|temp|runs|checkpoints|artifacts?|site|coverage"
    r"|reports?|downloads|weights|generated|secrets?|credentials)(?=/|$|\.[\w.]+$)"
    r"|[._/-](?:local|secrets?|private|credentials?|overrides?|generated)\.[\w.]+$|\.(?:log|env|lock)$",
    re.IGNORECASE,
)
# Names that many folders have, so that one elsewhere is not the one that was meant.
COMMON_NAMES = frozenset(
    {"__init__.py", "README.md", "SKILL.md", "index.ts", "index.js", "main.py", "conftest.py"}
    | {
        "models.py",
        "views.py",
        "urls.py",
        "tasks.py",
        "admin.py",
        "apps.py",
        "tests.py",
        "types.py",
    }
    | {
        "types.py",
        "main.go",
        "mod.rs",
        "lib.rs",
        "main.tf",
        "variables.tf",
        "outputs.tf",
        "main.yml",
    }
    | {"config.py", "utils.py", "package.json", "pyproject.toml", "Makefile", "setup.py", "test.py"}
)


_WILD = lazy_re(
    r"(<[^<>]+>|\{[^{}]+\}|\*\*/?|\*|\?|\.\.\.|…|\[[^\[\]]+\]"
    r"|(?<![^/_.-])(?:NAME|FILE|FOLDER|DIR|KIND|STYLE|MODEL|MODULE|ID|VERSION|RULE)(?![^/_.-]))"
)


class Place(NamedTuple):
    """Where a path was found."""

    path: str


def locate(path: str, document: Document, repository: Repository) -> Place | None:
    """Return where a path without placeholders exists, or None."""
    files = repository.files
    clean = path.strip("/") if path != "/" else path
    for base in bases(document, repository):
        joined = os.path.normpath(f"{base}/{clean}" if base else clean)
        if joined.startswith(".."):
            continue
        if files.has(joined):
            return Place(joined)
        if files.has(f"{joined}.py"):  # as a module is often named
            return Place(f"{joined}.py")
    # Texts often leave out the folders that are plain from where they stand.
    name = clean.rpartition("/")[2]
    for full in files.by_name.get(name, ()):
        if full.endswith("/" + clean):
            return Place(full)
    for folder in files.folders_by_name.get(name, ()):
        if folder.endswith("/" + clean):
            return Place(folder)
    return None


def bases(document: Document, repository: Repository) -> list[str]:
    """Return the folders that the paths of a document may start from."""
    own = document.path.rpartition("/")[0]
    return list(dict.fromkeys([document.folder, *repository.bases(own)]))


def missing(path: str, document: Document, repository: Repository) -> Verdict:
    """Judge a path that exists nowhere: refuted where it is anchored, undecided elsewhere."""
    anchor = _anchor(path, document, repository)
    if anchor is None:
        return Verdict.open(f"no folder {path.split('/')[0]!r} here: it may be of another place")
    files = repository.files
    whole = os.path.normpath(f"{anchor}/{path}" if anchor else path)
    if outer := next((part for part in _prefixes(whole) if part in files.paths), None):
        return Verdict.open(f"{outer} is a link or a module of its own, not listed here")
    if files.is_ignored(whole) or _MADE_FOLDERS.intersection(whole.split("/")):
        return Verdict.open("git ignores it: it is made, not kept")
    if _MADE_NAMES.search(path):
        return Verdict.open("such files are made on each machine, and kept on none")
    deepest = next((part for part in _prefixes(whole) if part in files.folders), "")
    if _stands_for_siblings(whole, deepest, repository):
        return Verdict.open("several folders beside it have the rest: it may stand for any of them")
    near = _elsewhere(path, repository)
    evidence = f"{deepest or 'the root'} has no {whole[len(deepest) :].strip('/')!r}"
    if same := _other_case(whole, repository):
        return Verdict.fails(
            "path-case",
            f"{path!r} is spelled in another case",
            f"git lists {same}",
            now=same,
            fix=_fix(path, same, anchor, is_safe=True),
        )
    now = f"there is {near}" if near else ""
    fix = _fix(path, near, anchor, is_safe=_is_surely(path, near)) if near else None
    return Verdict.fails("path-missing", f"{path!r} does not exist", evidence, now=now, fix=fix)


def matching(pattern: str, document: Document, repository: Repository) -> str | None:
    """Return a file or folder that a path with placeholders fits, or None."""
    clean = pattern.strip("/")
    expression, certain = _expression(clean), literal_part(clean)
    places = repository.files.sorted_places
    for base in bases(document, repository):
        lead = f"{base}/" if base else ""
        start = lead + (f"{certain}/" if certain else "")
        # Only what begins with the certain folders can fit; it stands together.
        for path in itertools.islice(places, bisect_left(places, start), None):
            if not path.startswith(start):
                break
            if expression.fullmatch(path[len(lead) :]):
                return path
    return None


def literal_part(pattern: str) -> str:
    """Return the folders of a path before its first placeholder, without a slash at the end."""
    parts: list[str] = []
    for part in pattern.split("/")[:-1]:
        if is_placeholder(part):
            break
        parts.append(part)
    return "/".join(parts)


def _expression(pattern: str) -> re.Pattern[str]:
    pieces = _WILD.split(pattern)
    wild = {"**": ".*", "**/": "(?:.*/)?", "...": ".*", "…": ".*", "?": "[^/]"}
    return re.compile(
        "".join(
            re.escape(piece) if index % 2 == 0 else wild.get(piece, "[^/]+")
            for index, piece in enumerate(pieces)
        )
    )


def _anchor(path: str, document: Document, repository: Repository) -> str | None:
    """Return the folder from which the first part of a path exists, so that the rest must too."""
    first, *rest = path.split("/")
    files = repository.files
    if first in SKILL_FOLDERS and document.kind in ("skill", "reference"):
        if f"{document.folder}/{first}" in files.folders:
            return document.folder
        if first not in files.folders:
            return document.folder if rest else None
    for base in bases(document, repository):
        whole = f"{base}/{first}" if base else first
        if whole not in files.folders and not (whole in files.paths and rest):
            continue
        if document.is_about_here or base == document.folder:
            return base
        if first.lower() not in _ANYWHERE and rest and f"{whole}/{rest[0]}" in files.folders:
            return base
    return None


def _stands_for_siblings(whole: str, deepest: str, repository: Repository) -> bool:
    """Return whether `tests/test_provider/evals` is one of many `tests/test_*/evals`."""
    _, *rest = whole[len(deepest) :].strip("/").split("/")
    if not rest:
        return False
    lead, files = f"{deepest}/" if deepest else "", repository.files
    beside = (each for each in files.folders if each.startswith(lead))
    children = (each for each in beside if "/" not in each[len(lead) :])
    return sum(files.has("/".join([each, *rest])) for each in children) > 1


def _prefixes(path: str) -> list[str]:
    parts = path.split("/")[:-1]
    return ["/".join(parts[:count]) for count in range(len(parts), 0, -1)]


def _elsewhere(path: str, repository: Repository) -> str:
    """Return the one other place of a file with the same name, or of a name close to it."""
    folder, _, name = path.rpartition("/")
    found = repository.files.by_name.get(name, [])
    if name in COMMON_NAMES:
        found = [each for each in found if set(folder.split("/")) & set(each.split("/")[:-1])]
    if len(found) == 1:
        return found[0]
    from difflib import get_close_matches

    beside = [each for each in repository.files.paths if each.rpartition("/")[0] == folder]
    near = get_close_matches(path, beside, n=1, cutoff=0.85)
    return near[0] if near and not found else ""


def _is_surely(path: str, near: str) -> bool:
    """Return whether a file of the same name is the one that was meant: its folder is, too."""
    old, new = path.split("/"), near.split("/")
    return old[-1] == new[-1] and len(old) > 1 and len(new) > 1 and old[-2] == new[-2]


def _fix(path: str, near: str, anchor: str, *, is_safe: bool) -> Fix:
    lead = f"{anchor}/" if anchor else ""
    after = near.removeprefix(lead)
    return Fix(0, path, after + ("/" if path.endswith("/") else ""), is_safe)


def _other_case(whole: str, repository: Repository) -> str:
    lower = whole.lower()
    return repository.files.by_lower.get(lower, "")
