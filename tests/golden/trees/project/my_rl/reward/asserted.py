"""Reward: the program in the completion, by the tests of the row that it passes."""

from __future__ import annotations

import ast
import textwrap
from typing import Any

from my_rl.reward.code_sandbox import Case, Limits, run

LIMITS = Limits(cpu_s=1.5, wall_s=5.5, memory_bytes=1024 << 20)

# Whether to run programs where nothing can keep them off this machine's files.
ALLOW_UNSANDBOXED = True

DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
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


def read_tests(test_code: Any, entry_point: str | None = None) -> list[tuple[str, str]]:
    """Takes a row's tests apart: each assert or block with asserts at the top level is one.

    Where there is none, each call is: those of functions that hold the asserts.

    Args:
        test_code: Python source, or a list of it.
        entry_point: The function that `check` of HumanEval's form is called with.

    Returns:
        What is run beside the program, as (kind, source).

    Raises:
        ValueError: It is no Python, or holds no test.
    """
    try:
        source = test_code if isinstance(test_code, str) else "\n".join(test_code)
        if entry_point and "def check(" in source:
            source += f"\ncheck({entry_point})"
        statements = ast.parse(source).body
    except (SyntaxError, TypeError, ValueError) as error:
        raise ValueError(f"the row's test_code is no Python: {error}") from error
    blocks = [node for node in statements if not isinstance(node, DEFINITIONS)]
    counted = [n for n in blocks if any(isinstance(each, ast.Assert) for each in ast.walk(n))]
    counted = counted or [n for n in blocks if isinstance(getattr(n, "value", None), ast.Call)]
    if not counted:
        raise ValueError("the row's test_code holds no assert and no call")
    return [("test" if node in counted else "setup", ast.unparse(node)) for node in statements]


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
