"""Names that are another one but for one of their parts: `run_big_loop` and `run_loop`."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from difflib import SequenceMatcher, get_close_matches

from scaffold.analysis.lazy_re import lazy_re

_PART = lazy_re(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_KEY = 4
_ALIKE = 0.8
_LONG = 5
_WORD = 3


def closest(text: str, names: Iterable[str], likeness: float = 0.6) -> str:
    """Return the name that is most like a text, or nothing where none is."""
    return next(iter(get_close_matches(text, list(names), 1, likeness)), "")


class NearNames:
    """A set of names to look for the one that a name is most likely meant as.

    Args:
        names: The names that there are.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._by_end: dict[str, set[str]] = defaultdict(set)
        for name in names:
            plain = name.lower().strip("_")
            for key in (f"^{plain[:_KEY]}", f"{plain[-_KEY:]}$"):
                self._by_end[key].add(name)

    def of(self, name: str) -> str:
        """Return the one name that differs in a part alone, or nothing where none or several do."""
        parts, plain = _parts(name), name.lower().strip("_")
        keys = (f"^{plain[:_KEY]}", f"{plain[-_KEY:]}$")
        every = {each for key in keys for each in self._by_end.get(key, ()) if each != name}
        # A constant, a class and a function of the same words are three things.
        alike = [each for each in every if _style(each) == _style(name)]
        # A private one and a test are meant by no other word: `_FakeTensor` is not `Tensor`.
        marks = [each for each in ("_", "test_") if not name.startswith(each)]
        public = [each for each in alike if not each.startswith(tuple(marks))]
        for test, among in ((_is_same, alike), (_lacks_one, public), (_is_misspelt, public)):
            found = [each for each in among if test(parts, _parts(each))]
            if found:
                return found[0] if len(found) == 1 else ""
        return ""


def _style(name: str) -> tuple[bool, ...]:
    plain = name.strip("_")
    return plain.isupper(), plain[:1].isupper(), "_" in plain


def _parts(name: str) -> list[str]:
    return [each.lower() for each in _PART.findall(re.sub(r"[_-]", " ", name))]


def _is_same(parts: list[str], other: list[str]) -> bool:
    return parts == other


def _lacks_one(parts: list[str], other: list[str]) -> bool:
    longer, shorter = (parts, other) if len(parts) > len(other) else (other, parts)
    if len(longer) != len(shorter) + 1 or sum(len(each) >= _WORD for each in shorter) < 2:
        return False
    # The last part names what a thing is: a `ModelProvider` is no `Model`.
    return any(longer[:at] + longer[at + 1 :] == shorter for at in range(len(longer) - 1))


def _is_misspelt(parts: list[str], other: list[str]) -> bool:
    differing = [pair for pair in zip(parts, other, strict=False) if pair[0] != pair[1]]
    if len(parts) != len(other) or len(differing) != 1 or min(map(len, differing[0])) < _LONG:
        return False
    return SequenceMatcher(None, *differing[0]).ratio() > _ALIKE
