"""Reward: the program in the completion, by the tests of the row that it passes."""

from __future__ import annotations

import textwrap
from typing import Any

from my_rl.reward.code_sandbox import Case, Limits, read_tests, run

LIMITS = Limits(cpu_s=1.5, wall_s=5.5, memory_bytes=1024 << 20)

# Whether to run programs where nothing can keep them off this machine's files.
ALLOW_UNSANDBOXED = True

LANGUAGES = {"", "python", "python3", "py"}


def extract_code(completion: str) -> str | None:
    """Finds a completion's program: its last fenced block of Python, or else of no language."""
    programs: dict[bool, str] = {}
    lines = iter(completion.splitlines(keepends=True))
    for opening in lines:
        info = opening.strip().lstrip("`")
        ticks = len(opening.strip()) - len(info)
        if ticks < 3 or "`" in info:
            continue
        language = info.split()[0].lower() if info else ""
        block: list[str] = []
        for line in lines:
            if len(line.strip()) >= ticks and not line.strip().strip("`"):
                if language in LANGUAGES:
                    programs[bool(language)] = textwrap.dedent("".join(block))
                break
            block.append(line)
    return programs.get(True, programs.get(False))


def asserted_reward_fn(
    prompt: str,
    completions: str,
    prompt_ids: list[int],
    completion_ids: list[int],
    test_code: str | list[str],
    entry_point: str | None = None,
    **kwargs: Any,
) -> float:
    """Scores one completion.

    Args:
        prompt: The prompt as text.
        completions: The generated text of one sample.
        prompt_ids: Token ids of the prompt.
        completion_ids: Token ids of the completion.
        test_code: Asserts about the program, a column of the dataset.
        entry_point: The function to check, a column of datasets in HumanEval's form.
        **kwargs: The other columns of the row.

    Returns:
        The fraction of the tests that pass; 0.0 where there is no program.

    Raises:
        ValueError: The row has no usable tests: a fault of the data, which a 0.0 would hide.
        RuntimeError: This machine cannot lock programs in, or is too busy to run them in time.
    """
    tests = read_tests(test_code, entry_point)
    code = extract_code(str(completions))
    if code is None:
        return 0.0
    (done,) = run(code, [Case("", tuple(tests))], LIMITS, allow_unsandboxed=ALLOW_UNSANDBOXED)
    verdicts = zip(tests, done.passed, strict=True)
    passed = [has_passed for (kind, _), has_passed in verdicts if kind == "test"]
    return sum(passed) / len(passed)
