"""Call a reward through AsyncRewardWrapper with typical, empty and hostile completions.

Request: symbol ("package.module:function"), rows (dataset rows or null), completions (rows with
completions and perhaps the reward that they deserve), completions_file (where a person may keep
them), case_rewards (what the cases of the unit's test expect), answers (of the unit),
call_timeout_s.
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
OWN = "your completion"
MOST_ROWS = 8
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
    column = request.get("answers", {}).get("column", "answer")
    made = [{**row, column: row["answer"]} for row in ROWS]
    own = [_Call.own(row, made[0]) for row in request["completions"]]
    rows = request.get("rows") or [call.row for call in own] or made
    timeout_s = float(request["call_timeout_s"])
    calls = [
        _Call(row, text.format(answer=row.get(column, "")), "a typical completion")
        for row in rows[:MOST_ROWS]
        for text in TYPICAL
    ]
    typical = len(calls)
    calls += [_Call(rows[0], text, name) for name, text in HOSTILE.items()]
    with findings.guard("wrapper", "wrapping the reward"):  # the import may fail, too
        from areal.api import AsyncRewardWrapper

        # One worker and no retry, so that a crash is the crash of the call that was made.
        wrapper = AsyncRewardWrapper(
            reward_fn, timeout_seconds=timeout_s, max_workers=1, max_retries=0
        )
    where = f"in {request['completions_file']} or with --completions FILE"
    if rows is made:
        refused = asyncio.run(_refusal(wrapper, tokenizer, calls[:typical]))
        if refused:
            text = f"the reward rejects every row that verify made up: {refused}"
            hint = f"give your own rows with --data FILE, or completions {where}"
            raise findings.hopeless("rows", f"{text}; {hint}")
    rewards = asyncio.run(_check_calls(findings, wrapper, tokenizer, own + calls, timeout_s))
    seen = {*rewards, *request["case_rewards"]}
    if len(set(rewards)) == 1:
        text = f"every completion scored {rewards[0]}"
        if len(seen) == 1:
            text = f"{text}; give one that deserves a different score {where}"
            raise findings.hopeless("discriminates", text)
        findings.warned("discriminates", f"{text}; only its own test shows another score")
    if not findings.failures:
        asyncio.run(_try_extremes(findings, reward_fn, tokenizer, rows[0]))
    _check_type(findings, reward_fn, tokenizer, calls[0])
    if judge.count:
        findings.warned("judge", "the real judge was not run; a stand-in gave the verdicts")
    if not findings.failures:
        findings.passed(
            "calls", f"{len(calls)} completions ({len(HOSTILE)} hostile), each scored twice"
        )
        if own:
            findings.passed("own", f"{len(own)} of your own")


class _Call:
    def __init__(
        self, row: dict[str, Any], completion: str, what: str, deserved: float | None = None
    ) -> None:
        self.row, self.completion, self.what = row, completion, what
        self.deserved = deserved

    @classmethod
    def own(cls, row: dict[str, Any], made: dict[str, Any]) -> _Call:
        """Return the call of a person's row, which has its completion and perhaps its reward.

        Columns that it lacks are those of a made-up one.
        """
        columns = {key: value for key, value in row.items() if key not in ("completions", "reward")}
        return cls({**made, **columns}, row["completions"][-1], OWN, row.get("reward"))

    def arguments(self, tokenizer: Any) -> tuple[str, str, list[int], list[int]]:
        prompt = str(self.row.get("messages", ""))
        encode = tokenizer.encode
        return prompt, self.completion, encode(prompt), encode(self.completion)

    def __str__(self) -> str:
        is_typical = self.what in ("a typical completion", OWN)
        return f"the completion {self.completion!r}" if is_typical else self.what


async def _check_calls(
    findings: kit.Findings, wrapper: Any, tokenizer: Any, calls: list[_Call], timeout_s: float
) -> list[float]:
    """Score every completion twice and return the rewards; none after a failure."""
    rewards = []
    for call in calls:
        findings.stage(f"scoring {call}")
        scores = []
        for _ in range(2):
            reward = await _score(findings, wrapper, tokenizer, call, timeout_s)
            if reward is None:
                return []  # one clear message; after a hang every further call would cost its time
            scores.append(reward)
        first, second = scores
        if first != second:
            text = f"{call} scored {first}, then {second}; a reward must be deterministic"
            findings.failed("deterministic", text)
            return []
        if call.deserved is not None and first != call.deserved:
            text = f"{call} scored {first}; you expected {call.deserved}"
            findings.failed("own", text)
            return []
        rewards.append(first)
    return rewards


async def _refusal(wrapper: Any, tokenizer: Any, calls: list[_Call]) -> str:
    """Return why a reward refuses every row, as one whose gold answers have a form of their own."""
    text = ""
    for call in calls:
        try:
            await wrapper(*call.arguments(tokenizer), **call.row)
            return ""
        except ValueError as error:
            text = kit.describe(error)
        except Exception:
            return ""
    return text


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
        problem = "timed out"
        try:
            await wrapper(*call.arguments(tokenizer), **row)
        except Exception as error:
            problem, start = kit.describe(error), -math.inf
        # A time-out gives 0.0 and no error, so the time shows it; an error counts at any time.
        if time.monotonic() - start >= EXTREME_TIMEOUT_S:
            findings.warned(
                "extremes",
                f"{call} was not scored ({problem}); training would lose this one call",
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
            raise findings.hopeless("calls", str(error)) from error
        findings.failed("calls", f"{call}: {_explain(error, call)}")
        return None
    # The wrapper answers a time-out with 0.0, which looks like a reward.
    if time.monotonic() - start >= timeout_s:
        findings.failed(
            "time limit",
            f"{call} was not scored within {timeout_s:g} s; limit how much the reward computes",
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
        return f"{text}; a reward is called with {called}; {_columns(call)}"
    if isinstance(error, KeyError):
        return f"{text}; {_columns(call)}"
    if "Died" in type(error).__name__ or "BrokenProcessPool" in type(error).__name__:
        return f"{text}; the process ended without a result (os._exit, a crash or out of memory)"
    return f"{text}; a reward must score any completion: return 0.0 if it finds no answer"


def _columns(call: _Call) -> str:
    names = ", ".join(call.row)
    return f"this row has the columns {names}; give your own rows with --data FILE"


def _check_type(findings: kit.Findings, reward_fn: Any, tokenizer: Any, call: _Call) -> None:
    """Look at the value itself: the wrapper may have turned it into a float."""
    if findings.failures or inspect.iscoroutinefunction(reward_fn):
        return
    with findings.guard("type", f"scoring {call} in the runner's own process"):
        value = reward_fn(*call.arguments(tokenizer), **call.row)
    if type(value) is not float:
        findings.warned(
            "type", f"the reward is {value!r} ({type(value).__name__}); return a plain float"
        )
