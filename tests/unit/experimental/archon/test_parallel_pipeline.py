"""Which stage has which modules, and how rows become the inputs of a step."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from areal.api.errors import ConfigError
from areal.experimental.models.archon.pipeline_parallel import (
    build_pipeline_schedule,
    generate_llm_fqn_per_model_part,
    model_part,
    stack_rows,
)


def test_every_module_is_on_one_stage_and_the_ends_have_fewer_layers():
    assert generate_llm_fqn_per_model_part(2, 4) == [
        ["tok_embeddings", "layers.0", "layers.1"],
        ["layers.2", "layers.3", "norm", "output"],
    ]
    parts = generate_llm_fqn_per_model_part(4, 10, is_critic=True)
    assert [len(part) for part in parts] == [3, 3, 3, 4]
    assert parts[-1][-2:] == ["norm", "score"]
    assert [name for part in parts for name in part if "layers" in name] == [
        f"layers.{layer}" for layer in range(10)
    ]


def test_one_stage_has_everything():
    assert generate_llm_fqn_per_model_part(1, 2) == [
        ["tok_embeddings", "layers.0", "layers.1", "norm", "output"]
    ]


def test_a_stage_may_have_an_end_alone():
    parts = generate_llm_fqn_per_model_part(4, 2)
    assert parts == [["tok_embeddings"], ["layers.0"], ["layers.1"], ["norm", "output"]]


@pytest.mark.parametrize(("stages", "layers", "first"), [(8, 4, 1), (4, 4, 3), (3, 2, 0)])
def test_a_stage_without_work_is_refused(stages, layers, first):
    with pytest.raises(ConfigError, match=f"{layers} layers over {stages} pipeline stages"):
        generate_llm_fqn_per_model_part(stages, layers, first, 3 if stages == 3 else 1)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok_embeddings = nn.Embedding(5, 4)
        self.embedding_norm = nn.LayerNorm(4)
        self.rope = nn.Identity()
        self.layers = nn.ModuleDict({str(i): nn.Linear(4, 4) for i in range(3)})
        self.norm = nn.LayerNorm(4)
        self.head_dense = nn.Linear(4, 4)
        self.output = nn.Linear(4, 5)


def test_what_belongs_to_an_end_goes_with_it_and_the_whole_model_stays():
    model = Model()
    first = model_part(model, ["tok_embeddings", "layers.0"])
    last = model_part(model, ["layers.1", "layers.2", "norm", "output"])
    assert [name for name, m in first.named_children() if m is not None] == [
        *("tok_embeddings", "embedding_norm", "rope", "layers"),
    ]
    assert [name for name, m in last.named_children() if m is not None] == [
        *("rope", "layers", "norm", "head_dense", "output"),
    ]
    assert first.output is None
    assert last.tok_embeddings is None
    assert last.embedding_norm is None
    assert list(last.layers) == ["1", "2"]
    assert last.layers["1"] is model.layers["1"]
    assert len(model.layers) == 3
    assert model.output is not None


def test_a_head_that_is_the_embedding_is_a_copy_where_the_embedding_is_not():
    model = Model()
    model.output.weight = model.tok_embeddings.weight
    last = model_part(model, ["layers.2", "norm", "output"])
    assert last.output.weight is not model.tok_embeddings.weight
    assert torch.equal(last.output.weight, model.tok_embeddings.weight)
    assert model.output.weight is model.tok_embeddings.weight
    both = model_part(model, ["tok_embeddings", "layers.0", "norm", "output"])
    assert both.output.weight is both.tok_embeddings.weight


def test_an_unknown_schedule_is_refused_with_those_that_exist():
    with pytest.raises(ConfigError, match=r"Unknown schedule name '2F2B'.*Interleaved1F1B"):
        build_pipeline_schedule([], "2F2B", 2)
    with pytest.raises(ConfigError, match="1F1B takes one stage per process, got 2"):
        build_pipeline_schedule([SimpleNamespace(), SimpleNamespace()], "1F1B", 2)


def row(*lengths):
    total = sum(lengths)
    return {
        "tokens": torch.arange(total).unsqueeze(0),
        "positions": torch.cat([torch.arange(n) for n in lengths]).unsqueeze(0),
        "cu_seqlens": torch.tensor([0, *torch.tensor(lengths).cumsum(0).tolist()]),
        "max_seqlen": max(lengths),
    }


def test_rows_with_fewer_sequences_end_in_empty_ones():
    inputs = stack_rows([row(3, 5), row(8), row(1, 2, 5)])
    assert inputs["cu_seqlens"].tolist() == [[0, 3, 8, 8], [0, 8, 8, 8], [0, 1, 3, 8]]
    assert inputs["max_seqlen"].tolist() == [5, 8, 5]
    assert inputs["tokens"].shape == inputs["positions"].shape == (3, 8)


def test_rows_of_different_sizes_are_refused():
    with pytest.raises(ConfigError, match=r"the rows have \[8, 9\] tokens"):
        stack_rows([row(8), row(9)])
