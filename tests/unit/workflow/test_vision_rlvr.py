from __future__ import annotations

import asyncio
import base64
import inspect
import io
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from areal.api.cli_args import GenerationHyperparameters
from areal.api.errors import ConfigError
from areal.api.reward_api import REWARD_STATS, inline_reward
from areal.infra.trajectory import check_trajectory, check_trajectory_format
from areal.utils import stats_tracker
from areal.utils.data import concat_padded_tensors
from areal.workflow import RLVRWorkflow, VisionRLVRWorkflow
from tests.fakes import InstantEngine, TinyVisionProcessor, tiny_tokenizer

PROCESSOR = TinyVisionProcessor()
TOKENIZER = PROCESSOR.tokenizer
CHAT = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "How many?"}]}]
NUM_PATCHES = 3 * 2  # 42 x 28 pixels in patches of 14


def jpeg(size: tuple[int, int] = (42, 28)) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", size, "red").save(buffer, format="JPEG")
    return buffer.getvalue()


def row(**changes: Any) -> dict[str, Any]:
    text = PROCESSOR.apply_chat_template(CHAT, tokenize=False, add_generation_prompt=True)
    return {"messages": text, "images": [jpeg()], "answer": "3", **changes}


def make(reward_fn: Any = None, processor: Any = PROCESSOR) -> VisionRLVRWorkflow:
    gconfig = GenerationHyperparameters(max_new_tokens=8)
    reward_fn = reward_fn or "clevr_count_70k"
    return VisionRLVRWorkflow(reward_fn, gconfig, TOKENIZER, processor, False)


def answering(text: str = "[3]") -> InstantEngine:
    return InstantEngine(lambda request: [*TOKENIZER.encode(text), TOKENIZER.eos_token_id])


def run(workflow: VisionRLVRWorkflow, engine: InstantEngine, data: dict[str, Any]) -> Any:
    return asyncio.run(workflow.arun_episode(engine, data))


def constant(
    prompt: str, completions: str, prompt_ids: Any, completion_ids: Any, **kw: Any
) -> float:
    return 1.0


@pytest.mark.parametrize("has_token_types", [True, False])
def test_an_episode_has_exactly_these_tensors(has_token_types: bool) -> None:
    workflow = make(inline_reward(constant), TinyVisionProcessor(has_token_types))
    trajectory = run(workflow, answering(), row())
    images = trajectory.pop("multi_modal_input")
    length = trajectory["input_ids"].shape[1]
    assert {key: (value.dtype, tuple(value.shape)) for key, value in trajectory.items()} == {
        "input_ids": (torch.int64, (1, length)),
        "mm_token_type_ids": (torch.int64, (1, length)),
        "loss_mask": (torch.int32, (1, length)),
        "versions": (torch.int32, (1, length)),
        "turn_ids": (torch.int32, (1, length)),
        "logprobs": (torch.float32, (1, length)),
        "attention_mask": (torch.bool, (1, length)),
        "rewards": (torch.float32, (1,)),
    }
    assert trajectory["loss_mask"].sum() == 4
    is_image = trajectory["input_ids"] == PROCESSOR.image_token_id
    assert torch.equal(trajectory["mm_token_type_ids"], is_image.long())
    assert is_image.sum() == NUM_PATCHES
    (features,) = images
    assert features.keys() == {"pixel_values", "image_grid_thw"}
    assert features["pixel_values"].shape == (NUM_PATCHES, 3)


@pytest.mark.parametrize("has_token_types", [True, False])
def test_arrays_become_the_same_tensors(has_token_types: bool) -> None:
    asked, given = (
        run(
            make(inline_reward(constant), TinyVisionProcessor(has_token_types, as_arrays)),
            answering(),
            row(),
        )
        for as_arrays in (False, True)
    )
    check_trajectory_format(given, 1, asked)
    (expected,), (features,) = asked.pop("multi_modal_input"), given.pop("multi_modal_input")
    for name, value in (asked | expected).items():
        found = (given | features)[name]
        assert found.dtype == value.dtype
        assert torch.equal(found, value)


