"""Tests of ``my_rl.dataset.plain_pairs``: what holds for every loader of a dataset."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from areal.testing import make_tokenizer

import my_rl.dataset.plain_pairs as module

# YOURS: put a few rows of your own data here
SAMPLES: list[dict[str, Any]] = [
    {
        "chosen": "2+3? It is 5.",
        "rejected": "2+3? It is 6.",
    },
    {
        "chosen": "12+30? It is 42.",
        "rejected": "12+30? It is 41.",
    },
]

LOADERS = {
    "dpo": module.get_plain_pairs_dpo_dataset,
    "rw": module.get_plain_pairs_rw_dataset,
}


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Writes the samples to a folder, as a person would keep them."""
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    if not SAMPLES:
        raise NotImplementedError("YOURS: SAMPLES is empty")
    return write(tmp_path / "data", SAMPLES)


def write(folder: Path, samples: list[dict[str, Any]]) -> str:
    folder.mkdir()
    lines = "".join(json.dumps(sample) + "\n" for sample in samples)
    (folder / "train.jsonl").write_text(lines, encoding="utf-8")
    return str(folder)


def load(kind: str, path: str, **options: Any) -> Any:
    return LOADERS[kind](path=path, split="train", tokenizer=make_tokenizer(), **options)


def check_tokens(ids: Sequence[int], mask: Sequence[int]) -> None:
    assert len(ids) == len(mask) > 0
    assert all(type(token) is int for token in ids)
    assert all(0 <= token < len(make_tokenizer()) for token in ids)
    assert set(mask) <= {0, 1}


def check_row(kind: str, row: dict[str, Any]) -> None:
    """Checks the columns that training needs of a row."""
    if kind == "rl":
        assert row["messages"]
        assert all({"role", "content"} <= set(message) for message in row["messages"])
        assert isinstance(row["answer"], str)
        assert row["answer"].strip()
    elif kind == "sft":
        check_tokens(row["input_ids"], row["loss_mask"])
        assert 1 in row["loss_mask"]
    else:
        chosen, rejected = row["chosen_ids"], row["rejected_ids"]
        is_dpo = kind == "dpo"
        check_tokens(chosen, row["chosen_loss_mask"] if is_dpo else [1] * len(chosen))
        check_tokens(rejected, row["rejected_loss_mask"] if is_dpo else [1] * len(rejected))
        if is_dpo:
            check_shared(chosen, rejected, row["chosen_loss_mask"], row["rejected_loss_mask"])


def check_shared(
    chosen: Sequence[int], rejected: Sequence[int], mask: Sequence[int], other: Sequence[int]
) -> None:
    """Checks that the loss is on what differs, and not on what both sides begin with."""
    both = enumerate(zip(chosen, rejected, strict=False))
    shared = next((i for i, (a, b) in both if a != b), min(len(chosen), len(rejected)))
    assert not any([*mask[:shared], *other[:shared]])
    assert 1 in [*mask, *other]


def lengths_of(rows: Any) -> list[int]:
    return [len(row[key]) for row in rows for key in row if key.endswith("_ids")]


@pytest.mark.parametrize("kind", LOADERS)
def test_rows_have_the_columns_of_their_type(kind: str, source: str) -> None:
    rows = load(kind, source)
    assert len(rows) > 0
    for row in rows:
        check_row(kind, row)


@pytest.mark.parametrize("kind", LOADERS)
def test_the_same_source_gives_the_same_rows(kind: str, source: str) -> None:
    assert list(load(kind, source)) == list(load(kind, source))


@pytest.mark.parametrize("kind", [kind for kind in LOADERS if kind != "rl"])
def test_no_row_is_longer_than_the_limit(kind: str, source: str) -> None:
    lengths = lengths_of(load(kind, source))
    limit = max(min(lengths), max(lengths) - 1)
    short = load(kind, source, max_length=limit)
    assert max(lengths_of(short), default=0) <= limit
    assert len(load(kind, source, max_length=max(lengths))) == len(load(kind, source))


@pytest.mark.parametrize("kind", LOADERS)
def test_a_source_without_the_columns_is_refused(kind: str, source: str, tmp_path: Path) -> None:
    other = write(tmp_path / "other", [{"something": "else"}])
    with pytest.raises((KeyError, ValueError)):
        list(load(kind, other))
