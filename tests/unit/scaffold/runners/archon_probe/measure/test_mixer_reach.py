"""What mixes tokens without attention is told from what attends and from what mixes nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

RUNNERS = Path(__file__).parents[6] / "scaffold" / "runners"


@pytest.fixture(scope="module", autouse=True)
def _runners_on_path() -> Any:
    sys.path.insert(0, str(RUNNERS))
    yield
    sys.path.remove(str(RUNNERS))


class Part(nn.Module):
    """Does what a function does to [1, T, D]."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, hidden: Tensor) -> Tensor:
        return self.function(hidden)


class Recurrence(Part):
    """Is a part of another class."""


def attend(x: Tensor) -> Tensor:
    scores = x @ x.transpose(1, 2)
    later = torch.ones_like(scores, dtype=torch.bool).triu(1)
    return scores.masked_fill(later, -torch.inf).softmax(-1) @ x


def shift(x: Tensor) -> Tensor:
    """Is a convolution over three tokens."""
    padded = nn.functional.pad(x, (0, 0, 2, 0))
    return padded[:, 2:] + padded[:, 1:-1] + padded[:, :-2]


def model_of(*parts: nn.Module) -> nn.Module:
    class Layer(nn.Module):
        def __init__(self, mixer: nn.Module) -> None:
            super().__init__()
            self.mixer, self.mlp = mixer, Part(torch.tanh)

        def forward(self, hidden: Tensor) -> Tensor:
            hidden = hidden + self.mixer(hidden)
            return hidden + self.mlp(hidden)

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.embedding = nn.Embedding(40, 6)
            self.layers = nn.ModuleList(map(Layer, parts))

        def forward(self, input_ids: Tensor, use_cache: bool) -> SimpleNamespace:
            hidden = self.embedding(input_ids)
            for layer in self.layers:
                hidden = layer(hidden)
            return SimpleNamespace(logits=hidden)

    return Model()


def test_mixers_are_told_from_attention_and_by_their_reach() -> None:
    from archon_probe.measure.mixer_reach import LENGTH, Mixer, token_mixers

    model = model_of(Part(attend), Recurrence(lambda x: x.cumsum(1)), Part(shift), Part(torch.sin))
    assert token_mixers(model, 40) == [
        Mixer("layers.1.mixer", "Recurrence", LENGTH - 1),
        Mixer("layers.2.mixer", "Part", 2),
    ]


def test_a_model_with_a_state_is_described_by_what_it_does() -> None:
    from archon_probe.measure.mixer_reach import describe_mixers

    assert describe_mixers(model_of(Part(attend)), 40) == ""
    found = describe_mixers(model_of(Recurrence(lambda x: x.cumsum(1))), 40)
    assert found == "Recurrence (layers.0.mixer): a token reaches 22 of 22 later ones"


@pytest.mark.slow
def test_a_hybrid_that_cannot_be_written_is_refused_by_its_layers() -> None:
    from archon_probe.__main__ import derive_model, run

    request = {"model_type": "zamba2", "config": None, "checkpoint": None}
    error = run(derive_model, request)["error"]
    assert error["code"] == "model_unsuited"
    assert "Zamba2MambaDecoderLayer" in error["message"]
