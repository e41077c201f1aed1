"""GSM8K: word problems of primary-school mathematics with worked solutions."""

from __future__ import annotations

from typing import Any

from areal.dataset.rows import Row, RowDataset
from areal.dataset.sources import Source
from areal.dataset.tokens import keep_short, require_tokenizer, text_of

SOURCE = Source("gsm8k", ("question", "answer"), hub_id="openai/gsm8k", hub_config="main")

# The box is what the gsm8k reward looks for first.
PROMPT = "{question}\nPlease put your final answer within \\boxed{{}}."


def get_gsm8k_sft_dataset(
    path: str, split: str, tokenizer: Any, max_length: int | None = None
) -> RowDataset:
    """Load prompts with worked solutions for supervised training.

    Args:
        path: See ``Source.read``; "gsm8k" takes ``AREAL_GSM8K_DIR`` or the hub.
        split: "train" (7,473 rows) or "test" (1,319).
        tokenizer: Encodes question, solution with its ``#### `` line and end of sequence as one
            text; there is no chat.
        max_length: Drops rows of more tokens.

    Returns:
        Rows of ``input_ids`` and ``loss_mask`` (lists of ints); the loss is on what follows the
        tokens of the question.

    Raises:
        DatasetError: The data is not there or not as expected.

    Source: https://github.com/openai/grade-school-math, MIT licence.
    """
    rows = RowDataset(SOURCE.read(path, split)).map(lambda row: _sft_row(tokenizer, row))
    return keep_short(rows, max_length, lambda row: len(row["input_ids"]), f"{path} ({split})")


def get_gsm8k_rl_dataset(
    path: str, split: str, tokenizer: Any = None, max_length: int | None = None
) -> RowDataset:
    """Load prompts with gold solutions for the ``gsm8k`` reward.

    Args:
        path: See ``Source.read``; "gsm8k" takes ``AREAL_GSM8K_DIR`` or the hub.
        split: "train" (7,473 rows) or "test" (1,319).
        tokenizer: Counts tokens; needed with ``max_length`` only.
        max_length: Drops rows whose message has more tokens, not counting the chat around it.

    Returns:
        Rows of ``answer`` (the solution with ``#### 72``) and ``messages`` (role and content).

    Raises:
        DatasetError: The data is not there or not as expected.

    Source: https://github.com/openai/grade-school-math, MIT licence.
    """
    origin = f"{path} ({split})"
    rows = RowDataset(SOURCE.read(path, split)).map(_rl_row)
    if max_length is not None:
        require_tokenizer(tokenizer, origin)
    return keep_short(rows, max_length, lambda row: len(tokenizer.encode(_content(**row))), origin)


def _sft_row(tokenizer: Any, row: Row) -> Row:
    question = text_of(row, "question")
    input_ids = tokenizer.encode(f"{question}{text_of(row, 'answer')}{tokenizer.eos_token}")
    num_given = len(tokenizer.encode(question))
    return {
        "input_ids": input_ids,
        "loss_mask": [0] * num_given + [1] * (len(input_ids) - num_given),
    }


def _content(messages: list[dict[str, str]], **_: Any) -> str:
    return messages[0]["content"]


def _rl_row(row: Row) -> Row:
    content = PROMPT.format(question=text_of(row, "question"))
    return {"answer": text_of(row, "answer"), "messages": [{"role": "user", "content": content}]}
