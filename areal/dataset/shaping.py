"""Shape rows of any source for training: prompts, tokens, loss masks, pairs."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from areal.utils import logging
from areal.utils.hf_utils import apply_chat_template

from .files import RawRows, looks_local, read_local, require_columns, value_at

if TYPE_CHECKING:
    from datasets import Dataset

logger = logging.getLogger("Dataset")

Row = dict[str, Any]
Messages = list[dict[str, Any]]

TEXTS_AT_ONCE = 1024  # bounds what a tokenizer holds beside the token ids


# --- rows of a source ---------------------------------------------------------------------------


def load_rows(
    path: str, split: str | None, columns: Sequence[str | list[str]], also: Sequence[str] = ()
) -> list[Row]:
    """Load the rows of a source that have a value in every column, values as the source has them.

    Args:
        path: What `areal.dataset.files.read_local` reads, else a hub id.
        split: Such as "train", which None means.
        columns: The ones that are needed; others are left out. ``solution.final`` is what the
            object in ``solution`` holds there. Of a list one column with a value is enough.
        also: Further columns, whose rows stay whatever they hold.

    Returns:
        Rows of these columns, a dotted one under its whole name.

    Raises:
        ValueError: The source is not there, lacks a column, or has no such rows.
    """
    rows = _read(os.path.expanduser(path), split)
    groups = [[each] if isinstance(each, str) else each for each in columns]
    names = [*(name for group in groups for name in group), *also]
    require_columns(rows, names, path)
    chosen = [{name: value_at(row, name) for name in names} for row in rows]
    whole = [
        row for row in chosen if all(any(_has_value(row[n]) for n in group) for group in groups)
    ]
    if not whole:
        raise ValueError(f"{path!r} has no rows with values in {names}, split {split!r}")
    if len(whole) < len(chosen):
        dropped = len(chosen) - len(whole)
        logger.warning("%s: rows without a value, left out: %d of %d", path, dropped, len(chosen))
    return whole


def _read(path: str, split: str | None) -> RawRows:
    if os.path.exists(path):
        return read_local(path, split)
    if looks_local(path):
        raise ValueError(f"{path!r} does not exist")
    import datasets

    return datasets.load_dataset(path, split=split or "train")


def _has_value(value: Any) -> bool:
    """Return whether a value is given: `NaN` is how tables write a number that is missing."""
    is_no_number = isinstance(value, float) and not math.isfinite(value)
    return value not in (None, "", []) and not is_no_number


def join_texts(row: Mapping[str, Any], columns: Sequence[str]) -> str:
    """Join the texts of columns, apart by an empty line; those without a value are left out."""
    values = [value_at(row, column) for column in columns]
    return "\n\n".join(str(value) for value in values if _has_value(value))


def to_messages(value: Any, role: str = "user") -> Messages:
    """Make one message of a text; of messages keep role and content."""
    if isinstance(value, list):
        return [{"role": each["role"], "content": each["content"]} for each in value]
    return [{"role": role, "content": str(value)}]


def split_chat(value: Any) -> tuple[Messages, str]:
    """Split a conversation into its prompt and its last message's text."""
    messages = to_messages(value)
    return messages[:-1], messages[-1]["content"]


def join_prompt(prompt: Any, side: Any) -> Messages:
    """Return a prompt with one reply to it; some sources repeat the prompt in the reply."""
    asked, replied = to_messages(prompt), to_messages(side, "assistant")
    return replied if replied[: len(asked)] == asked else asked + replied


# --- rows for training --------------------------------------------------------------------------

Split = Callable[[Row], tuple[Messages, str]]
"""Row to its prompt and the answer to it."""

Sides = Callable[[Row], Mapping[str, Any]]
"""Row to its "chosen" and its "rejected" conversation: messages, or a text taken as it is."""


def rl_rows(
    rows: Sequence[Row],
    split_row: Split,
    tokenizer: Any,
    max_length: int | None,
    keep: Sequence[str] = (),
) -> Dataset:
    """Return rows of ``messages`` (role and content) and ``answer``, for reinforcement learning.

    Columns of ``keep`` stay beside them, for rewards that read more than the answer.
    """
    made = []
    for row in rows:
        messages, answer = split_row(row)
        made.append({"messages": messages, "answer": answer, **{name: row[name] for name in keep}})
    if max_length is not None:
        prompts = prompts_token_ids(tokenizer, [row["messages"] for row in made])
        made = [row for row, ids in zip(made, prompts, strict=True) if len(ids) <= max_length]
    return _dataset(made, ("messages", "answer", *keep))


def sft_rows(
    rows: Sequence[Row], split_row: Split, tokenizer: Any, max_length: int | None
) -> Dataset:
    """Return rows of ``input_ids`` and ``loss_mask``, 1 on the answer and the end of sequence."""
    made = answered_rows(tokenizer, [split_row(row) for row in rows])
    short = [row for row in made if max_length is None or len(row["input_ids"]) <= max_length]
    return _dataset(short, ("input_ids", "loss_mask"))


def rw_rows(
    rows: Sequence[Row], sides_of: Sides, tokenizer: Any, max_length: int | None
) -> Dataset:
    """Return rows of ``chosen_ids`` and ``rejected_ids``, which end in the end of sequence."""
    return _dataset(_pairs(rows, sides_of, tokenizer, max_length), ("chosen_ids", "rejected_ids"))


def dpo_rows(
    rows: Sequence[Row], sides_of: Sides, tokenizer: Any, max_length: int | None
) -> Dataset:
    """Return pairs with their loss masks, 0 on what both sides begin with; equal pairs go."""
    pairs = _pairs(rows, sides_of, tokenizer, max_length)
    made = [with_pair_masks(pair) for pair in pairs if pair["chosen_ids"] != pair["rejected_ids"]]
    columns = ("chosen_ids", "rejected_ids", "chosen_loss_mask", "rejected_loss_mask")
    return _dataset(made, columns)


