"""The forward of a block: steps of single assignments become statements that read naturally."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from scaffold.archon.codegen.values import Json


@dataclass(frozen=True)
class _Term:
    """An expression, and whether it has to be put in brackets to be added or multiplied."""

    text: str
    is_sum: bool = False


def steps_text(
    steps: Sequence[Json],
    call: Callable[[Any, str], str],
    coefficient: Callable[[Any], str],
) -> list[str]:
    """Return the statements of a forward, the last of which returns.

    Args:
        steps: STEPs of the design; what is used once is written where it is used, the rest gets
            a variable: ``h`` for sums, ``n`` for what a module returns.
        call: Module or modules, and the argument's text, to the text of the call.
        coefficient: The text of a coefficient of a sum.
    """
    uses = Counter(name for step in steps for name in _inputs(step))
    terms: dict[str, _Term] = {"x": _Term("x")}
    lines: list[str] = []
    variables: Counter[str] = Counter()
    for number, step in enumerate(steps, 1):
        name = str(step["out"])
        term = _expression(step, terms, call, coefficient)
        # The last step is returned whatever it is called.
        if number == len(steps):
            lines.append(f"return {term.text}")
        # Used once it is written in place, so that the block reads as one sum.
        elif uses[name] == 1:
            terms[name] = term
        else:
            # `n` is what a module returns, `h` the stream.
            kind = "n" if "call" in step else "h"
            variables[kind] += 1
            variable = kind if variables[kind] == 1 else f"{kind}{variables[kind]}"
            lines.append(f"{variable} = {term.text}")
            terms[name] = _Term(variable)
    return lines


def _inputs(step: Json) -> list[str]:
    """Return the names that a step reads."""
    return [str(step["in"])] if "call" in step else [str(name) for name, _ in step["sum"]]


def _expression(
    step: Json,
    terms: dict[str, _Term],
    call: Callable[[Any, str], str],
    coefficient: Callable[[Any], str],
) -> _Term:
    if "call" in step:
        return _Term(call(step["call"], terms[str(step["in"])].text))
    parts: list[str] = []
    for position, (name, weight) in enumerate(step["sum"]):
        term = terms[str(name)]
        if weight in (1, 1.0):
            # A sum may be the first operand of a sum without brackets: addition goes from the left.
            opens = term.is_sum and position > 0
            parts.append(f"({term.text})" if opens else term.text)
        else:
            inner = f"({term.text})" if term.is_sum else term.text
            parts.append(f"{coefficient(weight)} * {inner}")
    return _Term(" + ".join(parts), is_sum=len(parts) > 1)
