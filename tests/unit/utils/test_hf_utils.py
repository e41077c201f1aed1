from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoTokenizer, BatchEncoding, PreTrainedTokenizerFast

from areal.utils.character_tokenizer import (
    UnknownCharacterError,
    character_tokenizer,
    recording_tokenizer,
)
from areal.utils.hf_utils import (
    apply_chat_template,
    load_hf_or_local_file,
    load_hf_processor_and_tokenizer,
    load_hf_tokenizer,
)

CHARACTERS = "0123456789+-*/=() ?.\n"
MESSAGES = [{"role": "user", "content": "12+34="}]


class Answering:
    """Is a tokenizer whose chat template gives whatever the test says."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked: dict[str, Any] = {}

    def apply_chat_template(self, messages: Any, **kwargs: Any) -> Any:
        self.asked = kwargs
        return self.answer


@pytest.mark.parametrize(
    "answer",
    [
        [1, 2, 3],
        (1, 2, 3),
        [[1, 2, 3]],
        torch.tensor([1, 2, 3]),
        torch.tensor([[1, 2, 3]]),
        {"input_ids": [1, 2, 3], "attention_mask": [1, 1, 1]},
        BatchEncoding({"input_ids": [1, 2, 3]}),
        BatchEncoding({"input_ids": torch.tensor([[1, 2, 3]])}),
    ],
)
def test_chat_templates_give_plain_ids_whatever_the_version(answer: Any) -> None:
    ids = apply_chat_template(Answering(answer), MESSAGES)
    assert ids == [1, 2, 3]
    assert all(type(token) is int for token in ids)


def test_a_prompt_that_is_text_already_is_refused() -> None:
    with pytest.raises(TypeError, match="found text; rows with images are for VisionRLVRWorkflow"):
        apply_chat_template(Answering([1]), "<|user|>how many?")


def test_chat_templates_pass_options_on_and_give_text_if_asked() -> None:
    tokenizer = Answering("text")
    assert apply_chat_template(tokenizer, MESSAGES, tokenize=False, enable_thinking=True) == "text"
    assert tokenizer.asked == {"tokenize": False, "enable_thinking": True}
    assert apply_chat_template(Answering([]), MESSAGES) == []


def test_several_conversations_are_refused() -> None:
    with pytest.raises(ValueError, match="gave 2"):
        apply_chat_template(Answering([[1], [2]]), MESSAGES)


def test_the_character_tokenizer_has_one_token_per_character() -> None:
    tokenizer = character_tokenizer(CHARACTERS)
    assert len(tokenizer) == 3 + len(CHARACTERS)
    assert (tokenizer.pad_token_id, tokenizer.eos_token_id, tokenizer.unk_token_id) == (0, 1, 2)
    assert tokenizer.encode("10\n") == [4, 3, 3 + len(CHARACTERS) - 1]
    text = " (12 +3)\n= ?.  "
    assert len(tokenizer.encode(text)) == len(text)
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_unknown_characters_are_refused_by_name(tmp_path: Path) -> None:
    made = character_tokenizer(CHARACTERS)
    made.save_pretrained(str(tmp_path))
    for tokenizer in (made, load_hf_tokenizer(str(tmp_path)), copy.deepcopy(made)):
        with pytest.raises(UnknownCharacterError, match="no token for 'x' '€';"):
            tokenizer.encode("1x€2x")
        with pytest.raises(UnknownCharacterError, match="no token for 'é';"):
            tokenizer(["12", "é"], padding=True, return_tensors="pt")
        with pytest.raises(UnknownCharacterError, match="no token for 'a';"):
            apply_chat_template(tokenizer, [{"role": "user", "content": "1a"}])


def test_an_unknown_token_that_a_model_wrote_is_read_again() -> None:
    tokenizer = character_tokenizer(CHARACTERS)
    text = tokenizer.decode([4, 2, 5])
    assert text == "1<unk>2"
    assert tokenizer.encode(text) == [4, 2, 5]


def test_characters_are_recorded_before_the_vocabulary_is_known() -> None:
    tokenizer = recording_tokenizer()
    tokenizer.encode("ab")
    apply_chat_template(tokenizer, MESSAGES)
    assert tokenizer.recorded == set("ab12+34=")


def test_end_and_padding_are_told_apart_and_skipped_if_asked() -> None:
    tokenizer = character_tokenizer(CHARACTERS)
    assert tokenizer.decode([4, 1, 0]) == "1<eos><pad>"
    assert tokenizer.decode([4, 1, 0], skip_special_tokens=True) == "1"
    batch = tokenizer(["1", "12+3"], padding=True)
    assert batch["input_ids"] == [[4, 0, 0, 0], [4, 5, 13, 6]]
    assert batch["attention_mask"] == [[1, 0, 0, 0], [1, 1, 1, 1]]


def test_its_chat_template_concatenates_and_ends_answers() -> None:
    tokenizer = character_tokenizer(CHARACTERS)
    prompt = apply_chat_template(tokenizer, MESSAGES, add_generation_prompt=True)
    assert prompt == tokenizer.encode("12+34=")
    answered = [*MESSAGES, {"role": "assistant", "content": "46"}]
    assert apply_chat_template(tokenizer, answered, tokenize=False) == "12+34=46<eos>"
    own = character_tokenizer(CHARACTERS, chat_template="{{ messages[0]['content'] }}?")
    assert apply_chat_template(own, MESSAGES, tokenize=False) == "12+34=?"


def test_it_can_be_saved_and_loaded_by_auto_tokenizer(tmp_path: Path) -> None:
    tokenizer = character_tokenizer(CHARACTERS, model_max_length=512)
    tokenizer.save_pretrained(str(tmp_path))
    loaded = AutoTokenizer.from_pretrained(str(tmp_path))
    assert type(loaded) is PreTrainedTokenizerFast
    assert loaded.encode("12+34=\n") == tokenizer.encode("12+34=\n")
    assert loaded.decode(loaded.encode("12+34=x\n")) == "12+34=<unk>\n"
    assert (loaded.pad_token_id, loaded.eos_token_id) == (0, 1)
    assert loaded.model_max_length == 512
    assert apply_chat_template(loaded, MESSAGES) == apply_chat_template(tokenizer, MESSAGES)


def test_repeated_characters_count_once() -> None:
    assert len(character_tokenizer("112")) == 3 + 2


@pytest.mark.parametrize("characters", ["", [], ["ab"], ["a", ""]])
def test_what_is_no_character_is_refused(characters: Any) -> None:
    with pytest.raises(ValueError, match="single characters"):
        character_tokenizer(characters)


def test_a_tokenizer_without_padding_pads_with_end_of_sequence(tmp_path: Path) -> None:
    tokenizer = character_tokenizer(CHARACTERS)
    tokenizer.pad_token = None
    tokenizer.save_pretrained(str(tmp_path))
    loaded = load_hf_tokenizer(str(tmp_path))
    assert loaded.pad_token_id == loaded.eos_token_id == 1
    assert load_hf_tokenizer(str(tmp_path)) is loaded


def test_a_text_only_model_has_no_processor(tmp_path: Path) -> None:
    character_tokenizer(CHARACTERS).save_pretrained(str(tmp_path))
    processor, tokenizer = load_hf_processor_and_tokenizer(str(tmp_path))
    assert processor is None
    assert tokenizer.encode("1") == [4]


@pytest.mark.parametrize("path", ["rows.jsonl", "org/name", "s3://bucket/key", "gsm8k"])
def test_paths_that_name_no_hub_file_stay(path: str) -> None:
    assert load_hf_or_local_file(path) == path


@pytest.mark.parametrize(
    ("path", "repo_type", "revision"),
    [
        ("hf://org/repo/data/rows.jsonl", "model", "main"),
        ("hf-dataset://org/repo/data/rows.jsonl", "dataset", "main"),
        ("hf-dataset://org/repo@v2/data/rows.jsonl", "dataset", "v2"),
    ],
)
def test_hub_files_are_downloaded(
    path: str, repo_type: str, revision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {}

    def download(**kwargs: Any) -> str:
        asked.update(kwargs)
        return "cached"

    monkeypatch.setattr("huggingface_hub.hf_hub_download", download)
    assert load_hf_or_local_file(path) == "cached"
    assert asked == {
        "repo_id": "org/repo",
        "filename": "data/rows.jsonl",
        "repo_type": repo_type,
        "revision": revision,
    }


@pytest.mark.parametrize("path", ["hf://org/repo", "hf-dataset://org", "hf://org//file"])
def test_a_hub_path_without_a_file_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="names no hub file"):
        load_hf_or_local_file(path)
