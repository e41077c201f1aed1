"""vLLM's wire format, both ways."""

from __future__ import annotations

from typing import Any

import pytest

from areal.api.alloc_mode import ModelAllocation
from areal.api.cli_args import GenerationHyperparameters
from areal.api.errors import ConfigError
from areal.api.io_struct import ModelRequest, ParamSpec, WeightUpdateMeta
from areal.engine import RemotevLLMEngine, VLLMBackend

BACKEND = VLLMBackend()
AREAL = VLLMBackend(areal_extensions=True)


def meta(**fields: Any) -> WeightUpdateMeta:
    return WeightUpdateMeta(
        **({"type": "disk", "path": "/w/weight_update_v3", "version": 3} | fields)
    )


def endpoints(requests: list[Any]) -> list[str]:
    return [request.endpoint for request in requests]


def answer(names: list[str], logprobs: list[Any], reason: str = "length") -> dict[str, Any]:
    found = {"tokens": names, "token_logprobs": logprobs}
    return {"choices": [{"finish_reason": reason, "logprobs": found}]}


def test_a_request_asks_for_token_ids_and_log_probabilities() -> None:
    gconfig = GenerationHyperparameters(max_new_tokens=7, temperature=0.5, stop_token_ids=[1])
    request = BACKEND.build_generation_request(
        ModelRequest(input_ids=[4, 5], gconfig=gconfig), with_lora=False, version=3
    )
    assert request.endpoint == "/v1/completions"
    assert request.payload == {
        "prompt": [4, 5],
        "top_p": 1.0,
        "top_k": int(1e8),
        "max_tokens": 7,
        "temperature": 0.5,
        "stop_token_ids": [1],
        "ignore_eos": False,
        "skip_special_tokens": True,
        "frequency_penalty": 0.0,
        "repetition_penalty": 1.0,
        "min_p": 0.0,
        "use_beam_search": False,
        "stream": False,
        "logprobs": 0,
        "return_tokens_as_token_ids": True,
    }


def test_a_resumed_request_has_another_stream_of_the_same_seed() -> None:
    gconfig = GenerationHyperparameters(
        seed=(1 << 63) - 1, greedy=True, lora_name="mine", stop=["x"]
    )
    seeds = [
        BACKEND.build_generation_request(
            ModelRequest(input_ids=[1] * length, gconfig=gconfig), True, 3
        ).payload
        for length in (2, 3)
    ]
    assert [payload["seed"] for payload in seeds] == [1, 2]
    assert seeds[0]["model"] == "mine-v3"
    assert seeds[0]["temperature"] == 0.0
    assert seeds[0]["stop"] == ["x"]


def test_an_answer_gives_ids_and_log_probabilities() -> None:
    found = BACKEND.parse_generation_response(
        answer(["token_id:8", "token_id:9"], [-0.5, -1.5], "stop")
    )
    assert (found.output_tokens, found.output_logprobs) == ([8, 9], [-0.5, -1.5])
    assert (found.stop_reason, found.output_versions) == ("stop", None)


@pytest.mark.parametrize(
    "broken",
    [
        {"choices": []},
        answer(["hello"], [-0.5]),
        answer(["token_id:x"], [-0.5]),
        answer(["token_id:1"], [-9999.0]),
        answer(["token_id:1"], [None]),
        answer(["token_id:1"], []),
    ],
)
def test_nonsense_raises(broken: dict[str, Any]) -> None:
    with pytest.raises((ValueError, KeyError, TypeError, IndexError)):
        BACKEND.parse_generation_response(broken)


def test_images_go_into_the_messages_of_a_chat() -> None:
    chat = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "what?"}]}]
    request = ModelRequest(input_ids=[1], image_data=["aGk="], vision_msg_vllm=[chat])
    built = BACKEND.build_generation_request(request, False, 0)
    assert built.endpoint == "/v1/chat/completions"
    assert built.payload["logprobs"] is True
    content = built.payload["messages"][0]["content"]
    assert content[0] == {
        "type": "image_url",
        "image_url": {"url": "data:image/png;base64,aGk="},
    }
    assert chat[0]["content"][0] == {"type": "image"}, "the workflow's own messages stay"
    request.image_data = []
    with pytest.raises(ConfigError, match="1 images and image_data 0"):
        BACKEND.build_generation_request(request, False, 0)
    entries = [{"token": "token_id:4", "logprob": -0.5}]
    found = BACKEND.parse_generation_response(
        {"choices": [{"finish_reason": "stop", "logprobs": {"content": entries}}]}
    )
    assert found.output_tokens == [4]


def test_scores_are_those_of_the_prompts_own_tokens() -> None:
    request = BACKEND.build_score_request([5, 6, 7], 2, with_lora=False, version=0)
    assert request.payload["echo"] is True
    scores = [None, {"6": {"logprob": -0.1}, "0": {"logprob": -0.01}}, {"7": {"logprob": -0.2}}]
    found = {"choices": [{"prompt_logprobs": scores}]}
    assert BACKEND.parse_score_response(found, 2) == [-0.1, -0.2]


