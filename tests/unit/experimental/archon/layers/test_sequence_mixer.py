"""A mixer of transformers runs on each sequence of a packed row as if it were alone."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from areal.api.errors import ConfigError
from areal.experimental.models.archon.layers.packing import Packing
from areal.experimental.models.archon.layers.sequence_mixer import (
    SequenceMixer,
    refuse_split_mixers,
)

LENGTHS = (5, 0, 1, 12)


class Decay(nn.Module):
    """A running sum with a decay: as little as carries a state from token to token."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.rate = nn.Parameter(torch.full((dim,), 0.5))
        self.register_buffer("offset", torch.full((dim,), 0.25), persistent=False)

    def forward(self, hidden_states: Tensor) -> tuple[Tensor, None]:
        state, rows = torch.zeros_like(hidden_states[:, 0]), []
        for token in hidden_states.unbind(dim=1):
            state = self.rate * state + token + self.offset
            rows.append(state)
        return torch.stack(rows, dim=1), None


def packing(**options: object) -> Packing:
    lengths = torch.tensor([0, *LENGTHS])
    positions = torch.cat([torch.arange(n) for n in LENGTHS])
    return Packing.of(positions, lengths.cumsum(0), max(LENGTHS), **options)


def test_no_state_passes_from_one_sequence_to_the_next() -> None:
    mixer = SequenceMixer(Decay, 3)
    x = torch.randn(1, sum(LENGTHS), 3)
    alone = [mixer.inner(piece)[0] for piece in x.split([n for n in LENGTHS if n], dim=1)]

    # Attention in its place would get a table of rotations too.
    for context in ((packing(),), (object(), packing())):
        assert torch.equal(mixer(x, *context), torch.cat(alone, dim=1))
    assert not torch.allclose(mixer.inner(x)[0], torch.cat(alone, dim=1))


def test_rows_that_continue_a_cache_are_refused() -> None:
    mixer = SequenceMixer(Decay, 3)
    with pytest.raises(ConfigError, match="Decay keeps no state between calls"):
        mixer(torch.randn(1, sum(LENGTHS), 3), packing(plan=object()))


def test_buffers_get_their_values_after_building_on_meta() -> None:
    with torch.device("meta"):
        mixer = SequenceMixer(Decay, 3)
    mixer.to_empty(device="cpu")
    mixer.init_buffers()
    assert torch.equal(mixer.inner.get_buffer("offset"), torch.full((3,), 0.25))
    assert "inner.offset" not in mixer.state_dict()


class Scaled(nn.Module):
    """Reads a buffer that only its model gives it, as Falcon-H1's state space does."""

    def __init__(self, config: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))

    def forward(self, hidden_states: Tensor) -> Tensor:
        return self.weight * hidden_states * self.factors


def test_buffers_that_a_model_gives_are_computed_from_the_configuration() -> None:
    with torch.device("meta"):
        mixer = SequenceMixer(Scaled, 0.3, buffers={"factors": lambda c: torch.full((3,), c)})
    mixer.to_empty(device="cpu")
    mixer.init_buffers()
    nn.init.ones_(mixer.inner.weight)
    x = torch.randn(1, sum(LENGTHS), 3)
    assert torch.equal(mixer(x, packing()), x * 0.3)
    # As in transformers, it is of the type of the stream, and with it the output.
    low = mixer.to(torch.bfloat16)(x.bfloat16(), packing())
    assert torch.equal(low, x.bfloat16() * torch.tensor(0.3).bfloat16())
    assert list(mixer.state_dict()) == ["inner.weight"]


class Table(Scaled):
    """Keeps its factors in checkpoints, and asks for a mask."""

    def __init__(self, config: float) -> None:
        super().__init__(config)
        self.register_buffer("factors", torch.full((3,), config))

    def forward(self, hidden_states: Tensor, attention_mask: Tensor | None) -> Tensor:
        assert attention_mask is None
        return super().forward(hidden_states)


def test_tables_of_a_checkpoint_are_of_the_type_of_the_stream() -> None:
    """As MiniMax's decays are, which transformers reads from a checkpoint of that type."""
    mixer = SequenceMixer(Table, 0.3, unread=("attention_mask",))
    assert "inner.factors" in mixer.state_dict()
    x = torch.randn(1, sum(LENGTHS), 3)
    low = mixer.to(torch.bfloat16)
    low.init_buffers()
    assert low.inner.factors.dtype == torch.float32
    expected = x.bfloat16() * torch.tensor(0.3).bfloat16()
    assert torch.equal(low(x.bfloat16(), packing()), expected)


@pytest.mark.parametrize("axis", ["tp_enabled", "cp_enabled"])
def test_what_would_cut_a_sequence_or_a_token_is_refused(axis: str) -> None:
    dims = SimpleNamespace(**{"tp_enabled": False, "cp_enabled": False, axis: True})
    refuse_split_mixers(nn.Sequential(Decay(3)), dims)
    with pytest.raises(ConfigError, match="data, pipeline or expert parallelism"):
        refuse_split_mixers(nn.Sequential(SequenceMixer(Decay, 3)), dims)


def test_a_hybrid_whose_layers_all_attend_has_no_plan_for_tensor_parallelism() -> None:
    model = nn.Sequential(Decay(3))
    model.model_args = SimpleNamespace(mixer_config=object())
    refuse_split_mixers(model, SimpleNamespace(tp_enabled=False, cp_enabled=True))
    with pytest.raises(ConfigError, match="no plan for tensor parallelism"):
        refuse_split_mixers(model, SimpleNamespace(tp_enabled=True, cp_enabled=False))
