"""Reward: 1.0 when the answer in the completion equals the expected one as mathematics."""

from __future__ import annotations

from typing import Any

from areal.reward import MathVerifyWorker

# Compares 1/2 with 0.5 and 2x + 2 with 2(x + 1); bounds its own time.
WORKER = MathVerifyWorker(try_extract_without_anchor=False, precision=3)


def marked_math_reward_fn(
    prompt: str,
    completions: str,
    prompt_ids: list[int],
    completion_ids: list[int],
    answer: Any,
    **kwargs: Any,
) -> float:
    """Compare the answer in a completion with the expected one, as mathematics.

    Args:
        prompt: The prompt as text.
        completions: The generated text of one sample.
        prompt_ids: Token ids of the prompt.
        completion_ids: Token ids of the completion.
        answer: The expected answer, a column of the dataset, plain or LaTeX.
        **kwargs: The other columns of the row.

    Returns:
        1.0 for an equal answer; 0.0 for another one or none that can be read.

    Raises:
        ValueError: The row has no usable answer: a fault of the data, which a 0.0 would hide.
    """
    expected = str(answer).strip()
    if not expected:
        raise ValueError("the row's answer column is empty")
    said = str(completions)
    # Of several boxes the last one is the answer; verifiers differ in which ones they compare.
    said = said[max(said.rfind("\\boxed"), 0) :]
    return float(WORKER.verify(said, expected))
