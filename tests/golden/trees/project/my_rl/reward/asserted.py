"""Reward: the program in the completion, by the tests of the row that it passes."""

from __future__ import annotations

from typing import Any

from areal.sandbox import Limits, extract_code, read_tests, run_tests

LIMITS = Limits(cpu_s=1.5, wall_s=5.5, memory_bytes=1024 << 20)

# Whether to run programs where nothing can keep them off this machine's files.
ALLOW_UNSANDBOXED = True


def asserted_reward_fn(
    prompt: str,
    completions: str,
    prompt_ids: list[int],
    completion_ids: list[int],
    test_code: str | list[str],
    entry_point: str | None = None,
    test_setup: str = "",
    **kwargs: Any,
) -> float:
    """Run the tests of the row on the program in a completion.

    Args:
        prompt: The prompt as text.
        completions: The generated text of one sample.
        prompt_ids: Token ids of the prompt.
        completion_ids: Token ids of the completion.
        test_code: Asserts about the program, a column of the dataset.
        entry_point: The function to check, a column of datasets in HumanEval's form.
        test_setup: What the tests call beside the program, such as the prompt of HumanEval.
        **kwargs: The other columns of the row.

    Returns:
        The fraction of the tests that pass; 0.0 where there is no program.

    Raises:
        ValueError: The row has no usable tests: a fault of the data, which a 0.0 would hide.
        RuntimeError: This machine cannot lock programs in, or is too busy to run them in time.
    """
    tests = read_tests(test_code, entry_point, test_setup)
    code = extract_code(str(completions))
    if code is None:
        return 0.0
    passed = run_tests(code, tests, LIMITS, allow_unsandboxed=ALLOW_UNSANDBOXED)
    return sum(passed) / len(passed)
