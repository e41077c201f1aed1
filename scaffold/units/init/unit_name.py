"""Which unit a person means, and what it and its kind are called: told by paths and definitions."""

from __future__ import annotations

import ast
import difflib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from scaffold.errors import RequestError
from scaffold.syntax import parse
from scaffold.units.init.name_forms import same_name, words_of

MAX_SIBLINGS = 40
"""How many units of the kind are looked for beside the one that is meant."""


@dataclass(frozen=True)
class UnitName:
    """What a unit and its kind are called.

    Args:
        kind: The word for the kind.
        key: The unit's canonical name.
        suffixes: Words for the kind that people may type behind a name.
        symbol: What the source defines that bears the name: a class or a function; or "".
        siblings: The other units of the kind, as far as they stand beside it.
        longer: Those of them whose names hold the unit's.
    """

    kind: str
    key: str
    suffixes: tuple[str, ...]
    symbol: str
    siblings: tuple[str, ...]
    longer: tuple[str, ...]


def find_source(paths: Sequence[str], like: str) -> str:
    """Return the source of the unit that a person means.

    Args:
        paths: Every file of the repository, relative to its root.
        like: A path among them, a folder, or a name.

    Raises:
        RequestError: Nothing, or more than one file, is called so.
    """
    path = PurePosixPath(like).as_posix()
    if path in paths and path.endswith(".py"):
        return path
    inside = [each for each in paths if each.startswith(path + "/") and each.endswith(".py")]
    if inside:
        # Of a package the `__init__.py` that is nearest to its top.
        return min(inside, key=lambda each: (each.count("/"), not each.endswith("__init__.py")))
    sources = [each for each in paths if each.endswith(".py") and not is_test(each)]
    found = [each for each in sources if same_name(PurePosixPath(each).stem, like)]
    # `gsm8k` also means `gsm8k_reward.py` in a folder where files are called so.
    found = found or [each for each in sources if words_of(like) == _trimmed(each, sources)]
    if len(found) == 1:
        return found[0]
    if found:
        raise RequestError(
            f"{like!r} is the name of several files: {', '.join(sorted(found))}",
            code="unit_ambiguous",
            hint=f"scaffold init --like {sorted(found)[0]}",
        )
    names = sorted({PurePosixPath(each).stem for each in sources})
    near = difflib.get_close_matches(like, names, n=3)
    guess = f"; did you mean {' or '.join(near)}?" if near else ""
    raise RequestError(
        f"there is no Python file called {like!r}{guess}",
        code="unit_unknown",
        hint="give the path of the source of an existing unit: --like src/pkg/things/one.py",
    )


def is_test(path: str) -> bool:
    """Return whether a file is a test by its name."""
    place = PurePosixPath(path)
    return place.suffix == ".py" and (
        place.stem.startswith("test_") or place.stem.endswith("_test")
    )


def find_name(files: Mapping[str, bytes], source: str, kind: str = "") -> UnitName:
    """Find out what a unit and its kind are called.

    Args:
        files: The repository's text files, by path.
        source: The unit's source among them.
        kind: What the kind is to be called, or "" to find a name.
    """
    name, siblings = _siblings(files, source)
    words = words_of(name)
    symbol, suffix = _main_symbol(files[source].decode("utf-8-sig", "replace"), words)
    path = PurePosixPath(source)
    # A unit may be a module or a package; the folder that holds it names the kind.
    home = path.parent.parent if path.name == "__init__.py" else path.parent
    folder = _singular(home.name)
    # Words of the kind, and not of this unit: `reward` of `math_reward`.
    known = {folder, *words_of(kind), *suffix[-1:], *_shared(siblings)}
    if len(words) > 1 and words[-1] in known:
        words, suffix = words[:-1], words[-1:]
    elif len(words) > 1 and words[0] in known:
        words, suffix = words[1:], words[:1]
    noun = folder if folder in suffix or not suffix else suffix[-1]
    kind = kind or noun.replace("_", "-")
    key = "_".join(words)
    others = sorted({"_".join(_without(words_of(each), known)) for each in siblings} - {"", key})
    suffixes = dict.fromkeys(["_".join(suffix), kind.replace("-", "_")])
    return UnitName(
        kind,
        key,
        tuple(each for each in suffixes if each),
        symbol,
        tuple(others[:MAX_SIBLINGS]),
        tuple(each for each in others if holds(each, key)),
    )


def _siblings(files: Mapping[str, bytes], source: str) -> tuple[str, list[str]]:
    """Return the unit's name as it is spelled on disk, and those beside it."""
    path = PurePosixPath(source)
    if path.name != "__init__.py":
        beside = [PurePosixPath(each) for each in files if each.endswith(".py")]
        stems = [each.stem for each in beside if each.parent == path.parent]
        return path.stem, [each for each in stems if each not in (path.stem, "__init__")]
    above = path.parent.parent
    inits = [PurePosixPath(each).parent for each in files if each.endswith("/__init__.py")]
    return path.parent.name, [
        each.name for each in inits if each.parent == above and each != path.parent
    ]


def _main_symbol(text: str, words: list[str]) -> tuple[str, list[str]]:
    """Return the class or function that bears the unit's name, and the words behind the name."""
    try:
        tree = parse(text)
    except (SyntaxError, ValueError):
        return "", []
    defined = [
        node.name
        for node in tree.body
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    # The longest match first: `MathDebate` before `Math` for math_debate.
    for length in range(len(words), 0, -1):
        for name in defined:
            # At most one word of the file's name may be missing, which is then the kind's.
            if words_of(name)[:length] == words[:length] and len(words) - length <= 1:
                return name, words_of(name)[length:]
    public = [name for name in defined if not name.startswith("_")]
    return (public[0] if public else ""), []


def _shared(names: Iterable[str]) -> set[str]:
    """Return the words that at least half of several names begin or end with."""
    rows = [words_of(name) for name in names]
    # A name of one word is all name.
    rows = [row for row in rows if len(row) > 1]
    counts = Counter(word for row in rows for word in {row[0], row[-1]})
    return {word for word, count in counts.items() if count > 1 and 2 * count >= len(rows)}


def _without(words: list[str], known: Iterable[str]) -> list[str]:
    if len(words) > 1 and words[-1] in known:
        return words[:-1]
    return words[1:] if len(words) > 1 and words[0] in known else words


def _trimmed(path: str, sources: Sequence[str]) -> list[str]:
    folder = PurePosixPath(path).parent
    beside = [PurePosixPath(each).stem for each in sources if PurePosixPath(each).parent == folder]
    known = {_singular(folder.name), *_shared(beside)}
    return _without(words_of(PurePosixPath(path).stem), known)


def _singular(word: str) -> str:
    word = word.lower()
    for ending, instead in (("ies", "y"), ("sses", "ss"), ("xes", "x"), ("ches", "ch")):
        if word.endswith(ending):
            return word.removesuffix(ending) + instead
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us", "is")) else word


def holds(longer: str, key: str) -> bool:
    """Return whether the words of a name hold those of another."""
    return f"_{key}_" in f"_{longer}_"
