"""Words that stand for others: `<name>`, `{id}`, `my_model`."""

from __future__ import annotations

import re
from functools import lru_cache

from scaffold.analysis.lazy_re import lazy_re

ELISION = lazy_re(r"/(?:\.\.\.|…)/")
"""Folders that a path leaves out."""
_PLACEHOLDER = lazy_re(
    r"<[^<>\s][^<>]*>|\{[^{}]*\}|\$\w+|\$\{[^}]*\}|\[[^\[\]]*\]|\.\.\.|…|\*|\?|%s|%\w+%|[Xx]{3}"
    r"|YYYY|NNN|(?<![A-Za-z])YY[.-]?MM(?![A-Za-z])|(?<![^/_.-])(?:X\.?Y\.?Z?|vX+(?:\.Y+)*)(?![^/_.-])",
    re.IGNORECASE,
)
_CAPITALS = lazy_re(
    r"(?:^|[/_.-])(?:[A-Z]+_)?(?:NAME|FILE|FOLDER|DIR|KIND|STYLE|PATH|MODEL|PAGE|TOPIC|MODULE|SLUG|ID"
    r"|USER|OWNER|REPO|VERSION|DATE|RULE|KEY|N|X|Y)(?=[/_.-]|$)"
)
_INVENTED = lazy_re(
    r"(?:^|[/_.\-\s:])(?:your|my|some|new|foo|bar|baz|qux|example|xxx?|yyy|placeholder|dummy|path[/_-]to"
    r"|specific|(?:path|file|name|folder|dir|module)(?=\.\w+$))(?:[/_.\-:]|$)",
    re.IGNORECASE,
)
# `MyModel`: two humps, of which the first is nobody's.
_OWN = lazy_re(r"(?:^|[/_.])(?:My|Your|Foo|Bar|Some|Example|Dummy)(?=[A-Z][a-z])")


@lru_cache(maxsize=4096)  # each family of references asks it of the same words
def is_placeholder(text: str) -> bool:
    """Return whether a text has a placeholder: `<name>`, `{id}`, `*`, `NAME.py`."""
    return _PLACEHOLDER.search(text) is not None or _CAPITALS.search(text) is not None


def is_invented(text: str) -> bool:
    """Return whether a name that is not there is one that nobody means: `my_model.py`, `foo`."""
    is_own = _INVENTED.search(text) or _OWN.search(text)
    return is_own is not None or is_placeholder(text)
