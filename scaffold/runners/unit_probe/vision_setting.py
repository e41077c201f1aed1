"""Images, a processor for them, and a model whose words depend on what it sees.

The model reads an image from where a trainer would take it, `multi_modal_input`; the engine reads
it from the request. Where the two differ, or their places do, so do the log-probabilities.
"""

from __future__ import annotations

import base64
import inspect
import io
import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import torch
from PIL import Image

from unit_probe import episode_setting, kit
from unit_probe import trajectory as checks

PLACE = "<image>"
MOST_DRIFT = 1e-4
"""Log-probabilities of trainer and rollout differ by rounding alone, in fp32."""
PATCH = 8
"""Pixels of a patch's side; each patch of an image is one token."""
CHAT_TEMPLATE = (
    "{% for m in messages %}<{{ m['role'] }}>{% if m['content'] is string %}{{ m['content'] }}"
    "{% else %}{% for p in m['content'] %}{{ p['text'] if p['type'] == 'text' else '<image>' }}"
    "{% endfor %}{% endif %}<eos>{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"
)


def encoded(colour: str, size: tuple[int, int], kind: str) -> bytes:
    """Make an image of one colour with a black corner."""
    image = Image.new("RGB", size, colour)
    image.paste("black", (0, 0, PATCH // 2, PATCH))
    buffer = io.BytesIO()
    image.save(buffer, format=kind)
    return buffer.getvalue()


RED, BLUE = encoded("red", (2 * PATCH, PATCH), "PNG"), encoded("blue", (PATCH, PATCH), "JPEG")
PAIR = [
    {"type": "image"},
    {"type": "text", "text": " and "},
    {"type": "image"},
    {"type": "text", "text": " {{ x }} \\ '\" \U0001f600: which is larger?\n"},
]
ROWS: list[dict[str, Any]] = [
    {"messages": f"<user>{PLACE}Which colour?<eos><assistant>", "images": [RED], "answer": "red"},
    {
        "messages": f"<user>{PLACE} and {PLACE}{PAIR[3]['text']}<eos><assistant>",
        "messages_chat": [{"role": "user", "content": PAIR}],
        "images": [BLUE, RED],
        "answer": "the second",
    },
    {"messages": f"<user>{PLACE}Again?<eos><assistant>", "images": [BLUE], "answer": ""},
]


class PatchProcessor:
    """A processor as vision models have one, with an image's patches as tokens.

    Args:
        tokenizer: Knows the place of an image as one token.
        has_token_types: Whether the answer marks the tokens of images.
    """

    def __init__(self, tokenizer: Any, has_token_types: bool) -> None:
        self.tokenizer = tokenizer
        self.has_token_types = has_token_types
        self.image_token = PLACE
        self.image_token_id = tokenizer.convert_tokens_to_ids(PLACE)

    def apply_chat_template(self, conversation: Any, **options: Any) -> Any:
        """Render messages whose content is text or a list of parts."""
        return self.tokenizer.apply_chat_template(conversation, **options)

    def __call__(self, images: Any = None, text: Any = None, **options: Any) -> Any:
        """Return tokens, with as many of them for an image as it has patches, and pixels."""
        from transformers import BatchFeature

        images = [images] if isinstance(images, Image.Image) else list(images or [])
        (prompt,) = [text] if isinstance(text, str) else text
        parts = prompt.split(PLACE)
        if len(parts) != len(images) + 1:
            raise ValueError(f"the prompt has {len(parts) - 1} places for {len(images)} images")
        pixels, grids = see(images)
        # As many image tokens as the image has patches, which is what real processors do.
        marks = [PLACE * int(grid.prod()) for grid in grids] + [""]
        rendered = "".join(part + mark for part, mark in zip(parts, marks, strict=True))
        ids = torch.tensor([self.tokenizer.encode(rendered, add_special_tokens=False)])
        features = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        if self.has_token_types:
            features["mm_token_type_ids"] = (ids == self.image_token_id).long()
        return BatchFeature({**features, "pixel_values": pixels, "image_grid_thw": grids})


def see(images: Sequence[Image.Image]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the mean colours of the images' patches, [N, 3], and their grids, [images, 3]."""
    pixels, grids = [torch.zeros(0, 3)], [torch.zeros(0, 3, dtype=torch.int64)]
    for image in images:
        width, height = max(1, image.width // PATCH), max(1, image.height // PATCH)
        small = image.convert("RGB").resize((width, height), Image.Resampling.BOX)
        data = torch.frombuffer(bytearray(small.tobytes()), dtype=torch.uint8)
        pixels.append(data.view(-1, 3) / 255)
        grids.append(torch.tensor([[1, height, width]]))
    return torch.cat(pixels), torch.cat(grids)


class SeeingModel:
    """A language model with the patches of its prompt in place of the image tokens.

    Args:
        model: The language model.
        pixels: The patches, [N, 3].
        types: 1 where a token is an image's, as long as the prompt or longer.
    """

    def __init__(self, model: Any, pixels: torch.Tensor, types: Sequence[int]) -> None:
        self.model, self.pixels, self.types = model, pixels, list(types)

    def __call__(self, ids: torch.Tensor) -> SimpleNamespace:
        embeddings = self.model.get_input_embeddings()(ids).detach().clone()
        count = ids.shape[1]
        is_image = torch.tensor([*self.types, *[0] * count][:count], dtype=torch.bool)
        # The same projection for the engine and for the check, without a parameter of the model.
        generator = torch.Generator().manual_seed(7)
        projection = torch.randn(3, embeddings.shape[-1], generator=generator)
        embeddings[0, is_image] = self.pixels.float() @ projection
        return SimpleNamespace(logits=self.model(inputs_embeds=embeddings).logits)


class VisionEngine:
    """Generates for requests with images, as a server does: it gets them as base64 text."""

    def __init__(self, model: Any, tokenizer: Any) -> None:
        self.model, self.tokenizer = model, tokenizer
        self.image_token_id = tokenizer.convert_tokens_to_ids(PLACE)
        self.generator = torch.Generator().manual_seed(1)

    def get_version(self) -> int:
        return kit.WEIGHT_VERSION

    async def agenerate(self, req: Any) -> Any:
        """Continue one prompt.

        Raises:
            ValueError: The images of the request do not fill the image tokens of the prompt.
        """
        files = [base64.b64decode(data) for data in req.image_data or []]
        pixels, _ = see([Image.open(io.BytesIO(file)) for file in files])
        types = [int(token == self.image_token_id) for token in req.input_ids]
        if sum(types) != len(pixels):
            raise ValueError(
                f"image_data holds {len(files)} images of {len(pixels)} patches; input_ids has "
                f"{sum(types)} image tokens: send every image, and the tokens of the processor"
            )
        engine = kit.TinyEngine(SeeingModel(self.model, pixels, types), self.tokenizer)
        engine.generator = self.generator  # or every request would draw the same numbers
        return await engine.agenerate(req)


class ExecutedEngine(VisionEngine):
    """An engine that also runs batches, for targets whose own engine takes no images."""

    def rollout_batch(self, rows: list[Any], workflow: Any, group_size: int) -> list[Any]:
        """Run a group of episodes per row, as training does."""
        from areal.api.cli_args import InferenceEngineConfig
        from areal.infra import WorkflowExecutor

        executor = WorkflowExecutor(InferenceEngineConfig(), self)
        executor.initialize()
        try:
            return executor.rollout_batch(rows, workflow, group_size=group_size)
        finally:
            executor.destroy()


class VisionSetting(episode_setting.TextSetting):
    """A prompt with images in, text out, and a reward function called by keyword."""

    rows = ROWS

    def __init__(self) -> None:
        self.tokenizer = kit.make_tokenizer()
        self.tokenizer.add_tokens([PLACE], special_tokens=True)
        self.tokenizer.chat_template = CHAT_TEMPLATE
        self.model = kit.make_model(self.tokenizer)

    @contextmanager
    def engine(self, findings: kit.Findings, is_own: bool) -> Iterator[Any]:
        """Yield the runner's engine: no target brings one for images that needs no server."""
        findings.passed("engine", "verify's own, which takes images")
        is_executed = not is_own and kit.has_embedded_engine()
        yield (ExecutedEngine if is_executed else VisionEngine)(self.model, self.tokenizer)

    def arguments(self, judge: Any, temperature: float) -> dict[str, Any]:
        """Return what a constructor may ask for; processors differ in what they answer."""
        processor = PatchProcessor(self.tokenizer, has_token_types=temperature == 1.0)
        return {**super().arguments(judge, temperature), "processor": processor}

    def check_training(self, findings: kit.Findings, workflow_class: Any) -> None:
        """Take a training step with images, where the target's own engines take them."""
        if find_spec("areal") is None or not kit.has_embedded_engine():
            return
        if find_spec("areal.engine.model.image_text") is None:
            return
        _, judge, temperature = self.scenarios[0]
        known = self.arguments(judge, temperature)
        filled = ("gconfig", "tokenizer", "processor")
        asked = inspect.signature(workflow_class).parameters
        kwargs = {n: v for n, v in known.items() if n in asked and n not in filled}
        with findings.guard("training", "a training step of a small vision model"):
            largest = _train(workflow_class, kwargs)
            if largest > MOST_DRIFT:
                raise ValueError(
                    f"the trainer's log-probabilities differ by {largest:.2g} from the rollout's: "
                    "multi_modal_input must hold what the processor gave for the request's images"
                )

    def read_rows(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return rows of one's own with the images, which are base64 text in JSON, as bytes."""
        return [{**row, "images": [base64.b64decode(x) for x in row["images"]]} for row in rows]

    def problems(self, tensors: Any, turns: list[checks.Turn]) -> list[checks.Problem]:
        """Return what is wrong, the images' part first: the model needs it to see."""
        # Without the model: its words depend on images that only `SeeingModel` shows it.
        found = checks.problems(tensors, turns, None)
        image_token_id = self.tokenizer.convert_tokens_to_ids(PLACE)
        found = found or list(_vision_problems(tensors, turns, image_token_id))
        if found or len(tensors["input_ids"]) != 1:
            return found
        pixels = tensors["multi_modal_input"][0]["pixel_values"]
        seeing = SeeingModel(self.model, pixels, tensors["mm_token_type_ids"][0].tolist())
        return checks.problems(tensors, turns, seeing)


def _train(workflow_class: Any, kwargs: dict[str, Any]) -> float:
    """Train for a step and return how far log-probabilities of trainer and rollout are apart."""
    from areal.api import cli_args
    from areal.trainer.ppo import PPOTrainer

    optimizer = cli_args.OptimizerConfig(lr=1e-3, warmup_steps=0)
    small = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    vision = cli_args.VisionSpecConfig(**small)
    model = cli_args.ModelSpecConfig(
        **small, num_key_value_heads=1, head_dim=16, architecture="qwen2_vl", vision=vision
    )
    config = cli_args.PPOConfig(
        experiment_name="verify",
        trial_name="images",
        total_train_epochs=1,
        gconfig=cli_args.GenerationHyperparameters(n_samples=2, max_new_tokens=4),
        actor=cli_args.PPOActorConfig(optimizer=optimizer, kl_ctl=0.0),
        run=cli_args.RunConfig(model=model),
    )
    config.recover.mode = "disabled"
    config.stats_logger.tensorboard.path = None
    config.train_dataset = cli_args.TrainDatasetConfig(path="verify", type="rl", batch_size=2)
    image = {"type": "image"}
    text = {"type": "text", "text": "1?"}
    # No row without: it would be trained on in the place of those that fail.
    chats = [[image, text], [image, image]]
    images = [[RED], [RED, BLUE]]
    rows = [
        {"messages": [{"role": "user", "content": chat}], "images": shown, "answer": "1"}
        for chat, shown in zip(chats, images, strict=True)
    ]
    with tempfile.TemporaryDirectory() as folder:
        config.cluster.fileroot = folder
        with PPOTrainer(config, rows) as trainer:
            trainer.train(workflow_class, workflow_kwargs=kwargs)
        path = os.path.join(folder, "verify", "images", "stats.jsonl")
        with open(path, encoding="utf-8") as file:
            (step,) = (row["stats"] for row in map(json.loads, file) if row["kind"] == "train")
    return float(step["logp_abs_diff_max"])


def _vision_problems(
    tensors: Mapping[str, Any], turns: Sequence[checks.Turn], image_token_id: int
) -> Iterator[checks.Problem]:
    for key in ("mm_token_type_ids", "multi_modal_input"):
        if key not in tensors:
            yield "vision", f"the trajectory lacks {key}: the trainer could not show the images"
            return
    for key in ("input_ids", "mm_token_type_ids"):
        value = tensors[key]
        if not isinstance(value, torch.Tensor) or value.dtype != torch.int64:
            found = str(getattr(value, "dtype", type(value).__name__)).removeprefix("torch.")
            yield "vision", f"{key} is {found}; a vision model takes int64"
            return
    if tensors["mm_token_type_ids"].shape != tensors["input_ids"].shape:
        yield "vision", "mm_token_type_ids must have the shape of input_ids"
        return
    yield from _token_types(tensors, turns, image_token_id)
    inputs, count = tensors["multi_modal_input"], len(tensors["input_ids"])
    if not isinstance(inputs, list) or len(inputs) != count:
        yield "vision", f"multi_modal_input must be a list of {count} mappings, one per sequence"
        return
    for each, types in zip(inputs, tensors["mm_token_type_ids"], strict=True):
        pixels = each.get("pixel_values") if isinstance(each, Mapping) else None
        if not isinstance(pixels, torch.Tensor):
            yield "vision", "multi_modal_input needs the tensor pixel_values for each sequence"
        elif len(pixels) != int((types == 1).sum()):
            text = f"pixel_values has {len(pixels)} patches for {int((types == 1).sum())} tokens"
            yield "vision", f"{text}; keep what the processor gave for the row's own images"


def _token_types(
    tensors: Mapping[str, Any], turns: Sequence[checks.Turn], image_token_id: int
) -> Iterator[checks.Problem]:
    prompt = len(turns[0].prompt)
    types = tensors["mm_token_type_ids"]
    expected = (tensors["input_ids"] == image_token_id).long()
    expected[:, prompt:] = 0
    if bool((types[:, prompt:] != 0).any()):
        yield "vision", "mm_token_type_ids must be 0 after the prompt"
    elif not torch.equal(types, expected):
        yield "vision", "mm_token_type_ids must be 1 on the prompt's image tokens and 0 elsewhere"
