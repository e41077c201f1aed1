"""Encoders are measured as what scores a sequence; what no probe knows is refused at once."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from archon_probe.design.derive import derive, hub_rules
from archon_probe.errors import ProbeError
from archon_probe.measure.model import observe
from archon_probe.measure.model_source import model_types, resolve
from archon_probe.measure.random_weights import names_beside, random_model
from archon_probe.measure.tasks import head_width, is_encoder, token_logits
from archon_probe.measure.tiny import tiny_config
from archon_probe.measure.variations import _flips
from archon_probe.proof.reference import make_batch, run_alone


def observed(model_type: str, **fields: Any) -> Any:
    small = tiny_config(model_type)
    for name, value in fields.items():
        setattr(small, name, value)
    return observe(random_model(small))


@pytest.mark.parametrize(
    ("model_type", "expected"),
    [("bert", True), ("modernbert", True), ("deberta-v2", True), ("xlm-roberta", True),
     ("llama", False), ("gpt2", False), ("bart", False), ("modernbert-decoder", False)],
)  # fmt: skip
def test_an_encoder_is_told_by_the_tasks_of_transformers(model_type: str, expected: bool) -> None:
    assert is_encoder(model_type) is expected
    assert not expected or model_type in model_types()


def test_one_score_counts_for_every_token() -> None:
    model = random_model(tiny_config("bert"))
    assert head_width(model.config) == 1
    tokens = torch.arange(5, 12)[None]
    found = token_logits(model, tokens)
    assert torch.equal(found, model(input_ids=tokens).logits.expand(7, 1))
    batch = make_batch(model.config.vocab_size, width=1)
    run = run_alone(model, batch)
    assert run.logits.shape == (61, 1)
    # The loss weighs the score of a sequence by the sum over its tokens.
    weights = torch.stack([batch.cotangent[a:b].sum() for a, b in batch.spans])
    assert float(run.gradients["classifier.bias"]) == pytest.approx(float(weights.sum()), rel=1e-4)


def test_bert_norms_sums_and_projects_beside_its_attention() -> None:
    found = observed("bert")
    layer = found.layers[0]
    assert [step.get("call") for step in layer["steps"]] == [
        "attention", None, "ffn_norm", "feed_forward", None, "output_norm",
    ]  # fmt: skip
    assert layer["steps"][2]["in"] == "h0"
    attention = layer["modules"]["attention"]
    assert (attention["causal"], attention["window"], attention["o_bias"]) == (False, None, True)
    assert found.tensors["layers.0.attention.wo.weight"].shape == (64, 64)
    assert found.embedding["token_types"] == {"when": True, "rows": 2}
    assert found.embedding["positions"] == {
        "when": True, "kind": "learned", "offset": 0, "rows": 64,
    }  # fmt: skip
    assert (found.head["pooling"], found.head["bias"]) == ("cls", True)
    assert found.head["transform"] == {
        "when": True, "activation": "tanh", "bias": True, "norm": {"when": False},
    }  # fmt: skip


def test_roberta_counts_positions_beside_padding() -> None:
    positions = observed("roberta").embedding["positions"]
    assert positions == {"when": True, "kind": "beside_padding", "rows": 64}


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_modernbert_sees_a_window_on_both_sides(pooling: str) -> None:
    found = observed("modernbert", classifier_pooling=pooling)
    seen = [layer["modules"]["attention"] for layer in found.layers]
    # Four keys on each side, and the token itself.
    assert [module["window"] for module in seen] == [None, 5, 5, None]
    assert not any(module["causal"] for module in seen)
    assert found.head["pooling"] == pooling
    assert found.head["transform"]["norm"]["kind"] == "layer"


def test_electra_maps_narrower_embeddings_to_the_stream() -> None:
    embedding = observed("electra").embedding
    assert (embedding["tokens_dim"], embedding["dim"], embedding["norm"]["dim"]) == (48, 64, 48)
    assert embedding["projection"] == {"when": True, "bias": True}
    as_wide = observed("electra", embedding_size=64).embedding
    assert (as_wide["tokens_dim"], "projection" in as_wide) == (64, False)


@pytest.mark.parametrize(
    ("pooling", "expected"), [("late", "late"), ("bos", "cls"), ("mean", "mean")]
)
def test_eurobert_pools_states_or_scores(pooling: str, expected: str) -> None:
    head = observed("eurobert", classifier_pooling=pooling).head
    assert (head["pooling"], head["transform"]["activation"]) == (expected, "gelu")


def test_a_map_beside_attention_may_add_the_stream_itself() -> None:
    layer = observed("megatron-bert").layers[0]
    assert layer["modules"]["attention"]["o_bias"]
    assert [step.get("call") for step in layer["steps"]] == [
        "attention_norm", "attention", None, "ffn_norm", "feed_forward", None,
    ]  # fmt: skip


def test_every_tensor_of_a_checkpoint_has_a_rule() -> None:
    model = random_model(tiny_config("roberta"))
    rules, problems = hub_rules(model, observe(model))
    assert not problems
    places = {rule["archon"]: rule["hub"] for rule in rules if isinstance(rule["archon"], str)}
    assert places["score.weight"] == "classifier.out_proj.weight"
    assert places["head_dense.bias"] == "classifier.dense.bias"
    wo = "layers.{}.attention.wo.weight"
    assert places[wo] == "roberta.encoder.layer.{}.attention.output.dense.weight"


def test_names_of_other_tasks_are_known() -> None:
    found = names_beside(random_model(tiny_config("bert")))
    assert {"cls.predictions.transform.dense.weight", "cls.seq_relationship.bias"} <= found
    assert "bert.embeddings.position_ids" in found
    assert "bert.pooler.dense.weight" not in found
    assert "roberta.pooler.dense.weight" in names_beside(random_model(tiny_config("roberta")))


def test_what_a_head_reads_is_varied() -> None:
    fields = {field for field, _ in _flips(tiny_config("modernbert"))}
    head = {"classifier_pooling", "classifier_activation", "classifier_bias", "pad_token_id"}
    assert head <= fields
    assert not {"classifier_dropout", "num_labels"} & fields
    decoder = {field for field, _ in _flips(tiny_config("modernbert-decoder"))}
    assert not {"classifier_pooling", "classifier_bias"} & decoder


@pytest.mark.parametrize(
    ("model_type", "config", "why"),
    [
        ("bert", {"is_decoder": True}, "is_decoder=True makes a decoder of it"),
        ("bart", None, "an encoder-decoder model"),
    ],
)
def test_what_is_no_encoder_is_refused(model_type: str, config: Any, why: str) -> None:
    request = {"model_type": model_type, "config": config}
    with pytest.raises(ProbeError, match=why):
        resolve(request)


def test_an_encoder_that_no_probe_knows_is_refused_with_the_reason() -> None:
    config = resolve({"model_type": "deberta"})
    with pytest.raises(ProbeError, match=r"DebertaForSequenceClassification .*attention") as error:
        derive(config)
    assert error.value.to_json()["code"] == "model_unsuited"
    # The backend fsdp hides later tokens, and would be no way out.
    assert "fsdp" not in error.value.to_json()["hint"]