def test_a_disk_update_stops_loads_labels_and_goes_on() -> None:
    requests = BACKEND.build_disk_weight_update_requests(meta()).requests
    assert endpoints(requests) == [
        "/pause?mode=abort",
        "/collective_rpc",
        "/update_weight_version",
        "/resume",
    ]
    assert requests[1].payload == {
        "method": "reload_weights",
        "kwargs": {"weights_path": "/w/weight_update_v3"},
    }
    assert requests[2].payload == {"new_version": "3"}
    (own,) = AREAL.build_disk_weight_update_requests(meta()).requests
    assert (own.endpoint, own.payload) == (
        "/areal_update_weights",
        {"model_path": "/w/weight_update_v3"},
    )


def test_an_adapter_is_loaded_under_its_version_and_an_old_one_goes() -> None:
    lora = meta(use_lora=True, lora_name="a", lora_keep_versions=2)
    requests = BACKEND.build_disk_weight_update_requests(lora).requests
    assert [(r.endpoint, r.payload["lora_name"]) for r in requests] == [
        ("/v1/unload_lora_adapter", "a-v3"),
        ("/v1/load_lora_adapter", "a-v3"),
        ("/v1/unload_lora_adapter", "a-v1"),
    ]


def test_a_group_update_is_framed_by_start_and_finish() -> None:
    group = meta(type="xccl", gen_allocation=ModelAllocation.from_str("vllm:d2"))
    joined = BACKEND.build_init_weights_group_request("h:1", 1, group)
    assert joined.endpoint == "/init_weight_transfer_engine"
    assert joined.payload["init_info"] == {
        "master_address": "127.0.0.1",
        "master_port": 29500,
        "rank_offset": 2,
        "world_size": 3,
    }
    specs = [ParamSpec("w", (2, 3), "bfloat16")]
    (bucket,) = BACKEND.build_distributed_weight_update_requests(group, specs).requests
    assert bucket.payload["update_info"] == {
        "names": ["w"],
        "dtype_names": ["bfloat16"],
        "shapes": [[2, 3]],
    }
    assert endpoints(BACKEND.get_group_update_start_requests()) == ["/start_weight_update"]
    (end,) = BACKEND.get_group_update_end_requests(3)
    assert (end.endpoint, end.payload) == ("/finish_weight_update", {"weight_version": "3"})


def test_a_bucket_of_areal_is_announced_first() -> None:
    specs = [ParamSpec("w", (2, 3), "bfloat16")]
    group = meta(type="xccl")
    requests = AREAL.build_distributed_weight_update_requests(group, specs).requests
    assert endpoints(requests) == ["/areal_set_update_weight_meta", "/areal_update_weights_xccl"]
    peft = {"target_modules": ["q"], "r": 8, "lora_alpha": 16, "bias": "none"}
    lora = meta(type="xccl", use_lora=True, lora_name="a", lora_int_id=4, peft_config=peft)
    announce, receive = AREAL.build_distributed_weight_update_requests(lora, specs).requests
    assert receive.endpoint == "/areal_update_weights_lora_xccl"
    assert announce.payload["lora_name"] == "a-v3"
    assert announce.payload["lora_rank"] == 8
    assert not AREAL.get_group_update_start_requests() + AREAL.get_group_update_end_requests(3)


def test_what_vllm_cannot_do_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="HTTP"):
        BACKEND.build_pull_weight_update_requests("http://h/", 1)
    with pytest.raises(NotImplementedError, match="abort"):
        AREAL.get_abort_all_request()
    with pytest.raises(NotImplementedError, match="LoRA"):
        BACKEND.build_score_request([1], 1, with_lora=True, version=0)


def test_administration_goes_to_the_native_endpoints_unless_told_otherwise() -> None:
    assert endpoints(BACKEND.get_pause_requests()) == ["/pause?mode=abort"]
    assert endpoints(AREAL.get_pause_requests()) == ["/areal_pause_generation"]
    assert BACKEND.get_resume_request().endpoint == "/resume"
    assert AREAL.get_resume_request().endpoint == "/areal_continue_generation"
    assert BACKEND.get_onload_request(["weights", "kv_cache"]).endpoint == (
        "/wake_up?tags=weights&tags=kv_cache"
    )
    assert BACKEND.parse_identity({"weight_version": "7"}) == (None, 7)
    assert BACKEND.parse_identity({"weight_version": None}) == (None, None)


def test_an_engine_is_made_from_a_tokenizer_and_a_number_of_servers() -> None:
    engine = RemotevLLMEngine.from_pretrained("tok", dp_size=2)
    assert engine.config.backend == "vllm:d2"
