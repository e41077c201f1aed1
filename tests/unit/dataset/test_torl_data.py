from __future__ import annotations

from pathlib import Path

import datasets
import pytest

from areal.api.errors import DatasetError
from areal.dataset import get_custom_dataset
from areal.dataset.torl_data import get_torl_data_rl_dataset, get_torl_data_sft_dataset
from areal.reward.math_verify import math_verify_reward_fn
from tests.fakes import tiny_tokenizer

PROMPT = [{"role": "system", "content": "Use code."}, {"role": "user", "content": "Half of 1?"}]


def write(folder: Path, grading: object) -> str:
    row = {
        "data_source": "made up",
        "prompt": PROMPT,
        "ability": "math",
        "reward_model": grading,
        "extra_info": {"index": 7},
    }
    datasets.Dataset.from_list([row]).to_parquet(str(folder / "train.parquet"))
    return str(folder)


def test_rows_have_messages_and_a_boxed_answer(tmp_path: Path) -> None:
    path = write(tmp_path, {"style": "rule", "ground_truth": r"\frac{1}{2}"})
    (row,) = get_torl_data_rl_dataset(path, "train", tiny_tokenizer(), max_length=100)
    assert row == {
        "messages": PROMPT,
        "answer": r"\boxed{\frac{1}{2}}",
        "data_source": "made up",
        "ability": "math",
        "extra_info": {"index": 7},
    }
    assert math_verify_reward_fn(None, r"\boxed{0.5}", None, None, **row) == 1.0


@pytest.mark.parametrize("grading", [{"style": "rule"}, "0.5"])
def test_a_row_without_a_gold_answer_is_refused(tmp_path: Path, grading: object) -> None:
    with pytest.raises(DatasetError, match="no 'ground_truth'"):
        get_torl_data_rl_dataset(write(tmp_path, grading), "train")


def test_without_data_it_says_where_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AREAL_TORL_DATA_DIR", raising=False)
    with pytest.raises(DatasetError, match=r"GAIR-NLP/ToRL.*AREAL_TORL_DATA_DIR"):
        get_torl_data_rl_dataset("torl_data", "train")


def test_there_is_nothing_to_fine_tune_on() -> None:
    with pytest.raises(NotImplementedError, match="answers without solutions"):
        get_torl_data_sft_dataset("torl_data", "train", tiny_tokenizer(), max_length=100)
    with pytest.raises(DatasetError, match="type to rl"):  # which commands print without a trace
        get_custom_dataset("train", path="torl_data", type="sft", tokenizer=tiny_tokenizer())
