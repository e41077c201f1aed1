"""Reward: the program in the completion, by the tests of the row that it passes."""

from __future__ import annotations

import json
import textwrap
from typing import Any

from areal.reward.code_sandbox import Case, Limits, run

LIMITS = Limits(cpu_s=4.0, wall_s=8.0, memory_bytes=1024 << 20)

# Whether to run programs where nothing can keep them off this machine's files.
ALLOW_UNSANDBOXED = False

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


def read_cases(test_cases: Any) -> tuple[list[Case], list[str]]:
    """Returns the inputs of a row's tests and the output that each must give.

    Args:
        test_cases: A list of {"input": ..., "output": ...}, or its JSON.

    Raises:
        ValueError: It is something else, or empty.
    """
    try:
        rows = json.loads(test_cases) if isinstance(test_cases, str) else test_cases
        pairs = [(row["input"], row["output"]) for row in rows]
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"test_cases must hold an input and an output each: {error!r}") from error
    if not pairs:
        raise ValueError("the row's test_cases are empty")
    wrong = [each for pair in pairs for each in pair if not isinstance(each, str | int | float)]
    if wrong:
        raise ValueError(f"inputs and outputs of test_cases must be text, not {wrong[0]!r:.80}")
    return [Case(str(text)) for text, _ in pairs], [str(text) for _, text in pairs]


def same_output(found: str, expected: str) -> bool:
    """Compares line by line, blanks at the end of lines and of the text aside."""
    lines = ([line.rstrip() for line in text.rstrip().splitlines()] for text in (found, expected))
    return next(lines) == next(lines)


def plain_code_reward_fn(
    prompt: str,
    completions: str,
    prompt_ids: list[int],
    completion_ids: list[int],
    test_cases: Any,
    **kwargs: Any,
) -> float:
    """Scores one completion.

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
    cases, expected = read_cases(test_cases)
    code = extract_code(str(completions))
    if code is None:
        return 0.0
    runs = run(code, cases, LIMITS, stop_early=True, allow_unsandboxed=ALLOW_UNSANDBOXED)
    rows = zip(runs, expected, strict=True)
    passed = [done.end == "ok" and same_output(done.output, text) for done, text in rows]
    return float(all(passed))
