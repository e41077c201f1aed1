from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import datasets
import pytest

from areal.api.errors import DatasetError, UnknownNameError
from areal.dataset import DATASETS, VALID_DATASETS, arithmetic, get_custom_dataset, get_loader
from areal.dataset.gsm8k import get_gsm8k_rl_dataset
from areal.dataset.hh_rlhf import get_hh_rlhf_rw_dataset
from tests.fakes import tiny_tokenizer


@dataclass
class Config:
    path: str
    type: str = "rl"
    split: str = "train"
    max_length: int | None = None
    dataset_kwargs: dict[str, Any] = field(default_factory=dict)


@pytest.fixture
def user_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Writes a package as `scaffold new` would and puts it on the path."""
    folder = tmp_path / "my_words_rl" / "dataset"
    folder.mkdir(parents=True)
    (tmp_path / "my_words_rl" / "__init__.py").touch()
    (folder / "__init__.py").touch()
    (folder / "words.py").write_text(
        "def get_words_rl_dataset(path, split, tokenizer=None, max_length=None, *, count=2):\n"
        "    return [{'messages': [], 'answer': f'{path} {split} {count} {max_length}'}] * count\n"
        "def get_words_sft_dataset(path, split, tokenizer, max_length=None, **options):\n"
        "    return [{'input_ids': [1], 'loss_mask': [1], **options}]\n",
        encoding="utf-8",
    )
    (folder / "broken.py").write_text("import no_such_module_at_all\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "my_words_rl.dataset.words"
    for name in [name for name in sys.modules if name.startswith("my_words_rl")]:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("path", "name", "type", "loader"),
    [
        ("gsm8k", None, "rl", get_gsm8k_rl_dataset),
        ("openai/gsm8k", None, "rl", get_gsm8k_rl_dataset),
        ("openai/GSM8K", None, "rl", get_gsm8k_rl_dataset),
        ("/home/user/gsm8k", None, "rl", get_gsm8k_rl_dataset),
        ("/home/user/gsm8k/", None, "rl", get_gsm8k_rl_dataset),
        ("/home/user/gsm8k.jsonl", None, "rl", get_gsm8k_rl_dataset),
        ("/home/user/gsm8k/train.jsonl", None, "rl", get_gsm8k_rl_dataset),
        ("/home/user/gsm8k/train.parquet", None, "rl", get_gsm8k_rl_dataset),
        ("Anthropic/hh-rlhf", None, "rw", get_hh_rlhf_rw_dataset),
        ("hh_rlhf", None, "rw", get_hh_rlhf_rw_dataset),
        ("/home/user/my-numbers", "gsm8k", "rl", get_gsm8k_rl_dataset),
        ("/home/user/gsm8k", "hh-rlhf", "rw", get_hh_rlhf_rw_dataset),
        ("arithmetic", None, "rl", arithmetic.get_arithmetic_rl_dataset),
        ("areal.dataset.gsm8k", None, "rl", get_gsm8k_rl_dataset),
        ("areal.dataset.gsm8k.get_gsm8k_rl_dataset", None, "rl", get_gsm8k_rl_dataset),
        ("areal.dataset.gsm8k:get_gsm8k_rl_dataset", None, "rl", get_gsm8k_rl_dataset),
    ],
)
def test_a_path_or_a_name_selects_the_loader(
    path: str, name: str | None, type: str, loader: object
) -> None:
    assert get_loader(path, type, name) is loader


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("gms8k", r"unknown dataset path 'gms8k'; did you mean 'gsm8k'\? known: arithmetic"),
        ("openai/gsm8k-hard", "unknown dataset path 'openai/gsm8k-hard'"),
        ("/home/user/my_gsm8k_copy", "set dataset_kwargs.name, or give a dotted loader path"),
        ("no_such_package.words", "cannot import dataset 'no_such_package.words'"),
        ("areal.dataset.gsm8k.get_nothing", "cannot import dataset"),
        ("areal.dataset.gsm9k:get_nothing", "cannot import dataset"),
    ],
)
def test_an_unknown_dataset_is_refused(path: str, message: str) -> None:
    with pytest.raises(UnknownNameError, match=message):
        get_loader(path, "rl")


def test_a_module_that_fails_to_import_says_why(user_package: str) -> None:
    with pytest.raises(UnknownNameError, match="no_such_module_at_all"):
        get_loader(
            user_package.replace("words", "broken").replace("my_broken_rl", "my_words_rl"), "rl"
        )


@pytest.mark.parametrize(
    ("path", "type", "message"),
    [
        ("gsm8k", "dpo", "dataset 'gsm8k' has no type 'dpo'; it has: rl, sft"),
        ("hh-rlhf", "rl", "dataset 'hh_rlhf' has no type 'rl'; it has: dpo, rw"),
        ("areal.dataset.gsm8k.get_gsm8k_rl_dataset", "sft", "loads type 'rl', but type 'sft'"),
        ("areal.dataset.rows", "rl", "areal.dataset.rows defines no loader"),
    ],
)
def test_a_type_that_is_not_there_lists_those_that_are(path: str, type: str, message: str) -> None:
    with pytest.raises(DatasetError, match=message):
        get_loader(path, type)


def test_the_configuration_and_the_options_reach_the_loader() -> None:
    config = Config("arithmetic", dataset_kwargs={"size": 7, "operators": "-"})
    rows = get_custom_dataset(dataset_config=config)
    assert len(rows) == 7
    assert "-" in rows[0]["messages"][0]["content"]
    assert len(get_custom_dataset("test", config, size=3)) == 3, "arguments win over the file"
    assert rows[0] not in list(get_custom_dataset("test", config, size=50))


def test_works_without_a_configuration() -> None:
    rows = get_custom_dataset("train", tokenizer=tiny_tokenizer(), path="arithmetic", size=5)
    assert rows.column_names == ["input_ids", "loss_mask"], "sft is the default type"


def test_max_length_is_passed_on() -> None:
    config = Config("arithmetic", max_length=4, dataset_kwargs={"size": 50})
    rows = get_custom_dataset(dataset_config=config, tokenizer=tiny_tokenizer())
    assert 0 < len(rows) < 50


def test_a_dotted_loader_gets_its_options(user_package: str) -> None:
    by_module = Config(user_package, dataset_kwargs={"count": 3}, max_length=9)
    by_loader = Config(f"{user_package}.get_words_rl_dataset", split="test")
    assert [row["answer"] for row in get_custom_dataset(dataset_config=by_module)] == [
        f"{user_package} train 3 9"
    ] * 3
    assert len(get_custom_dataset(dataset_config=by_loader)) == 2
    by_name = Config("/home/user/words", dataset_kwargs={"name": user_package})
    assert (
        get_custom_dataset(dataset_config=by_name)[0]["answer"] == "/home/user/words train 2 None"
    )


def test_a_loader_that_takes_any_option_gets_any(user_package: str) -> None:
    config = Config(user_package, type="sft", dataset_kwargs={"colour": "blue"})
    (row,) = get_custom_dataset(dataset_config=config, tokenizer=tiny_tokenizer())
    assert row["colour"] == "blue"


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            Config("arithmetic", dataset_kwargs={"sizes": 5}),
            "no option 'sizes'; did you mean 'size'",
        ),
        (Config("gsm8k", dataset_kwargs={"seed": 5}), "takes no option 'seed'; it has no options"),
        (Config("gsm8k", type="sft"), "get_gsm8k_sft_dataset needs a tokenizer"),
        (Config("geometry3k"), "get_geometry3k_rl_dataset needs a processor"),
        (
            Config("tests.tiny_runs.get_digits_sft_dataset", type="sft", max_length=9),
            "get_digits_sft_dataset takes no max_length",
        ),
        (Config(""), "no dataset is named"),
    ],
)
def test_what_a_loader_cannot_take_is_refused(config: Config, message: str) -> None:
    with pytest.raises(DatasetError, match=message):
        get_custom_dataset(dataset_config=config)


def test_a_saved_dataset_is_taken_as_it_is(tmp_path: Path) -> None:
    rows = [{"messages": "ready", "answer": "made"}]
    datasets.Dataset.from_list(rows).save_to_disk(str(tmp_path / "anything"))
    assert list(get_custom_dataset("train", Config(str(tmp_path / "anything")))) == rows
    for options in ({"max_length": 5}, {"dataset_kwargs": {"size": 5}}):
        with pytest.raises(DatasetError, match=r"(max_length|size) has no effect"):
            get_custom_dataset("train", Config(str(tmp_path / "anything"), **options))


def test_a_data_file_in_a_folder_named_after_its_dataset(tmp_path: Path) -> None:
    file = tmp_path / "GSM8K" / "first.jsonl"
    file.parent.mkdir()
    file.write_text(json.dumps({"question": "1+1?", "answer": "#### 2"}) + "\n", encoding="utf-8")
    assert get_custom_dataset(dataset_config=Config(str(file)))[0]["answer"] == "#### 2"


def test_valid_datasets_derive_from_the_table() -> None:
    assert list(DATASETS) == VALID_DATASETS
