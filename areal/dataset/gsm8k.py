"""GSM8K: word problems of primary-school mathematics with worked solutions."""

from __future__ import annotations

from typing import Any

from areal.dataset.rows import RowDataset
from areal.dataset.sources import Source
from areal.dataset.tokens import Messages, keep_short, keep_short_prompts, sft_row

SOURCE = Source("gsm8k", ("question", "answer"), hub_id="openai/gsm8k", hub_config="main")

# The box is what the gsm8k reward looks for first.
PROMPT = "{question}\n\nThink step by step, then give the final number in \\boxed{{}}."


def get_gsm8k_sft_dataset(
    path: str, split: str, tokenizer: Any, max_length: int | None = None
) -> RowDataset:
    """Load prompts with worked solutions for supervised training.

    Args:
        path: See ``Source.read``; "gsm8k" takes ``AREAL_GSM8K_DIR`` or the hub.
        split: "train" (7,473 rows) or "test" (1,319).
        tokenizer: Renders the prompt, encodes the solution, which keeps its ``#### `` line.
        max_length: Drops rows of more tokens.

    Returns:
        Rows of ``input_ids`` and ``loss_mask`` (lists of ints).

    Raises:
        DatasetError: The data is not there or not as expected.

    Source: https://github.com/openai/grade-school-math, MIT licence.
    """
    rows = RowDataset(SOURCE.read(path, split)).map(
        lambda row: sft_row(tokenizer, _messages(row["question"]), str(row["answer"]))
    )
    return keep_short(rows, max_length, lambda row: len(row["input_ids"]), f"{path} ({split})")


def get_gsm8k_rl_dataset(
    path: str, split: str, tokenizer: Any = None, max_length: int | None = None
) -> RowDataset:
    """Load prompts with gold solutions for the ``gsm8k`` reward.

    Args:
        path: See ``Source.read``; "gsm8k" takes ``AREAL_GSM8K_DIR`` or the hub.
        split: "train" (7,473 rows) or "test" (1,319).
        tokenizer: Counts tokens; needed with ``max_length`` only.
        max_length: Drops rows whose rendered prompt has more tokens.

    Returns:
        Rows of ``messages`` (role and content) and ``answer`` (the solution with ``#### 72``).

    Raises:
        DatasetError: The data is not there or not as expected.

    Source: https://github.com/openai/grade-school-math, MIT licence.
    """
    rows = RowDataset(SOURCE.read(path, split)).map(
        lambda row: {"messages": _messages(row["question"]), "answer": row["answer"]}
    )
    return keep_short_prompts(rows, max_length, tokenizer, f"{path} ({split})")


def _messages(question: str) -> Messages:
    return [{"role": "user", "content": PROMPT.format(question=question)}]
