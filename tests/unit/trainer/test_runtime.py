from __future__ import annotations

import pytest
import torch

from areal.api.cli_args import ModelSpecConfig
from areal.engine.loading.huggingface import make_model
from areal.engine.model.shared_weights import SharedWeights
from areal.trainer.runtime import limit_threads
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
