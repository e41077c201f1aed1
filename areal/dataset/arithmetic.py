"""Arithmetic: generated problems such as "12+34=", for small models made from scratch."""

from __future__ import annotations

import operator
import random
import zlib
from collections.abc import Sequence
from typing import Any

from areal.api.errors import DatasetError
from areal.dataset.rows import Row, RowDataset
from areal.dataset.shaping import Messages, answered_rows, longer_side, with_pair_masks
from areal.dataset.tokens import keep_short, keep_short_prompts

_OPERATIONS = {"+": operator.add, "-": operator.sub, "*": operator.mul}
_DEFAULT_SIZES = {"train": 4096, "test": 256}
# One problem in ten is a test problem, whatever the seed and the size, so the splits never meet.
_TEST_SHARE = 10


def get_arithmetic_sft_dataset(
    path: str = "arithmetic",
    split: str | None = "train",
    tokenizer: Any = None,
    max_length: int | None = None,
    *,
    max_digits: int = 2,
    operators: str = "+",
    size: int | None = None,
    seed: int = 1,
    unsure_share: float = 0.0,
) -> RowDataset:
    """Generate problems with answers for supervised training.

    Args:
        path: Not used; the problems are generated.
        split: "train" or "test"; no problem is in both.
        tokenizer: Encodes problem and answer.
        max_length: Drops rows of more tokens.
        max_digits: Operands have one to this many digits, each length as likely.
        operators: Any of ``+``, ``-`` and ``*``, each as likely.
        size: Number of rows; None is 4,096 for train and 256 for test.
        seed: Decides which problems are drawn and their order.
        unsure_share: Share of the answers that end in a question mark ("46?"), as those of a writer
            who is not sure. A model that learns from them doubts as often, and the ``arithmetic``
            reward, which wants the number and nothing else, has something to teach.

    Returns:
        Rows of ``input_ids`` and ``loss_mask`` (lists of ints).

    Raises:
        DatasetError: The split, an operator, a size, a share or the number of digits is impossible.
    """
    _check_encoding("sft", tokenizer, unsure_share)
    problems = _problems(split, max_digits, operators, size, seed)
    rng = random.Random(f"unsure/{seed}")
    problems = [(text, answer + "?" * (rng.random() < unsure_share)) for text, answer in problems]
    rows = RowDataset(_answered(tokenizer, problems))
    return keep_short(rows, max_length, lambda row: len(row["input_ids"]), "arithmetic")


def get_arithmetic_rw_dataset(
    path: str = "arithmetic",
    split: str | None = "train",
    tokenizer: Any = None,
    max_length: int | None = None,
    *,
    max_digits: int = 2,
    operators: str = "+",
    size: int | None = None,
    seed: int = 1,
    unsure_share: float = 0.8,
) -> RowDataset:
    """Generate pairs of a right and a worse answer for a reward model.

    Args:
        path: Not used; the problems are generated.
        split: "train" or "test"; no problem is in both.
        tokenizer: Encodes problem and answers.
        max_length: Drops pairs of which either side has more tokens.
        max_digits: Operands have one to this many digits, each length as likely.
        operators: Any of ``+``, ``-`` and ``*``, each as likely.
        size: Number of rows; None is 4,096 for train and 256 for test.
        seed: Decides which problems are drawn, their order and the worse answers.
        unsure_share: Share of the worse answers that are right but end in a question mark; the
            others are wrong by 1 to 9.

    Returns:
        Rows of ``chosen_ids`` and ``rejected_ids`` (lists of ints).

    Raises:
        DatasetError: The split, an operator, a size, a share or the number of digits is impossible.
    """
    _check_encoding("rw", tokenizer, unsure_share)
    rng = random.Random(f"worse/{split}/{seed}")
    problems = _problems(split, max_digits, operators, size, seed)
    worse = [
        (text, f"{answer}?" if rng.random() < unsure_share else _wrong(rng, int(answer)))
        for text, answer in problems
    ]
    sides = [_answered(tokenizer, each) for each in (problems, worse)]
    rows = [
        {"chosen_ids": chosen["input_ids"], "rejected_ids": rejected["input_ids"]}
        for chosen, rejected in zip(*sides, strict=True)
    ]
    return keep_short(RowDataset(rows), max_length, longer_side, "arithmetic")


