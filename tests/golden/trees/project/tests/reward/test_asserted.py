"""Tests of ``my_rl.reward.asserted``."""

from __future__ import annotations

from pathlib import Path

import pytest

from my_rl.reward.asserted import LIMITS, extract_code
from my_rl.reward.asserted import asserted_reward_fn as reward_fn
from my_rl.reward.code_sandbox import find_backend

TESTS = """
import math
assert double(1) == 2
assert double([1, "x"]) == [1, "x", 1, "x"], "of a list"
assert math.isclose(double(0.1), 0.2)
for n in range(3):
    assert double(n) == n + n
"""
RIGHT = "def double(x):\n    return 2 * x"
HALF_RIGHT = "def double(x):\n    return x + x if isinstance(x, int) else None"
needs_sandbox = pytest.mark.skipif(not find_backend()[0], reason=find_backend()[1])


def block(code: str) -> str:
    return f"Let me think.\n```python\n{code}\n```\nThat is it."


CASES = [
    (block(RIGHT), 1.0),
    (block(HALF_RIGHT) + block(RIGHT), 1.0),
    (block(RIGHT) + block(HALF_RIGHT), 0.5),
    (block("import sys\nsys.exit(0)\n" + RIGHT), 0.0),
    (block("import os\nos._exit(0)\n" + RIGHT), 0.0),
    (block("raise SystemExit\n" + RIGHT), 0.0),
    (block("class"), 0.0),
    (block("hoard = 'x' * 10 ** 13\n" + RIGHT), 0.0),
    (RIGHT, 0.0),
    ("", 0.0),
]

HOSTILE = [
    " \n\t",
    "```python\n",
    "```\n\x00\n```",
    block("\\"),
    block("{{ answer }}"),
    block('\'"""'),
    block("(" * 9_999),
    "\N{GRINNING FACE}" * 99,
]

FORBIDDEN = [
    "import socket; socket.socket()",
    "import os; os.fork()",
    "import os; os.kill(os.getppid() or 1, 9)",
    "open({path!r}, 'w')",
    "open('/etc/passwd')",
]


def score(completion: str, tests: object = TESTS) -> float:
    columns = {"test_code": tests, "level": "extra column"}
    return reward_fn("a question", completion, [1, 2], [3], **columns)


@pytest.mark.parametrize(("completion", "expected"), CASES, ids=range(len(CASES)))
def test_scores_the_cases(completion: str, expected: float) -> None:
    assert score(completion) == expected


@pytest.mark.parametrize("completion", HOSTILE, ids=range(len(HOSTILE)))
def test_scores_any_text_with_a_plain_float(completion: str) -> None:
    reward = score(completion)
    assert type(reward) is float
    assert reward == 0.0


def test_ends_what_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = LIMITS._replace(wall_s=0.3, total_s=0.3)
    monkeypatch.setitem(reward_fn.__globals__, "LIMITS", limits)
    assert score(block("while True:\n    pass")) == 0.0


@needs_sandbox
@pytest.mark.parametrize("attempt", FORBIDDEN)
def test_a_program_is_locked_in(attempt: str, tmp_path: Path) -> None:
    path = tmp_path / "outside"
    code = f"try:\n    {attempt.format(path=str(path))}\nexcept OSError:\n    pass\n"
    assert score(block(f"{code}else:\n    raise SystemExit(1)\n{RIGHT}")) == 1.0
    assert not path.exists()


def test_finds_the_last_program() -> None:
    assert extract_code("```\na\n```\n```py\r\nb = 1\n  ```") == "b = 1\n"
    assert extract_code("```json\n{}\n```") is None


def test_an_unusable_row_is_an_error_and_no_zero() -> None:
    for tests in ("", "import math", "assert (", None):
        with pytest.raises(ValueError, match="test_c"):
            score(block(RIGHT), tests)
