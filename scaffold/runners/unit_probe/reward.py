"""Call a reward through AsyncRewardWrapper with typical, empty and hostile completions.

Request: symbol ("package.module:function"), rows (dataset rows or null), call_timeout_s.
"""

from __future__ import annotations

import asyncio
import inspect
import math
import time
from typing import Any

from unit_probe import kit
from unit_probe.fake_judge import FakeJudge

ROWS = [
    {
        "messages": [{"role": "user", "content": "2 + 3 = ?"}],
        "answer": "5",
        "source": "verify",
        "test_cases": [{"input": "2 3\n", "output": "5\n"}],
        "test_code": "assert add(2, 3) == 5",
    },
    {
        "messages": [{"role": "user", "content": "How much is 12 + 30?"}],
        "answer": "42",
        "source": "verify",
        "test_cases": [{"input": "12 30\n", "output": "42\n"}],
        "test_code": "assert add(12, 30) == 42",
    },
]
# It adds what it reads, and as a function: right for rewards that run the code in a completion.
PROGRAM = """
```python
def add(a, b):
    return a + b

if __name__ == "__main__":
    print(add(*map(int, input().split())))
```
"""
TYPICAL = [
    "The answer is {answer}.",
    "{answer}",
    "\\boxed{{{answer}}}",
    "#### {answer}",
    "<answer>{answer}</answer>",
    "I do not know.",
    "7",
    PROGRAM,
    PROGRAM.replace("a + b", "a * b"),
]
HOSTILE = {
    "an empty completion": "",
    "blanks": " \n\t ",
    "a NUL character": "\x00",
    "an open brace": "\\boxed{",
    "a template": "{{ answer }} {% raw %} %s {0}",
    "quotes and backslashes": '\'"""\\ \\\\',
    "emoji": "\U0001f600" * 50,
    "10,000 digits": "9" * 10_000,
    "100,000 opening brackets": "(" * 100_000,
    "many lines": "1\n" * 5_000,
}
NEEDS_SANDBOX = "allow_unsandboxed=True"
"""In the message of a reward that runs programs, where this machine has no sandbox for them."""

# What no grader has to manage: a time-out costs the call in training too, and is counted there.
EXTREME = {"a tower of powers": "The answer is $9^{9^{9^{9^9}}}$"}
EXTREME_TIMEOUT_S = 2.0


def main(request: dict[str, Any], findings: kit.Findings) -> None:
    judge = FakeJudge()
    judge.become_the_judge()
    reward_fn = kit.load_symbol(findings, request["symbol"])
    with findings.guard("engine", "making the tokenizer"):
        tokenizer = kit.make_tokenizer()
    rows = request.get("rows") or ROWS
    timeout_s = float(request["call_timeout_s"])
    calls = [
        _Call(row, text.format(answer=row.get("answer", "")), "a typical completion")
        for row in rows
        for text in TYPICAL
    ]
    calls += [_Call(rows[0], text, name) for name, text in HOSTILE.items()]
    with findings.guard("wrapper", "wrapping the reward"):  # the import may fail, too
        from areal.api import AsyncRewardWrapper

        # One worker and no retry, so that a crash is the crash of the call that was made.
        wrapper = AsyncRewardWrapper(
            reward_fn, timeout_seconds=timeout_s, max_workers=1, max_retries=0
        )
    asyncio.run(_check_calls(findings, wrapper, tokenizer, calls, timeout_s))
    if not findings.failures:
        asyncio.run(_try_extremes(findings, reward_fn, tokenizer, rows[0]))
    _check_type(findings, reward_fn, tokenizer, calls[0])
    if judge.count:
        findings.warned("judge", "not run: the real judge; the runner's stand-in gave verdicts")
    if not findings.failures:
        findings.passed(
            "calls", f"{len(calls)} completions, {len(HOSTILE)} of them hostile, each twice"
        )


class _Call:
    def __init__(self, row: dict[str, Any], completion: str, what: str) -> None:
        self.row, self.completion, self.what = row, completion, what

    def arguments(self, tokenizer: Any) -> tuple[str, str, list[int], list[int]]:
        prompt = str(self.row.get("messages", ""))
        encode = tokenizer.encode
        return prompt, self.completion, encode(prompt), encode(self.completion)

    def __str__(self) -> str:
        is_typical = self.what == "a typical completion"
        return f"the completion {self.completion!r}" if is_typical else self.what


