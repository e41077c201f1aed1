"""Tests of ``my_rl.dataset.turns``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from datasets import Dataset
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

import my_rl.dataset.turns as module

SAMPLES: list[dict[str, Any]] = [
    {
        "chat": [
            {"role": "user", "content": "2+3?"},
            {"role": "assistant", "content": "5"},
        ],
    },
    {
        "chat": [
            {"role": "user", "content": "How much is 12+30?"},
            {"role": "assistant", "content": "42"},
        ],
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
@pytest.mark.parametrize("kind", ["rl", "sft"])
def test_every_form_gives_the_same_rows(kind: str, form: str, source: str, tmp_path: Path) -> None:
    load = getattr(module, f"get_turns_{kind}_dataset")
    folder = write(tmp_path / form, SAMPLES, form)
    from_folder = load(folder, "train", make_tokenizer())
    from_file = load(f"{folder}/train.{form}", None, make_tokenizer())
    assert list(from_folder) == list(load(source, "train", make_tokenizer()))
    assert list(from_file) == list(from_folder)


@pytest.mark.parametrize("kind", ["rl", "sft"])
def test_a_source_without_columns_or_values_is_refused(
    kind: str, source: str, tmp_path: Path
) -> None:
    load = getattr(module, f"get_turns_{kind}_dataset")
    other = write(tmp_path / "other", [{"something": "else"}])
    with pytest.raises(ValueError, match="lacks the columns"):
        load(other, "train", make_tokenizer())
    empty = write(tmp_path / "empty", [dict.fromkeys(SAMPLES[0], "")])
    with pytest.raises(ValueError, match="no rows with values"):
        load(empty, "train", make_tokenizer())


def test_rl_has_messages_and_answer(source: str) -> None:
    load = module.get_turns_rl_dataset
    rows = load(source, "train", make_tokenizer())
    assert sorted(rows.column_names) == ["answer", "messages"]
    for row, sample in zip(rows, SAMPLES, strict=True):
        assert [set(message) for message in row["messages"]] == [{"role", "content"}] * len(
            row["messages"]
        )
        assert row["answer"] == text_of(sample[module.ANSWER_COLUMN])
        assert row["messages"] == sample[module.QUESTION_COLUMN][:-1]


def test_rl_drops_prompts_that_are_too_long(source: str) -> None:
    load = module.get_turns_rl_dataset
    assert len(load(source, "train", make_tokenizer(), max_length=1_000_000)) == len(SAMPLES)
    with_room_for_none = load(source, "train", make_tokenizer(), max_length=1)
    assert len(with_room_for_none) == 0


def test_sft_learns_the_answer_and_nothing_else(source: str) -> None:
    tokenizer = make_tokenizer()
    load = module.get_turns_sft_dataset
    rows = load(source, "train", tokenizer)
    assert rows.column_names == ["input_ids", "loss_mask"]
    for row, sample in zip(rows, SAMPLES, strict=True):
        learnt = [i for i, keep in zip(row["input_ids"], row["loss_mask"], strict=True) if keep]
        prompt = tokenizer.decode(row["input_ids"][: -len(learnt)])
        assert tokenizer.decode(learnt) == text_of(sample[module.ANSWER_COLUMN]) + "<eos>"
        assert prompt.endswith(text_of(sample[module.QUESTION_COLUMN][:-1]) + "<eos><assistant>")


def test_sft_drops_rows_that_are_too_long(source: str) -> None:
    tokenizer = make_tokenizer()
    load = module.get_turns_sft_dataset
    lengths = sorted(len(row["input_ids"]) for row in load(source, "train", tokenizer))
    kept = load(source, "train", tokenizer, max_length=lengths[0])
    assert len(kept) == lengths.count(lengths[0])
