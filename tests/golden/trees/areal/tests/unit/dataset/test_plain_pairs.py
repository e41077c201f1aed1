"""Tests of ``areal.dataset.plain_pairs``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from datasets import Dataset
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

import areal.dataset.plain_pairs as module

# YOURS: put a few rows of your own data here
SAMPLES: list[dict[str, Any]] = [
    {
        "chosen": "\n\nHuman: 2+3?\n\nAssistant: 5",
        "rejected": "\n\nHuman: 2+3?\n\nAssistant: 6",
    },
    {
        "chosen": "\n\nHuman: How much is 12+30?\n\nAssistant: 42",
        "rejected": "\n\nHuman: How much is 12+30?\n\nAssistant: 41",
    },
]
TEXTS = all(isinstance(value, str) for sample in SAMPLES for value in sample.values())

CHAT = (
    "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}<eos>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


def make_tokenizer() -> PreTrainedTokenizerFast:
    """Makes a byte tokenizer with a chat template, so that nothing is downloaded."""
    specials = ["<pad>", "<eos>", "<system>", "<user>", "<assistant>"]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {token: index for index, token in enumerate([*specials, *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocab, []))
    tokenizer.add_special_tokens(specials)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<eos>", chat_template=CHAT
    )


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Writes the samples to a folder, as a person would keep them."""
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    return write(tmp_path / "data", SAMPLES)


def write(folder: Path, samples: list[dict[str, Any]], form: str = "json") -> str:
    folder.mkdir()
    getattr(Dataset.from_list(samples), f"to_{form}")(folder / f"train.{form}")
    return str(folder)


def text_of(value: Any) -> str:
    """Returns a text, or that of the last message."""
    return value[-1]["content"] if isinstance(value, list) else str(value)


@pytest.mark.parametrize("form", ["json", "parquet", *["csv"] * TEXTS])
@pytest.mark.parametrize("kind", ["dpo", "rw"])
def test_every_form_gives_the_same_rows(kind: str, form: str, source: str, tmp_path: Path) -> None:
    load = getattr(module, f"get_plain_pairs_{kind}_dataset")
    folder = write(tmp_path / form, SAMPLES, form)
    from_folder = load(folder, "train", make_tokenizer())
    from_file = load(f"{folder}/train.{form}", None, make_tokenizer())
    assert list(from_folder) == list(load(source, "train", make_tokenizer()))
    assert list(from_file) == list(from_folder)


@pytest.mark.parametrize("kind", ["dpo", "rw"])
def test_a_source_without_columns_or_values_is_refused(
    kind: str, source: str, tmp_path: Path
) -> None:
    load = getattr(module, f"get_plain_pairs_{kind}_dataset")
    other = write(tmp_path / "other", [{"something": "else"}])
    with pytest.raises(ValueError, match="lacks the columns"):
        load(other, "train", make_tokenizer())
    empty = write(tmp_path / "empty", [dict.fromkeys(SAMPLES[0], "")])
    with pytest.raises(ValueError, match="no rows with values"):
        load(empty, "train", make_tokenizer())


def test_dpo_masks_what_both_sides_begin_with(source: str) -> None:
    tokenizer = make_tokenizer()
    load = module.get_plain_pairs_dpo_dataset
    rows = load(source, "train", tokenizer)
    assert sorted(rows.column_names) == sorted(
        ["chosen_ids", "chosen_loss_mask", "rejected_ids", "rejected_loss_mask"]
    )
    for row, sample in zip(rows, SAMPLES, strict=True):
        for side, column in module.SIDES.items():
            ids, mask = row[f"{side}_ids"], row[f"{side}_loss_mask"]
            assert mask == sorted(mask)
            assert len(mask) == len(ids)
            assert tokenizer.decode(ids).endswith(text_of(sample[column]) + "<eos>")
        shared = row["chosen_loss_mask"].count(0)
        assert row["rejected_loss_mask"].count(0) == shared
        assert row["chosen_ids"][:shared] == row["rejected_ids"][:shared]
        assert row["chosen_ids"][shared:][:1] != row["rejected_ids"][shared:][:1]


def test_dpo_leaves_out_pairs_that_do_not_differ(source: str, tmp_path: Path) -> None:
    load = module.get_plain_pairs_dpo_dataset
    chosen, rejected = module.SIDES["chosen"], module.SIDES["rejected"]
    same = {**SAMPLES[0], rejected: SAMPLES[0][chosen]}
    rows = load(write(tmp_path / "more", [*SAMPLES, same]), "train", make_tokenizer())
    assert len(rows) == len(SAMPLES)


def test_dpo_drops_pairs_with_a_side_that_is_too_long(source: str) -> None:
    load = module.get_plain_pairs_dpo_dataset
    assert len(load(source, "train", make_tokenizer(), max_length=1)) == 0


def test_rw_encodes_both_sides_up_to_the_end(source: str) -> None:
    tokenizer = make_tokenizer()
    load = module.get_plain_pairs_rw_dataset
    rows = load(source, "train", tokenizer)
    assert sorted(rows.column_names) == ["chosen_ids", "rejected_ids"]
    for row, sample in zip(rows, SAMPLES, strict=True):
        for side, column in module.SIDES.items():
            text = tokenizer.decode(row[f"{side}_ids"])
            before, reply, end = text.rpartition(text_of(sample[column]))
            assert (bool(reply), end) == (True, "<eos>")
            is_whole = isinstance(sample[column], str)
            assert not before if is_whole else before.endswith("<eos><assistant>")


def test_rw_drops_pairs_with_a_side_that_is_too_long(source: str) -> None:
    tokenizer = make_tokenizer()
    load = module.get_plain_pairs_rw_dataset
    lengths = [max(map(len, row.values())) for row in load(source, "train", tokenizer)]
    kept = load(source, "train", tokenizer, max_length=min(lengths))
    assert len(kept) == lengths.count(min(lengths))
