"""Reward: the program in the completion, by the tests of the row that it passes."""

from __future__ import annotations

import ast
import contextlib
import textwrap
from typing import Any

from my_rl.reward.asserted_sandbox import Case, Limits, reports_value, run

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


def read_tests(test_code: str) -> tuple[list[tuple[str, str]], list[Any]]:
    """Takes a row's tests apart: each assert or block with asserts at the top level is one.

    Where there is none, each call is: those of functions that hold the asserts.

    Of ``assert f(2) == 4`` the program's process only gets ``f(2)``: what it has to be stays here,
    where no program can reach it. Other tests only say there that they passed.

    Args:
        test_code: Python source.

    Returns:
        What is run, as (kind, source), and for each the value that it must have.

    Raises:
        ValueError: It is no Python, or holds no test.
    """
    try:
        statements = ast.parse(test_code).body
    except (SyntaxError, TypeError) as error:
        raise ValueError(f"the row's test_code is no Python: {error}") from error
    blocks = [node for node in statements if not isinstance(node, DEFINITIONS)]
    counted = [n for n in blocks if any(isinstance(each, ast.Assert) for each in ast.walk(n))]
    counted = counted or [n for n in blocks if isinstance(getattr(n, "value", None), ast.Call)]
    if not counted:
        raise ValueError("the row's test_code holds no assert and no call")
    tests: list[tuple[str, str]] = []
    expected: list[Any] = []
    for node in statements:
        value = compared_value(node)
        kind = "setup" if node not in counted else "statement" if value is None else "value"
        tests.append((kind, ast.unparse(value[0] if value else node)))
        expected.append(value[1] if value else True)
    return tests, expected


def compared_value(node: ast.stmt) -> tuple[ast.expr, Any] | None:
    """Returns the sides of ``assert EXPRESSION == LITERAL``, or None for anything else."""
    test = node.test if isinstance(node, ast.Assert) else None
    if isinstance(test, ast.Compare) and [type(each) for each in test.ops] == [ast.Eq]:
        left, right = test.left, test.comparators[0]
        for side, other in ((left, right), (right, left)):
            with contextlib.suppress(ValueError, TypeError):
                return side, ast.literal_eval(other)
    return None


def asserted_reward_fn(
    prompt: str,
    completions: str,
    prompt_ids: list[int],
    completion_ids: list[int],
    test_code: str,
    **kwargs: Any,
) -> float:
    """Scores one completion.

    Args:
        prompt: The prompt as text.
        completions: The generated text of one sample.
        prompt_ids: Token ids of the prompt.
        completion_ids: Token ids of the completion.
        test_code: Asserts about the program, a column of the dataset.
        **kwargs: The other columns of the row.

    Returns:
        The fraction of the tests that pass; 0.0 where there is no program.

    Raises:
        ValueError: The row has no usable tests: a fault of the data, which a 0.0 would hide.
        RuntimeError: This machine cannot lock programs in.
    """
    tests, expected = read_tests(test_code)
    code = extract_code(str(completions))
    if code is None:
        return 0.0
    (done,) = run(code, [Case("", tuple(tests))], LIMITS, allow_unsandboxed=ALLOW_UNSANDBOXED)
    rows = zip(tests, done.reports, expected, strict=True)
    passed = [reports_value(report, value) for (kind, _), report, value in rows if kind != "setup"]
    return sum(passed) / len(passed)
