from __future__ import annotations

import getpass
import math
import uuid
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from areal.api import (
    FinetuneSpec,
    ModelAllocation,
    ModelRequest,
    ModelResponse,
    ParamSpec,
    RolloutStat,
    SaveLoadMeta,
    StepInfo,
    WeightUpdateMeta,
)
from areal.api.cli_args import GenerationHyperparameters
from areal.api.io_struct import HttpGenerationResult

TOKENIZER: Any = SimpleNamespace(eos_token_id=2, pad_token_id=0)
NO_PAD: Any = SimpleNamespace(eos_token_id=2, pad_token_id=None)


def test_requests_have_ids_and_lists_of_their_own() -> None:
    first, second = ModelRequest(), ModelRequest()
    assert first.rid != second.rid
    assert len(first.rid) == 36
    parsed = uuid.UUID(first.rid)
    assert (str(parsed), parsed.version, parsed.variant) == (first.rid, 4, uuid.RFC_4122)
    first.input_ids.append(1)
    assert second.input_ids == []
    assert first.image_data == []


def test_copying_a_request() -> None:
    original = ModelRequest(
        rid="r",
        input_ids=[1, 2],
        gconfig=GenerationHyperparameters(stop_token_ids=[2]),
        metadata={"a": 1},
        tokenizer=TOKENIZER,
        image_data=["x"],
        vision_msg_vllm=[{"role": "user"}],
    )
    copied = original.copy()
    assert copied == original
    assert copied.tokenizer is original.tokenizer
    copied.input_ids.append(3)
    copied.metadata["b"] = 2
    copied.gconfig.stop_token_ids.append(0)
    copied.image_data.append("y")
    copied.vision_msg_vllm.append({})
    assert original.input_ids == [1, 2]
    assert original.metadata == {"a": 1}
    assert original.gconfig.stop_token_ids == [2]
    assert original.image_data == ["x"]
    assert original.vision_msg_vllm == [{"role": "user"}]
    assert ModelRequest(image_data=None).copy().image_data is None


def test_response_lengths_and_defaults() -> None:
    response = ModelResponse(input_tokens=[1, 2, 3], output_tokens=[4, 2])
    assert (response.input_len, response.output_len) == (3, 2)
    assert response.stop_reason == "stop"
    assert response.latency == response.ttft == math.inf


@pytest.mark.parametrize(
    ("tokens", "tokenizer", "expected"),
    [
        ([5, 2], TOKENIZER, True),
        ([5, 0], TOKENIZER, True),
        ([2, 5], TOKENIZER, False),
        ([], TOKENIZER, False),
        ([5, 0], NO_PAD, False),
    ],
)
def test_end_with_stop(tokens: list[int], tokenizer: Any, expected: bool) -> None:
    assert ModelResponse(output_tokens=tokens, tokenizer=tokenizer).end_with_stop is expected


