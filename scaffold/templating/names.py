"""Names: one canonical key from any spelling, and the reasons for which a name is refused."""

from __future__ import annotations

import builtins
import keyword
import re
import sys
from collections.abc import Iterable

from scaffold.errors import RequestError

MAX_LENGTH = 64
"""Longest key, so that file and test names stay well under every file system's limit."""

DEVICES = frozenset(
    ["con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(10))]
)
"""File stems that Windows gives to devices."""

SOFT_KEYWORDS = frozenset(["match", "case", "type", "true", "false", "none"])
"""Words with a meaning of their own in some place, in some version of Python or another."""

# A capital begins a word after a lower-case letter, and where it leads lower-case letters on.
_WORD_START = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z0-9])(?=[A-Z][a-z])")


def canonical_key(
    typed: str,
    suffixes: Iterable[str] = (),
    reserved: Iterable[str] = (),
    *,
    is_top_level: bool = True,
) -> str:
    """Return the snake_case key of a typed name.

    Args:
        typed: What a person wrote: "Math Debate", "math-debate", "MathDebateWorkflow".
        suffixes: Words for the kind, dropped from the end ("workflow").
        reserved: Keys that the kind cannot have.
        is_top_level: Whether modules of the name are imported by it alone, which hides those of the
            standard library; inside a package nothing is hidden.

    Raises:
        RequestError: The name is refused; code and message say why.
    """
    _check_characters(typed)
    # `MathDebate`, `Math Debate` and `math--debate` all become `math_debate`.
    key = re.sub(r"[ \-_]+", "_", _WORD_START.sub("_", typed)).strip("_").lower()
    stripped = _strip_suffixes(key, suffixes)
    if key and not stripped:
        raise _refusal(typed, "name_kind", f"only names the kind; name the {key} itself")
    _check_key(typed, stripped, frozenset(reserved), is_top_level=is_top_level)
    return stripped


def pascal(key: str) -> str:
    """Return ``MathDebate`` for ``math_debate``."""
    return "".join(word.capitalize() for word in key.split("_"))


def snake(name: str) -> str:
    """Return ``math_debate`` for ``MathDebate``."""
    return _WORD_START.sub("_", name).strip("_").lower()


def fold(name: str) -> str:
    """Return what two spellings of one name have in common: letters and digits, lower case."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _strip_suffixes(key: str, suffixes: Iterable[str]) -> str:
    ordered = sorted(suffixes, key=len, reverse=True)
    # "math_reward_workflow" loses both words; the longest suffix is tried first.
    while True:
        for suffix in ordered:
            if key == suffix:
                return ""
            if key.endswith("_" + suffix):
                key = key.removesuffix("_" + suffix).rstrip("_")
                break
        else:
            return key


def _check_characters(typed: str) -> None:
    if not typed.strip(" -_"):
        raise _refusal(typed, "name_empty", "is empty")
    if "/" in typed or "\\" in typed or ".." in typed:
        raise _refusal(typed, "name_path", "has a path separator or '..'; give a plain name")
    if not typed.isascii():
        raise _refusal(typed, "name_non_ascii", "has non-ASCII characters")
    wrong = re.search(r"[^A-Za-z0-9 _\-]", typed)
    if wrong:
        raise _refusal(
            typed, "name_characters", f"holds {wrong[0]!r}; use letters, digits, '_' and '-'"
        )


def _check_key(typed: str, key: str, reserved: frozenset[str], *, is_top_level: bool) -> None:
    if key[0].isdigit():
        raise _refusal(typed, "name_digit", "begins with a digit, which no identifier can")
    if len(key) > MAX_LENGTH:
        raise _refusal(
            typed, "name_length", f"has {len(key)} characters; {MAX_LENGTH} is the limit"
        )
    if keyword.iskeyword(key) or key in SOFT_KEYWORDS:
        raise _refusal(typed, "name_keyword", f"gives {key!r}, a Python keyword")
    if hasattr(builtins, key):
        raise _refusal(typed, "name_builtin", f"gives {key!r}, a Python builtin")
    if is_top_level:
        check_top_level(typed, key)
    if key in reserved or key in DEVICES:
        raise _refusal(typed, "name_reserved", f"gives {key!r}, which has another use")


def check_top_level(typed: str, module: str) -> None:
    """Refuse a module that is imported by its name alone and called as one of Python's is.

    Raises:
        RequestError: It is.
    """
    if module in sys.stdlib_module_names:
        raise _refusal(
            typed,
            "name_stdlib",
            f"gives {module!r}, a module of the standard library that would be shadowed",
        )


def _refusal(typed: str, code: str, reason: str) -> RequestError:
    shown = typed if len(typed) <= MAX_LENGTH else typed[:MAX_LENGTH] + "..."
    return RequestError(
        f"the name {shown!r} {reason}",
        code=code,
        hint="choose a name such as math_debate: ASCII letters, digits and underscores",
    )
