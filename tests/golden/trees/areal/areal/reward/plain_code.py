"""Reward: the program in the completion, by the tests of the row that it passes."""

from __future__ import annotations

from typing import Any

from areal.sandbox import Limits, extract_code, read_cases, run_cases

LIMITS = Limits(cpu_s=4.0, wall_s=8.0, memory_bytes=1024 << 20)

# Whether to run programs where nothing can keep them off this machine's files.
ALLOW_UNSANDBOXED = False


def plain_code_reward_fn(
    prompt: str,
    completions: str,
    prompt_ids: list[int],
    completion_ids: list[int],
    test_cases: Any,
    **kwargs: Any,
) -> float:
    """Run the tests of the row on the program in a completion.

    Args:
        prompt: The prompt as text.
        completions: The generated text of one sample.
        prompt_ids: Token ids of the prompt.
        completion_ids: Token ids of the completion.
        test_cases: What the program reads and must print, a column of the dataset.
        **kwargs: The other columns of the row.

    Returns:
        1.0 where all tests pass; 0.0 where one fails or there is no program.

    Raises:
        ValueError: The row has no usable tests: a fault of the data, which a 0.0 would hide.
        RuntimeError: This machine cannot lock programs in, or is too busy to run them in time.
    """
    tests = read_cases(test_cases)
    code = extract_code(str(completions))
    if code is None:
        return 0.0
    passed = run_cases(code, tests, LIMITS, stop_early=True, allow_unsandboxed=ALLOW_UNSANDBOXED)
    return float(all(passed))
