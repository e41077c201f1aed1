from __future__ import annotations

from pathlib import Path

import pytest

from areal.api.cli_args import GenerationHyperparameters
from areal.api.errors import ConfigError
from areal.trainer.generate import generate
from tests.fakes import tiny_tokenizer
from tests.tiny_models import tiny_model


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    tokenizer = tiny_tokenizer("0123456789+=")
    tiny_model(vocab_size=len(tokenizer)).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    return str(tmp_path)


def test_an_answer_ends_where_the_model_ends_it(checkpoint: str) -> None:
    settings = GenerationHyperparameters(
        n_samples=8, max_new_tokens=100, temperature=5.0, skip_special_tokens=False, seed=1
    )
    tokenizer = tiny_tokenizer("0123456789+=")
    enders = (tokenizer.eos_token, tokenizer.pad_token)
    for answer in generate(checkpoint, "1+2=", settings, is_plain=True):
        assert sum(answer.count(ender) for ender in enders) == 1
        assert answer.endswith(enders)


def test_an_empty_prompt_is_refused(checkpoint: str) -> None:
    with pytest.raises(ConfigError, match="the prompt is empty"):
        generate(checkpoint, "", GenerationHyperparameters(max_new_tokens=2), is_plain=True)