@pytest.mark.parametrize("images", [{"images": []}, {"images": None}, {}])
@pytest.mark.parametrize("as_arrays", [False, True])
def test_a_row_of_text_alone_trains_beside_one_with_an_image(
    images: dict[str, Any], as_arrays: bool
) -> None:
    workflow = make(inline_reward(constant), TinyVisionProcessor(as_arrays=as_arrays))
    engine = answering()
    shown = run(workflow, engine, row())
    data = {"messages": "user: How many?\nassistant: ", "answer": "3", **images}
    alone = run(workflow, engine, data)
    assert engine.requests[1].image_data == []
    assert int(alone["mm_token_type_ids"].sum()) == 0
    for trajectory in (shown, alone):
        check_trajectory(trajectory, "vision_rlvr")
        check_trajectory_format(trajectory, 1, shown)
    batch = concat_padded_tensors([shown, alone])
    pixels = [features["pixel_values"] for features in batch["multi_modal_input"]]
    assert torch.equal(torch.cat(pixels), shown["multi_modal_input"][0]["pixel_values"])


def test_episodes_pass_the_check_and_make_a_batch() -> None:
    workflow = make(inline_reward(constant))
    trajectories = [run(workflow, answering(text), row()) for text in ("[3]", "I see [3]")]
    for trajectory in trajectories:
        check_trajectory(trajectory, "vision_rlvr")
    batch = concat_padded_tensors(trajectories)
    assert batch["input_ids"].shape[0] == 2
    assert len(batch["multi_modal_input"]) == 2


def test_the_reward_gets_everything_by_keyword() -> None:
    seen: list[dict[str, Any]] = []

    @inline_reward
    def record(*args: Any, **kwargs: Any) -> float:
        assert not args
        seen.append(kwargs)
        return 0.5

    data = row(messages_chat=CHAT)
    assert run(make(record), answering(), data)["rewards"].item() == 0.5
    (kwargs,) = seen
    assert kwargs.keys() == {"prompt", "completions", "prompt_ids", "completion_ids", *data}
    assert kwargs["completions"] == "[3]"
    assert "How many?" in kwargs["prompt"]
    assert kwargs["completion_ids"][-1] == TOKENIZER.eos_token_id


@pytest.mark.parametrize(("answer", "reward"), [("[3]", 1.0), ("[4]", 0.0)])
def test_a_registered_reward_grades_in_the_pool(answer: str, reward: float) -> None:
    assert run(make(), answering(answer), row())["rewards"].item() == reward
    assert stats_tracker.get("rollout").export()["rollout/reward"] == reward


def test_the_request_carries_the_images_for_servers() -> None:
    engine = answering()
    run(make(inline_reward(constant)), engine, row(messages_chat=CHAT))
    (request,) = engine.requests
    assert request.image_data is not None
    assert base64.b64decode(request.image_data[0]) == jpeg()
    assert request.vision_msg_vllm == [CHAT]
    assert request.processor is PROCESSOR
    run(make(inline_reward(constant)), engine, row())
    assert engine.requests[1].vision_msg_vllm is None


@pytest.mark.parametrize("image", [Image.new("RGB", (42, 28)), {"bytes": jpeg(), "path": None}])
def test_images_come_as_pictures_or_as_parquet_has_them(image: Any) -> None:
    trajectory = run(make(inline_reward(constant)), answering(), row(images=[image]))
    assert trajectory["multi_modal_input"][0]["pixel_values"].shape == (NUM_PATCHES, 3)


def test_messages_that_are_not_rendered_yet_are_rendered() -> None:
    engine = answering()
    run(make(inline_reward(constant)), engine, row(messages=CHAT))
    run(make(inline_reward(constant)), engine, row())
    assert engine.requests[0].input_ids == engine.requests[1].input_ids


def test_a_reward_that_fails_rejects_the_episode_and_is_counted() -> None:
    @inline_reward
    def broken(**kwargs: Any) -> float:
        raise RuntimeError("the grader is down")

    assert run(make(broken), answering(), row()) is None
    assert REWARD_STATS.export()["reward/failures"] == 1.0


def test_enable_thinking_has_no_default() -> None:
    parameter = inspect.signature(VisionRLVRWorkflow).parameters["enable_thinking"]
    assert parameter.default is inspect.Parameter.empty
    assert issubclass(VisionRLVRWorkflow, RLVRWorkflow)


def test_a_model_without_a_processor_is_refused(tmp_path: Path) -> None:
    tiny_tokenizer().save_pretrained(str(tmp_path))
    with pytest.raises(ConfigError, match="takes no images"):
        make(processor=str(tmp_path))
