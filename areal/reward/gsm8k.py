"""GSM8K: the final number of a solution to a word problem."""

from __future__ import annotations

import re
from typing import Any

from areal.api.errors import RewardError
from areal.reward.extraction import final_answer, numbers_equal, read_number
from areal.reward.math_verify import get_math_verify_worker

_MATHEMATICS = re.compile(r"\d|\\|[-+*/^=]|\bpi\b")


def gsm8k_reward_fn(
    prompt: Any, completions: str, prompt_ids: Any, completion_ids: Any, answer: Any, **kwargs: Any
) -> float:
    r"""Score 1.0 for a completion whose final number equals the gold number.

    Args:
        prompt: Not used.
        completions: The completion. The last ``\boxed{}`` or ``#### `` line is the answer; units
            may follow the number. Without such a mark ``math-verify`` looks for it.
        prompt_ids: Not used.
        completion_ids: Not used.
        answer: A gold solution that ends in ``#### 1,234``, or the number alone, or what else
            ``math-verify`` reads (``2^3``, ``2*pi``, a matrix, an interval).
        **kwargs: Other columns of the row; not used.

    Returns:
        1.0 or 0.0.

    Raises:
        RewardError: The gold answer is words, or nothing.
        RewardTimeoutError: An answer that is no plain number took too long to compare.

    Source: the data set and its ``####`` mark, https://github.com/openai/grade-school-math.
    """
    gold_solution = str(answer)
    marked = final_answer(gold_solution)
    gold_text = gold_solution if marked is None else marked
    gold = read_number(gold_text, allow_units=True)
    worker = get_math_verify_worker(raise_on_error=True)
    if gold is None:
        # Words can be read as products of their letters, and are a mistake in the data.
        if not _MATHEMATICS.search(gold_text):
            raise RewardError(f"the gold answer {gold_solution[-80:]!r} has no number or formula")
        return worker.verify(completions, gold_text)
    said = final_answer(completions)
    number = read_number(completions if said is None else said, allow_units=True)
    if number is not None:
        return float(numbers_equal(number, gold))
    return worker.verify(completions, gold.latex)
