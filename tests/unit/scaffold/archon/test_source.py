"""What a person names as a model: told apart by its form, and read as text alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scaffold.archon.source import read_source, source_of
from scaffold.errors import RequestError


def write(folder: Path, data: object, name: str = "config.json") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(data if isinstance(data, str) else json.dumps(data))
    return folder / name


@pytest.mark.parametrize("typed", ["llama", "gpt-sw3", "qwen3_5", "phi3.5"])
def test_a_word_is_a_model_type(tmp_path: Path, typed: str) -> None:
    found = read_source(typed, tmp_path)
    assert (found.model_type, found.config, found.checkpoint) == (typed, None, None)


@pytest.mark.parametrize("typed", ["ckpt", "./ckpt", "ckpt/config.json", "ckpt/"])
def test_a_folder_and_its_config_are_the_same(tmp_path: Path, typed: str) -> None:
    write(tmp_path / "ckpt", {"model_type": "llama", "hidden_size": 8})
    found = read_source(typed, tmp_path)
    assert (found.model_type, found.checkpoint) == ("llama", tmp_path / "ckpt")
    assert found.config == {"model_type": "llama", "hidden_size": 8}


def test_a_config_may_have_any_name(tmp_path: Path) -> None:
    write(tmp_path, {"model_type": "llama"}, "mine.json")
    assert read_source("mine.json", tmp_path).model_type == "llama"


def test_a_folder_of_the_same_name_without_a_config_is_no_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "llama").mkdir()
    assert read_source("llama", tmp_path).config is None


@pytest.mark.parametrize(
    ("typed", "code", "message"),
    [
        ("nope/config.json", "config_invalid", "there is no file or folder"),
        ("empty/", "config_invalid", "holds no config.json"),
        ("Qwen/Qwen3-8B", "config_invalid", "there is no file or folder"),
        ("broken/", "config_invalid", "cannot be read"),
        ("a_list/", "config_invalid", "no JSON object"),
        ("untyped/", "config_invalid", "names no model_type"),
        ("numbered/", "config_invalid", "names no model_type, but 3"),
        ("what is this", "model_unknown", "is not a model_type"),
        ("-x", "model_unknown", "is not a model_type"),
    ],
)
def test_what_names_no_model_is_refused(
    tmp_path: Path, typed: str, code: str, message: str
) -> None:
    (tmp_path / "empty").mkdir()
    write(tmp_path / "broken", '{"model_type": "llama",')
    write(tmp_path / "a_list", [1])
    write(tmp_path / "untyped", {})
    write(tmp_path / "numbered", {"model_type": 3})
    with pytest.raises(RequestError) as refusal:
        read_source(typed, tmp_path)
    assert refusal.value.code == code
    assert message in refusal.value.message
    assert refusal.value.hint


def test_a_name_on_the_hub_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(RequestError) as refusal:
        read_source("Qwen/Qwen3-8B", tmp_path)
    assert "hf download Qwen/Qwen3-8B" in refusal.value.hint


def test_answers_give_back_the_source(tmp_path: Path) -> None:
    write(tmp_path, {"model_type": "llama", "b": 1, "a": [None]})
    found = read_source("./config.json", tmp_path)
    again = source_of({"model_type": "llama", "config": found.config_text})
    assert again.config == found.config
    assert again.checkpoint is None
    assert source_of({"model_type": "llama", "config": ""}).config is None