def get_arithmetic_dpo_dataset(
    path: str = "arithmetic",
    split: str | None = "train",
    tokenizer: Any = None,
    max_length: int | None = None,
    *,
    max_digits: int = 2,
    operators: str = "+",
    size: int | None = None,
    seed: int = 1,
    unsure_share: float = 0.8,
) -> RowDataset:
    """Generate pairs of a right and a worse answer for direct preference optimisation.

    Args:
        path: Not used; the problems are generated.
        split: "train" or "test"; no problem is in both.
        tokenizer: Encodes problem and answers.
        max_length: Drops pairs of which either side has more tokens.
        max_digits: Operands have one to this many digits, each length as likely.
        operators: Any of ``+``, ``-`` and ``*``, each as likely.
        size: Number of rows; None is 4,096 for train and 256 for test.
        seed: Decides which problems are drawn, their order and the worse answers.
        unsure_share: Share of the worse answers that are right but end in a question mark; the
            others are wrong by 1 to 9.

    Returns:
        Rows of ``chosen_ids``, ``rejected_ids``, ``chosen_loss_mask`` and ``rejected_loss_mask``;
        the loss is on what the two do not begin with alike.

    Raises:
        DatasetError: The split, an operator, a size, a share or the number of digits is impossible.
    """
    pairs = get_arithmetic_rw_dataset(
        path,
        split,
        tokenizer,
        max_length,
        max_digits=max_digits,
        operators=operators,
        size=size,
        seed=seed,
        unsure_share=unsure_share,
    )
    return pairs.map(with_pair_masks)


def get_arithmetic_rl_dataset(
    path: str = "arithmetic",
    split: str | None = "train",
    tokenizer: Any = None,
    max_length: int | None = None,
    *,
    max_digits: int = 2,
    operators: str = "+",
    size: int | None = None,
    seed: int = 1,
) -> RowDataset:
    """Generate problems for the ``arithmetic`` reward.

    Args:
        path: Not used; the problems are generated.
        split: "train" or "test"; no problem is in both.
        tokenizer: Counts tokens; needed with ``max_length`` only.
        max_length: Drops rows whose prompt has more tokens.
        max_digits: Operands have one to this many digits, each length as likely.
        operators: Any of ``+``, ``-`` and ``*``, each as likely.
        size: Number of rows; None is 4,096 for train and 256 for test.
        seed: Decides which problems are drawn and their order.

    Returns:
        Rows of ``messages`` (one user message, "12+34=") and ``answer`` ("46").

    Raises:
        DatasetError: The split, an operator, the size or the number of digits is impossible.
    """
    problems = _problems(split, max_digits, operators, size, seed)
    rows = RowDataset(
        [{"messages": _messages(text), "answer": answer} for text, answer in problems]
    )
    return keep_short_prompts(rows, max_length, tokenizer, "arithmetic")


def _wrong(rng: random.Random, answer: int) -> str:
    difference = rng.choice((-1, 1)) * rng.randint(1, 9)
    if answer + difference < 0 <= answer:  # a sign would give it away
        difference = -difference
    return str(answer + difference)


def _messages(problem: str) -> Messages:
    return [{"role": "user", "content": problem}]


def _answered(tokenizer: Any, problems: Sequence[tuple[str, str]]) -> list[Row]:
    return answered_rows(tokenizer, [(_messages(text), answer) for text, answer in problems])


def _problems(
    split: str | None, max_digits: int, operators: str, size: int | None, seed: int
) -> list[tuple[str, str]]:
    """Draw problems, of each length of operands equally many; short ones come back often."""
    split = split or "train"
    size = _DEFAULT_SIZES.get(split) if size is None else size
    _check(split, max_digits, operators, size)
    assert size is not None
    rng = random.Random(f"{split}/{seed}")
    problems: list[tuple[str, str]] = []
    while len(problems) < size:
        text, answer = _draw(rng, max_digits, operators)
        if _split_of(text) == split:
            problems.append((text, answer))
    return problems


def _draw(rng: random.Random, max_digits: int, operators: str) -> tuple[str, str]:
    left, right = (rng.randrange(10 ** rng.randint(1, max_digits)) for _ in range(2))
    sign = rng.choice(operators)
    return f"{left}{sign}{right}=", str(_OPERATIONS[sign](left, right))


def _split_of(problem: str) -> str:
    # A checksum, because hash() of a string differs from process to process.
    return "test" if zlib.crc32(problem.encode()) % _TEST_SHARE == 0 else "train"


def _check_encoding(type: str, tokenizer: Any, unsure_share: float) -> None:
    if tokenizer is None:
        raise DatasetError(f"the {type} type of 'arithmetic' needs a tokenizer; set tokenizer_path")
    if not 0 <= unsure_share <= 1:
        raise DatasetError(f"unsure_share must lie in [0, 1], but is {unsure_share!r}")


def _check(split: str, max_digits: int, operators: str, size: int | None) -> None:
    if split not in _DEFAULT_SIZES:
        raise DatasetError(f"'arithmetic' has no split {split!r}; it has: train, test")
    if not operators or not set(operators) <= set(_OPERATIONS):
        known = " ".join(_OPERATIONS)
        raise DatasetError(f"operators must be some of {known}, but are {operators!r}")
    if not isinstance(max_digits, int) or max_digits < 1:
        raise DatasetError(f"max_digits must be at least 1, but is {max_digits!r}")
    if not isinstance(size, int) or size < 1:
        raise DatasetError(f"size must be at least 1, but is {size!r}")
