"""Call a reward of Trinity-RFT with typical, empty and hostile responses.

Request: symbol ("package.module:Class" or "file.py:Class"), name, is_registered.
"""

from __future__ import annotations

import math
import time
from typing import Any

from unit_probe import kit, trinity
from unit_probe.reward import HOSTILE, TYPICAL


def main(request: dict[str, Any], findings: kit.Findings) -> None:
    package = trinity.load_package(findings)
    found = trinity.load_class(request, findings)
    if not (isinstance(found, type) and issubclass(found, package.RewardFn)):
        raise findings.fatal(
            "class", f"{found!r} does not derive from trinity.common.rewards.RewardFn"
        )
    with findings.guard("constructor", f"making {found.__name__}()"):
        reward = found()
    limit = float(request["call_timeout_s"])
    totals = []
    responses = {f"the response {text!r}": text for text in TYPICAL} | HOSTILE
    for name, text in responses.items():
        response = text.format(answer="5") if text in TYPICAL else text
        with findings.guard("calls", f"scoring {name}"):
            started = time.monotonic()
            first = reward(response=response, truth="5")
            again = reward(response=response, truth="5")
        problem = _problem(first, again)
        if not problem and time.monotonic() - started > 2 * limit:
            problem = f"took longer than {limit:g} s; limit how much the reward computes"
        if problem:
            raise findings.fatal("calls", f"{name}: {problem}")
        totals.append(sum(first.values()))
    if len(set(totals)) == 1:
        text = f"every response that verify made up scored {totals[0]}"
        findings.warned("discriminates", f"{text}; only its own test shows another score")
    if package.version:
        trinity.check_registry(request, findings, package.reward_functions, found)
    text = f"{len(responses)} responses ({len(HOSTILE)} hostile), each scored twice"
    findings.passed("calls", text)


def _problem(first: Any, again: Any) -> str:
    if not isinstance(first, dict) or not first:
        return f"returned {first!r}; a reward returns named scores such as {{'accuracy': 1.0}}"
    for name, value in first.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not math.isfinite(value):
            return f"the score {name!r} is {value!r}; it must be a finite number"
    return "" if first == again else f"returned {first}, then {again}; it must be deterministic"