@pytest.mark.parametrize(
    ("tokens", "stop_reason", "expected"),
    [
        ([5, 6, 2], "stop", [5, 6]),
        ([5, 2, 6, 2, 0, 0], "stop", [5, 2, 6]),
        ([5, 2], "tool_calls", [5]),
        ([5, 6], "length", [5, 6]),
        ([5, 2], "length", [5, 2]),
        ([5, 2], "abort", [5, 2]),
        ([], "length", []),
    ],
)
def test_output_without_stop(tokens: list[int], stop_reason: Any, expected: list[int]) -> None:
    response = ModelResponse(output_tokens=tokens, stop_reason=stop_reason, tokenizer=TOKENIZER)
    assert response.output_tokens_without_stop == expected
    assert response.output_tokens == tokens


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        ([5, 6], r"its last token \[6\] is neither"),
        ([], r"its last token \[\] is neither"),
        ([2, 0], "only end-of-sequence and padding"),
    ],
)
def test_output_that_cannot_be_stripped(tokens: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        _ = ModelResponse(output_tokens=tokens, tokenizer=TOKENIZER).output_tokens_without_stop


def test_stop_tokens_need_a_tokenizer() -> None:
    with pytest.raises(ValueError, match="has no tokenizer"):
        _ = ModelResponse(output_tokens=[2]).end_with_stop
    with pytest.raises(ValueError, match="has no tokenizer"):
        _ = ModelResponse(output_tokens=[2]).output_tokens_without_stop


def test_a_sound_result_of_a_server() -> None:
    result = HttpGenerationResult([1, 2], [-0.5, 0], "stop")
    assert result.output_logprobs == [-0.5, 0]


@pytest.mark.parametrize(
    ("tokens", "logprobs", "message"),
    [
        ([1, 2], [-0.5], "2 tokens but 1 log-probabilities"),
        ([1], [math.nan], "nan as log-probability of output token 0"),
        ([1, 2], [-0.5, -math.inf], "-inf as log-probability of output token 1"),
        ([1], [True], "True as log-probability"),
        ([1], [None], "None as log-probability"),
        ([1], ["-0.5"], "'-0.5' as log-probability"),
    ],
)
def test_a_broken_result_of_a_server(tokens: Any, logprobs: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        HttpGenerationResult(tokens, logprobs, "stop")


def test_finetune_spec_drops_the_incomplete_batch() -> None:
    spec = FinetuneSpec(total_train_epochs=3, dataset_size=10, train_batch_size=4)
    assert (spec.steps_per_epoch, spec.total_train_steps) == (2, 6)


def test_steps_follow_each_other() -> None:
    step = StepInfo(epoch=0, epoch_step=0, global_step=0, steps_per_epoch=2)
    seen = []
    for _ in range(5):
        seen.append((step.epoch, step.epoch_step, step.global_step))
        step = step.next()
    assert seen == [(0, 0, 0), (0, 1, 1), (1, 0, 2), (1, 1, 3), (2, 0, 4)]
    assert type(step.epoch) is int


@pytest.mark.parametrize(
    "dtype",
    [
        torch.bool,
        torch.uint8,
        torch.int8,
        torch.int16,
        torch.int32,
        torch.int64,
        torch.float16,
        torch.bfloat16,
        torch.float32,
        torch.float64,
        torch.float8_e4m3fn,
        torch.float8_e5m2,
    ],
)
def test_sizes_are_those_of_torch(dtype: torch.dtype) -> None:
    tensor = torch.empty(3, 5, dtype=dtype)
    name = str(dtype).removeprefix("torch.")
    assert ParamSpec("w", (3, 5), name).size == tensor.nbytes
    assert ParamSpec("w", tuple(tensor.shape), str(dtype)).size == tensor.nbytes


def test_size_of_a_scalar_and_of_nonsense() -> None:
    assert ParamSpec("w", (), "float32").size == 4
    with pytest.raises(ValueError, match="unknown dtype 'float33' of parameter 'w'"):
        _ = ParamSpec("w", (1,), "float33").size


def test_plain_records() -> None:
    assert RolloutStat() == RolloutStat(accepted=0, enqueued=0, rejected=0, running=0)
    meta = SaveLoadMeta("p", "hf", True)
    assert (meta.tokenizer, meta.base_model_path, meta.naive_distributed) == (None, None, False)


def test_weight_updates_from_disk_have_versions() -> None:
    meta = WeightUpdateMeta.from_disk("exp", "trial", "/shared", use_lora=True, lora_name="l")
    folder = f"/shared/checkpoints/{getpass.getuser()}/exp/trial/default"
    assert meta.path == f"{folder}/weight_update"
    third = meta.with_version(3)
    assert (third.path, third.version) == (f"{folder}/weight_update_v3", 3)
    assert (meta.path, meta.version) == (f"{folder}/weight_update", None)
    assert third.with_version(4).path == f"{folder}/weight_update_v4"
    assert (third.type, third.use_lora, third.lora_name) == ("disk", True, "l")
    with pytest.raises(ValueError, match="must not be negative, found -1"):
        meta.with_version(-1)


def test_weight_updates_without_a_path() -> None:
    allocation = ModelAllocation.from_str("sglang:d2")
    for make in (WeightUpdateMeta.from_fsdp_xccl, WeightUpdateMeta.from_megatron_xccl):
        meta = make(allocation, weight_chunked_mem_mb=64)
        assert (meta.type, meta.gen_allocation) == ("xccl", allocation)
        assert (meta.weight_chunked_mem_mb, meta.with_version(2).path) == (64, None)
    assert WeightUpdateMeta.from_awex(allocation).type == "awex"
