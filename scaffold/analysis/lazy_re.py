"""Regular expressions that are compiled when they are first asked.

A command imports many more of them than it asks. The modules of ``skills check`` alone define over
two hundred, and to compile them all took as long as to judge a small pack.
"""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast


class _LazyPattern:
    """A regular expression that is compiled at its first use."""

    def __init__(self, expression: str | bytes, flags: int) -> None:
        self._given = (expression, flags)

    def __getattr__(self, name: str) -> Any:
        # Asked only for what is not there yet: later questions go to the expression itself.
        compiled = cast("Any", re.compile)(*self._given)
        found = {each: getattr(compiled, each) for each in dir(compiled) if each[0] != "_"}
        self.__dict__.update(found)
        return getattr(compiled, name)


def lazy_re(expression: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return an expression of `re` that is not compiled before it is asked something.

    A mistake in the expression shows only then, as ``re.error``.
    """
    return cast("re.Pattern[AnyStr]", _LazyPattern(expression, flags))
