"""SGLang's wire format, both ways."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pytest

from areal.api.alloc_mode import ModelAllocation
from areal.api.cli_args import GenerationHyperparameters, InferenceEngineConfig
from areal.api.errors import ConfigError
from areal.api.io_struct import ModelRequest, ParamSpec, WeightUpdateMeta
from areal.engine import RemoteSGLangEngine, SGLangBackend
from areal.engine.remote import make_remote_engine

BACKEND = SGLangBackend()


def meta(**fields: Any) -> WeightUpdateMeta:
    return WeightUpdateMeta(
        **({"type": "disk", "path": "/w/weight_update_v3", "version": 3} | fields)
    )


def answer(reason: dict[str, Any], pairs: list[Any], **fields: Any) -> dict[str, Any]:
    return {"meta_info": {"finish_reason": reason, "output_token_logprobs": pairs} | fields}


def test_a_request_has_what_was_set_and_no_more() -> None:
    gconfig = GenerationHyperparameters(max_new_tokens=7, top_k=5, stop_token_ids=[1], greedy=True)
    request = BACKEND.build_generation_request(
        ModelRequest(input_ids=[4, 5], gconfig=gconfig), with_lora=False, version=3
    )
    assert (request.method, request.endpoint) == ("POST", "/generate")
    assert request.payload == {
        "input_ids": [4, 5],
        "sampling_params": {
            "top_p": 1.0,
            "top_k": 5,
            "max_new_tokens": 7,
            "temperature": 0.0,
            "stop_token_ids": [1],
            "ignore_eos": False,
            "skip_special_tokens": True,
            "frequency_penalty": 0.0,
        },
        "return_logprob": True,
        "stream": False,
    }


def test_optional_fields_appear_when_they_are_set() -> None:
    gconfig = GenerationHyperparameters(
        stop=["x"], seed=9, min_new_tokens=2, temperature=0.5, lora_name="mine"
    )
    backend = SGLangBackend(return_routed_experts=True)
    request = backend.build_generation_request(
        ModelRequest(input_ids=[4], gconfig=gconfig, image_data=["aGk="]), True, 3
    )
    sampling = request.payload["sampling_params"]
    assert sampling["stop"] == ["x"]
    assert sampling["sampling_seed"] == 9
    assert sampling["min_new_tokens"] == 2
    assert sampling["temperature"] == 0.5
    assert request.payload["lora_path"] == "mine-v3"
    assert request.payload["image_data"] == ["aGk="]
    assert request.payload["return_routed_experts"] is True


def test_beam_search_is_refused() -> None:
    gconfig = GenerationHyperparameters(use_beam_search=True)
    with pytest.raises(ConfigError, match="beam search"):
        BACKEND.build_generation_request(ModelRequest(input_ids=[1], gconfig=gconfig), False, 0)


@pytest.mark.parametrize(
    ("fields", "versions"),
    [
        ({"output_token_versions": [3, 4], "weight_version": "4"}, [3, 4]),
        ({"weight_version": "4"}, [4, 4]),
        ({"weight_version": "default"}, None),
        ({}, None),
    ],
)
def test_versions_are_those_of_the_tokens_else_of_the_answer(
    fields: dict[str, Any], versions: list[int] | None
) -> None:
    found = BACKEND.parse_generation_response(
        answer({"type": "length"}, [[-0.5, 8, None], [-1.5, 9, None]], **fields)
    )
    assert (found.output_tokens, found.output_logprobs) == ([8, 9], [-0.5, -1.5])
    assert found.stop_reason == "length"
    assert found.output_versions == versions


def test_an_abort_before_the_prompt_was_read_has_no_tokens() -> None:
    reason = {"type": "abort", "message": "Abort before prefill: paused"}
    found = BACKEND.parse_generation_response(answer(reason, [[-1.0, 3]]))
    assert (found.output_tokens, found.stop_reason) == ([], "abort")


@pytest.mark.parametrize(
    "broken",
    [
        {},
        {"meta_info": {}},
        answer({"type": "stop"}, [[None, 3]]),
        answer({"type": "stop"}, [[float("nan"), 3]]),
        answer({"type": "stop"}, [[-1.0]]),
        answer({"type": "stop"}, [[-1.0, 3]], output_token_versions=[1, 2]),
        answer({"type": "stop"}, [[-1.0, 3]], output_token_versions=["1"]),
    ],
)
def test_nonsense_raises(broken: dict[str, Any]) -> None:
    with pytest.raises((ValueError, KeyError, TypeError, IndexError)):
        BACKEND.parse_generation_response(broken)


def test_routed_experts_have_a_row_for_every_token_but_the_last() -> None:
    experts = np.arange(8, dtype=np.int32)
    fields = {
        "routed_experts": base64.b64encode(experts.tobytes()).decode(),
        "prompt_tokens": 3,
        "completion_tokens": 2,
    }
    found = BACKEND.parse_generation_response(
        answer({"type": "stop"}, [[-1.0, 3], [-1.0, 4]], **fields)
    )
    assert found.routed_experts is not None
    np.testing.assert_array_equal(found.routed_experts, experts.reshape(4, 2))


def test_scores_are_those_of_the_last_tokens() -> None:
    request = BACKEND.build_score_request([5, 6, 7, 8], 2, with_lora=False, version=0)
    assert request.payload["logprob_start_len"] == 1
    assert request.payload["sampling_params"]["max_new_tokens"] == 1
    found = {"meta_info": {"input_token_logprobs": [[None, 6], [-0.1, 7], [-0.2, 8]]}}
    assert BACKEND.parse_score_response(found, 2) == [-0.1, -0.2]
    with pytest.raises(NotImplementedError, match="LoRA"):
        BACKEND.build_score_request([5], 1, with_lora=True, version=0)


def test_a_disk_update_names_its_version_but_to_servers_of_areal() -> None:
    (request,) = BACKEND.build_disk_weight_update_requests(meta()).requests
    assert request.endpoint == "/update_weights_from_disk"
    assert request.payload == {
        "model_path": "/w/weight_update_v3",
        "abort_all_requests": True,
        "weight_version": "3",
    }
    (request,) = (
        SGLangBackend(areal_extensions=True).build_disk_weight_update_requests(meta()).requests
    )
    assert "weight_version" not in request.payload


@pytest.mark.parametrize(("backend", "interrupts"), [("local:d1", False), ("sglang:d1", True)])
def test_our_own_servers_go_on_with_their_answers_after_an_update(
    backend: str, interrupts: bool
) -> None:
    engine = make_remote_engine(InferenceEngineConfig(backend=backend))
    (request,) = engine.backend.build_disk_weight_update_requests(meta()).requests
    assert request.payload["abort_all_requests"] is interrupts


def test_an_adapter_is_loaded_under_its_version_and_an_old_one_goes() -> None:
    lora = meta(use_lora=True, lora_name="a", lora_keep_versions=2)
    requests = BACKEND.build_disk_weight_update_requests(lora).requests
    assert [(r.endpoint, r.payload["lora_name"], r.best_effort) for r in requests] == [
        ("/unload_lora_adapter", "a-v3", True),
        ("/load_lora_adapter", "a-v3", False),
        ("/unload_lora_adapter", "a-v1", True),
    ]


def test_a_group_has_the_trainer_as_rank_0() -> None:
    allocation = ModelAllocation.from_str("sglang:d3t2")
    group = meta(type="xccl", gen_allocation=allocation, nccl_master_port=777)
    request = BACKEND.build_init_weights_group_request("h:1", 2, group)
    assert request.payload == {
        "master_address": "127.0.0.1",
        "master_port": 777,
        "rank_offset": 5,
        "world_size": 7,
        "group_name": "update_weight_group",
        "backend": request.payload["backend"],
    }
    assert request.payload["backend"] in ("gloo", "nccl")
    staged = meta(type="xccl", gen_allocation=ModelAllocation.from_str("sglang:d1p2"))
    with pytest.raises(NotImplementedError, match="pipeline"):
        BACKEND.build_init_weights_group_request("h:1", 0, staged)


def test_a_bucket_is_described_by_names_dtypes_and_shapes() -> None:
    specs = [ParamSpec("w", (2, 3), "bfloat16"), ParamSpec("b", [3], "torch.float32")]
    (request,) = BACKEND.build_distributed_weight_update_requests(meta(type="xccl"), specs).requests
    assert request.payload == {
        "names": ["w", "b"],
        "dtypes": ["bfloat16", "float32"],
        "shapes": [[2, 3], [3]],
        "group_name": "update_weight_group",
        "abort_all_requests": True,
        "weight_version": "3",
    }
    with pytest.raises(NotImplementedError, match="LoRA"):
        BACKEND.build_distributed_weight_update_requests(meta(type="xccl", use_lora=True), specs)


def test_pauses_are_one_call_or_two_of_areal() -> None:
    assert [r.payload for r in BACKEND.get_pause_requests()] == [{"mode": "abort"}]
    areal = SGLangBackend(areal_extensions=True).get_pause_requests()
    assert [r.payload for r in areal] == [{}, {"mode": "in_place"}]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ({"instance": "i", "weight_version": "7"}, ("i", 7)),
        ({"weight_version": "default"}, (None, 0)),
        ({"model_path": "m"}, (None, None)),
        (None, (None, None)),
    ],
)
def test_an_identity_may_be_incomplete(found: Any, expected: tuple[Any, Any]) -> None:
    assert BACKEND.parse_identity(found) == expected


def test_memory_calls_carry_tags_only_where_there_are_some() -> None:
    assert BACKEND.get_offload_request().payload == {}
    assert BACKEND.get_onload_request(["weights"]).payload == {"tags": ["weights"]}


def test_an_engine_is_made_from_a_tokenizer_and_a_number_of_servers() -> None:
    engine = RemoteSGLangEngine.from_pretrained("tok", dp_size=3, consumer_batch_size=8)
    assert engine.config.backend == "sglang:d3"
    assert engine.config.tokenizer_path == "tok"
    assert engine.config.consumer_batch_size == 8