def _pairs(
    rows: Sequence[Row], sides_of: Sides, tokenizer: Any, max_length: int | None
) -> list[Row]:
    sides = [sides_of(row) for row in rows]
    columns = {
        f"{name}_ids": _side_ids(tokenizer, [each[name] for each in sides])
        for name in ("chosen", "rejected")
    }
    pairs = [dict(zip(columns, ids, strict=True)) for ids in zip(*columns.values(), strict=True)]
    return [pair for pair in pairs if max_length is None or longer_side(pair) <= max_length]


def _side_ids(tokenizer: Any, sides: Sequence[Any]) -> list[list[int]]:
    texts = [side for side in sides if isinstance(side, str)]  # whole conversations
    chats = [split_chat(side) for side in sides if not isinstance(side, str)]
    of_texts = iter([*ids, tokenizer.eos_token_id] for ids in _encoded(tokenizer, texts))
    prompts = prompts_token_ids(tokenizer, [prompt for prompt, _ in chats])
    replies = completions_token_ids(tokenizer, [reply for _, reply in chats])
    of_chats = (prompt + reply for prompt, reply in zip(prompts, replies, strict=True))
    return [next(of_texts if isinstance(side, str) else of_chats) for side in sides]


def _dataset(rows: list[Row], columns: Sequence[str]) -> Dataset:
    import datasets

    # From columns, as no rows have none.
    return datasets.Dataset.from_dict({name: [row[name] for row in rows] for name in columns})


# --- tokens -------------------------------------------------------------------------------------


def prompt_token_ids(tokenizer: Any, messages: Messages) -> list[int]:
    """Return the prompt as the RLVR workflow sends it: rendered, the assistant's turn opened.

    A tokenizer without a chat template gets the contents, one per line.
    """
    return prompts_token_ids(tokenizer, [messages])[0]


def prompts_token_ids(tokenizer: Any, conversations: Sequence[Messages]) -> list[list[int]]:
    """Return the prompts of many conversations, encoded together, and equal ones once."""
    if not getattr(tokenizer, "chat_template", None):
        return _encoded(tokenizer, ["".join(f"{m['content']}\n" for m in c) for c in conversations])
    # Several answers to one question are usual, and to render it costs the most.
    unique = {repr(messages): messages for messages in conversations}
    texts = {
        key: apply_chat_template(tokenizer, messages, tokenize=False, add_generation_prompt=True)
        for key, messages in unique.items()
    }
    # A template renders the special tokens too.
    rendered = [texts[repr(messages)] for messages in conversations]
    return _encoded(tokenizer, rendered, add_special_tokens=False)


def completion_token_ids(tokenizer: Any, text: str) -> list[int]:
    """Return the tokens of an answer, end-of-sequence included."""
    return completions_token_ids(tokenizer, [text])[0]


def completions_token_ids(tokenizer: Any, texts: Sequence[str]) -> list[list[int]]:
    """Return the tokens of many answers, each with its end-of-sequence."""
    encoded = _encoded(tokenizer, texts, add_special_tokens=False)
    return [[*ids, tokenizer.eos_token_id] for ids in encoded]


def _encoded(tokenizer: Any, texts: Sequence[str], **options: Any) -> list[list[int]]:
    unique = list(dict.fromkeys(texts))
    ids: dict[str, list[int]] = {}
    for first in range(0, len(unique), TEXTS_AT_ONCE):
        some = unique[first : first + TEXTS_AT_ONCE]
        encoded = tokenizer(some, return_attention_mask=False, **options)["input_ids"]
        ids.update(zip(some, encoded, strict=True))
    return [list(ids[text]) for text in texts]


def sft_row(tokenizer: Any, messages: Messages, answer: str) -> Row:
    """Build one supervised row: the loss is on the answer and its end-of-sequence alone.

    Returns:
        ``input_ids`` and ``loss_mask``, lists of ints of one length.
    """
    return answered_rows(tokenizer, [(messages, answer)])[0]


def answered_rows(tokenizer: Any, chats: Sequence[tuple[Messages, str]]) -> list[Row]:
    """Build the supervised rows of many prompts with their answers, which are encoded together."""
    prompts = prompts_token_ids(tokenizer, [messages for messages, _ in chats])
    answers = completions_token_ids(tokenizer, [answer for _, answer in chats])
    return [_with_loss_mask(*ids) for ids in zip(prompts, answers, strict=True)]


def _with_loss_mask(prompt: list[int], completion: list[int]) -> Row:
    return {
        "input_ids": prompt + completion,
        "loss_mask": [0] * len(prompt) + [1] * len(completion),
    }


def common_prefix_length(first: Sequence[int], second: Sequence[int]) -> int:
    """Return how many tokens two sequences share from the start."""
    length = 0
    for left, right in zip(first, second, strict=False):
        if left != right:
            break
        length += 1
    return length


def longer_side(pair: Row) -> int:
    """Return the tokens of the longer side of a pair."""
    return max(len(pair["chosen_ids"]), len(pair["rejected_ids"]))


def with_pair_masks(pair: Row) -> Row:
    """Return a pair with its loss masks, 0 on the tokens that both sides begin with."""
    shared = common_prefix_length(pair["chosen_ids"], pair["rejected_ids"])
    masks = {
        f"{side}_loss_mask": [0] * shared + [1] * (len(pair[f"{side}_ids"]) - shared)
        for side in ("chosen", "rejected")
    }
    return {**pair, **masks}
