"""Where templates come from: a repository, installed packages, this tool; and which kinds exist.

A distribution offers a folder by an entry point of the group ``scaffold.templates``, whose value is
the dotted name of the package that holds ``<kind>/kind.toml`` and ``<kind>/<style>/``. It is found
and read as files; nothing of it is imported.

The list of commands is made of what is here, so it goes without a TOML parser and pathlib.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from scaffold.errors import TemplateError

GROUP = "scaffold.templates"

OWN_TEMPLATES = ".scaffold/templates"
"""Where a repository keeps templates of its own, relative to its root."""

MADE = ".scaffold/made"
"""Where the records of what was made are, relative to the root."""


class KindHead(NamedTuple):
    """What the list of commands needs of a kind.toml."""

    name: str
    command: str
    help: str
    new_folder: bool


def kind_heads(folders: Iterable[str]) -> dict[str, KindHead]:
    """Return the heads of all kinds by name, sorted.

    Args:
        folders: The folders of templates, strongest first.
    """
    found: dict[str, KindHead] = {}
    for folder in folders:
        for name in _names(folder):
            path = os.path.join(folder, name, "kind.toml")
            # A weaker source lends its command to one that cannot be read, which is then told of.
            is_known = name in found and found[name].command
            if not is_known and is_own(path) and os.path.isfile(path):
                found[name] = _head(name, path)
    return {name: found[name] for name in sorted(found)}


def own_root(argv: Sequence[str]) -> str:
    """Return the nearest folder with templates of its own, not beyond the git root, or "".

    Kinds are commands and styles are choices, so this is looked at before the line is parsed.

    Args:
        argv: The command line, for its ``--target``.
    """
    return _nearest(argv, OWN_TEMPLATES)


def made_ids(argv: Sequence[str]) -> list[str]:
    """Return the ids of what was made in the nearest repository, for completion."""
    root = _nearest(argv, MADE)
    made = os.path.join(root, MADE)
    return [
        f"{kind}/{name[:-5]}"
        for kind in sorted(_names(made) if root else [])
        for name in sorted(_names(os.path.join(made, kind)))
        if name.endswith(".toml")
    ]


def _nearest(argv: Sequence[str], inside: str) -> str:
    """Return the nearest folder that has another inside it, not beyond the git root, or ""."""
    # Both spellings, `--target=x` and `--target x`; click takes the last one as well.
    named = [word[9:] for word in argv if word.startswith("--target=")]
    named += [argv[n + 1] for n, word in enumerate(argv[:-1]) if word == "--target"]
    try:
        folder = os.path.abspath(named[-1] if named else ".")
    except OSError:  # the working folder was deleted
        return ""
    while True:
        if os.path.isdir(os.path.join(folder, inside)):
            return folder
        above = os.path.dirname(folder)
        if above == folder or os.path.exists(os.path.join(folder, ".git")):
            return ""
        folder = above


def template_sources(root: str | None) -> list[tuple[str, str]]:
    """Return whose templates there are, and their folders, strongest first.

    Args:
        root: A repository's folder, or None outside of one.
    """
    own = "" if root is None else os.path.join(root, OWN_TEMPLATES)
    found = [("repository", own)] if own and os.path.isdir(own) and is_own(own) else []
    found += [(f"package {name}", folder) for name, folder in template_packages()]
    return [*found, ("builtin", builtin_folder())]


def builtin_folder() -> str:
    """Return the built-in templates: inside an installed package, else beside it in the checkout.

    Raises:
        TemplateError: Neither folder exists.
    """
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    beside = os.path.join(os.path.dirname(package), "templates")
    for folder in (os.path.join(package, "_data", "templates"), beside):
        if os.path.isdir(folder):
            return folder
    raise TemplateError(
        f"no templates in {package}",
        code="template_invalid",
        hint="the installation is broken; reinstall areal-scaffold",
    )


def is_own(path: str) -> bool:
    """Return whether a manifest or template is no link, nor in a folder that is one."""
    return not (os.path.islink(path) or os.path.islink(os.path.dirname(path)))


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _head(name: str, path: str) -> KindHead:
    """Read the keys above the first table; a manifest is only ever used as TOML, see manifests."""
    values: dict[str, str] = {}
    for row in _text_or_empty(path).splitlines():
        if row.startswith("["):
            break
        key, is_pair, value = row.partition("=")
        # A line of a multi-line value would be taken for a key, so heads use one-line strings only.
        if is_pair and not row.startswith("#"):
            values[key.strip()] = value.strip().strip("\"'")
    command, text = values.get("command", ""), values.get("help", "")
    return KindHead(name, command, text, values.get("new_folder") == "true")


def template_packages() -> tuple[tuple[str, str], ...]:
    """Return the distributions that offer templates, with their folders, sorted by name.

    ``importlib.metadata`` would answer the same question, but its import and its reading of every
    distribution cost more than the whole of ``scaffold --help``.
    """
    return _packages_on(tuple(sys.path))


@functools.cache  # one command asks several times, and each folder holds hundreds of packages
def _packages_on(path: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    found: dict[str, str] = {}
    for folder in path:
        for name, package in _offers(folder or "."):
            place = _package_folder(package)
            if place is not None and name not in found:
                found[name] = place
    return tuple(sorted(found.items()))


def _offers(folder: str) -> Iterator[tuple[str, str]]:
    """Yield the distributions of one folder that offer templates, with the package's name."""
    try:
        names = [name for name in os.listdir(folder) if name.endswith(".dist-info")]
    except OSError:
        return
    for name in names:
        text = _text_or_empty(os.path.join(folder, name, "entry_points.txt"))
        if f"[{GROUP}]" in text:
            # entry_points.txt is an INI file; the section ends where the next one begins.
            section = text.partition(f"[{GROUP}]")[2].partition("\n[")[0]
            for row in section.splitlines():
                _, is_pair, package = row.partition("=")
                if is_pair and not row.lstrip().startswith(("#", ";")):
                    # `my_templates-1.0.dist-info`.
                    yield name.partition("-")[0], package.strip()


def _package_folder(package: str) -> str | None:
    parts = package.split(".")
    if not all(part.isidentifier() for part in parts):
        return None
    for folder in sys.path:
        place = os.path.join(folder, *parts)
        if os.path.isdir(place):
            return place
    return _editable_folder(parts)


def _editable_folder(parts: list[str]) -> str | None:
    """Ask the import system where a top-level package is, which imports nothing."""
    from importlib.util import find_spec

    try:
        spec = find_spec(parts[0])
    except (ImportError, ValueError):
        return None
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        place = os.path.join(folder, *parts[1:])
        if os.path.isdir(place):
            return place
    return None


def _text_or_empty(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError):
        return ""
