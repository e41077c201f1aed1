from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from areal.api.cli_args import ModelSpecConfig, SFTConfig, load_expr_config
from areal.api.errors import ArealError, ConfigError
from areal.engine.loading.huggingface import make_model
from areal.engine.model.shared_weights import SharedWeights
from areal.trainer.runtime import limit_threads, load_rows, make_tokenizer
from areal.trainer.sft import SFTTrainer
from tests.fakes import tiny_tokenizer


@pytest.mark.parametrize(("setting", "expected"), [(None, 1), ("2", 2)])
def test_a_small_model_runs_on_one_thread_unless_told(
    monkeypatch: pytest.MonkeyPatch, setting: str | None, expected: int
) -> None:
    spec = ModelSpecConfig(hidden_size=16, intermediate_size=16, num_hidden_layers=1)
    model = make_model(spec, tiny_tokenizer(), torch.float32, torch.device("cpu"))
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if setting is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", setting)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        limit_threads(SharedWeights(model))
        assert torch.get_num_threads() == expected
    finally:
        torch.set_num_threads(before)


def sft_config(folder: Path, rows: str, *overrides: str) -> Any:
    (folder / "rows.jsonl").write_text(rows)
    (folder / "sft.yaml").write_text(
        "experiment_name: letters\ntrial_name: t\nrun: {algorithm: sft, model: {}}\n"
        f"train_dataset: {{path: {folder / 'rows.jsonl'}, type: sft, batch_size: 1, "
        "dataset_kwargs: {name: gsm8k}}\n"
    )
    argv = ["--config", str(folder / "sft.yaml"), *overrides]
    return load_expr_config(argv, SFTConfig)[0]


ROWS = '{"question": "day?", "answer": "2014-07-02"}\n'


def test_the_characters_of_a_model_from_scratch_are_those_of_its_rows(tmp_path: Path) -> None:
    config = sft_config(tmp_path, ROWS)
    tokenizer = make_tokenizer(config, config.actor)
    assert config.run.model.characters == "-01247?ady"
    row = load_rows(config.train_dataset, tokenizer)[0]
    assert tokenizer.decode(row["input_ids"]) == "day?2014-07-02<eos>"
    assert tokenizer.unk_token_id not in row["input_ids"]


def test_rows_that_a_script_gives_have_their_characters_too(tmp_path: Path) -> None:
    config = sft_config(tmp_path, ROWS)
    make_tokenizer(config, config.actor, [{"question": "pq"}], [{"parts": [{"text": "r"}]}])
    assert config.run.model.characters == "pqr"


class Endless(torch.utils.data.Dataset[dict[str, Any]]):
    """Three rows that are computed from their number, so that no index is out of range."""

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> dict[str, Any]:
        if index > 9:
            raise AssertionError("rows are read beyond the last one")
        return {"input_ids": [index, 1], "loss_mask": [0, 1], "text": "abc"[index % 3]}


def test_rows_that_are_computed_from_any_number_end_at_their_count(tmp_path: Path) -> None:
    config = sft_config(tmp_path, ROWS)
    make_tokenizer(config, config.actor, Endless())
    assert config.run.model.characters == "abc"
    config = sft_config(tmp_path, ROWS, "actor.optimizer.lr=0.1", "total_train_epochs=1")
    with SFTTrainer(config, train_dataset=Endless()) as trainer:
        assert len(trainer.train_dataset) == 3


def test_a_character_that_a_chosen_alphabet_lacks_is_named(tmp_path: Path) -> None:
    config = sft_config(tmp_path, ROWS, "run.model.characters=day?0123")
    tokenizer = make_tokenizer(config, config.actor)
    with pytest.raises(ArealError, match="no token for '-' '4' '7';"):
        load_rows(config.train_dataset, tokenizer)[0]


def test_rows_without_text_need_named_characters(tmp_path: Path) -> None:
    config = sft_config(tmp_path, ROWS)
    with pytest.raises(ConfigError, match=r"run\.model\.characters"):
        make_tokenizer(config, config.actor, [{"input_ids": [1]}])