async def _check_calls(
    findings: kit.Findings, wrapper: Any, tokenizer: Any, calls: list[_Call], timeout_s: float
) -> None:
    rewards = []
    for call in calls:
        findings.stage(f"scoring {call}")
        first = await _score(findings, wrapper, tokenizer, call, timeout_s)
        if first is None:
            return  # one clear message; after a hang every further call would cost its time too
        second = await _score(findings, wrapper, tokenizer, call, timeout_s)
        if second is None:
            return
        if first != second:
            text = f"{call} scored {first} and then {second}; a reward must not be random"
            findings.failed("deterministic", text)
            return
        rewards.append(first)
    if len(set(rewards)) == 1:
        text = f"every completion that verify made up scored {rewards[0]}"
        findings.warned("discriminates", f"{text}: only its own test shows that it can")


async def _try_extremes(
    findings: kit.Findings, reward_fn: Any, tokenizer: Any, row: dict[str, Any]
) -> None:
    from areal.api import AsyncRewardWrapper

    wrapper = AsyncRewardWrapper(
        reward_fn, timeout_seconds=EXTREME_TIMEOUT_S, max_workers=1, max_retries=0
    )
    for name, text in EXTREME.items():
        call = _Call(row, text, name)
        findings.stage(f"scoring {call}")
        start = time.monotonic()
        problem = "ran into the time limit"
        try:
            await wrapper(*call.arguments(tokenizer), **row)
        except Exception as error:
            problem, start = kit.describe(error), -math.inf
        # A time-out gives 0.0 and no error, so the time shows it; an error counts at any time.
        if time.monotonic() - start >= EXTREME_TIMEOUT_S:
            findings.warned(
                "extremes",
                f"{call} was not scored ({problem}); in training that costs the one call",
            )


async def _score(
    findings: kit.Findings, wrapper: Any, tokenizer: Any, call: _Call, timeout_s: float
) -> float | None:
    """Return the reward of one call, or None after reporting what was wrong with it."""
    start = time.monotonic()
    try:
        reward = await wrapper(*call.arguments(tokenizer), **call.row)
    except Exception as error:
        if NEEDS_SANDBOX in str(error):
            findings.not_run("calls", str(error))
            raise kit.Stop from error
        findings.failed("calls", f"{call}: {_explain(error, call)}")
        return None
    # The wrapper answers a time-out with 0.0, which looks like a reward.
    if time.monotonic() - start >= timeout_s:
        findings.failed(
            "time limit",
            f"{call} was not scored within {timeout_s:g} s; bound the work of the reward",
        )
        return None
    # True is an int in Python, and no reward.
    if isinstance(reward, bool) or not isinstance(reward, int | float):
        findings.failed("type", f"{call}: the reward is {reward!r}; it must be a float")
        return None
    if not math.isfinite(reward):
        findings.failed("finite", f"{call}: the reward is {reward}; it must be a finite number")
        return None
    return float(reward)


def _explain(error: Exception, call: _Call) -> str:
    text = kit.describe(error)
    if isinstance(error, TypeError) and "argument" in text:
        called = "(prompt, completions, prompt_ids, completion_ids, **row)"
        return f"{text}; a reward is called as {called}, {_columns(call)}"
    if isinstance(error, KeyError):
        return f"{text}; {_columns(call)}"
    if "Died" in type(error).__name__ or "BrokenProcessPool" in type(error).__name__:
        return f"{text}; the process ended without an answer (os._exit, a crash or memory)"
    return f"{text}; a reward must score any completion, with 0.0 where there is nothing to read"


def _columns(call: _Call) -> str:
    names = ", ".join(call.row)
    return f"here with the columns {names}; give rows of your own with --data FILE"


def _check_type(findings: kit.Findings, reward_fn: Any, tokenizer: Any, call: _Call) -> None:
    """Look at the value itself: the wrapper may have turned it into a float."""
    if findings.failures or inspect.iscoroutinefunction(reward_fn):
        return
    with findings.guard("type", f"scoring {call} in the runner's own process"):
        value = reward_fn(*call.arguments(tokenizer), **call.row)
    if type(value) is not float:
        findings.warned(
            "type", f"the reward is {value!r} of type {type(value).__name__}; return a plain float"
        )
