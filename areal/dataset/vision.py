"""What the datasets with images share: rendering, encoding, and rows for training."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from areal.api.errors import DatasetError
from areal.dataset.rows import Row, RowDataset
from areal.dataset.shaping import completion_token_ids
from areal.dataset.sources import Source
from areal.dataset.tokens import keep_short
from areal.utils.image import process_vision_prompt, to_jpeg_bytes

_PLACEHOLDER = "<image>"


@dataclass(frozen=True)
class VisionRows:
    """Makes the rows of one dataset of images with a question and a short answer.

    Rows are made when they are read: a row's pixels are a thousand times its text.

    Args:
        source: Rows of ``images`` (a list), ``problem`` (text with ``<image>``) and ``answer``.
        prompt: Template with ``{problem}``.
        max_pixels: Images are shrunk to this area.
        has_chat_column: Whether RL rows also carry ``messages_chat``.
    """

    source: Source
    prompt: str
    max_pixels: int
    has_chat_column: bool

    def rl(self, path: str, split: str, processor: Any, max_length: int | None) -> RowDataset:
        """Return rows of ``messages`` (rendered text), ``images`` (JPEG bytes) and ``answer``."""

        def num_tokens(row: Row) -> int:
            prompt = process_vision_prompt(processor, row["messages"], row["images"])
            return len(prompt.input_ids)

        # A partial of a method, not a closure, because worker processes may get it pickled.
        transform = functools.partial(self._rl_row, processor)
        rows = RowDataset(self.source.read(path, split), transform)
        return keep_short(rows, max_length, num_tokens, f"{path} ({split})")

    def sft(self, path: str, split: str, processor: Any, max_length: int | None) -> RowDataset:
        """Return rows of ``input_ids``, ``loss_mask``, ``mm_token_type_ids``, pixels."""
        transform = functools.partial(self._sft_row, processor)
        rows = RowDataset(self.source.read(path, split), transform)
        return keep_short(rows, max_length, lambda row: len(row["input_ids"]), f"{path} ({split})")

    def _rl_row(self, processor: Any, row: Row) -> Row:
        """Return a row, of broken images and marks too: its episodes fail, and not the run."""
        chat = self._chat(row)
        made = {
            "messages": _render(processor, chat),
            "images": [self._encoded_or_as_it_is(image) for image in _images_of(row)],
            "answer": str(row["answer"]),
        }
        return {**made, "messages_chat": chat} if self.has_chat_column else made

    def _sft_row(self, processor: Any, row: Row) -> Row:
        chat = self._chat(row)
        num_marks = sum(part["type"] == "image" for part in chat[0]["content"])
        if num_marks != (num_images := len(_images_of(row))):
            raise DatasetError(
                f"a problem has {num_marks} {_PLACEHOLDER} marks but {num_images} images: "
                f"{row['problem'][:80]!r}"
            )
        text = _render(processor, chat)
        try:
            prompt = process_vision_prompt(processor, text, self._images(row))
        except (OSError, TypeError, ValueError) as error:
            raise DatasetError(
                f"an image of the problem {row['problem'][:80]!r} cannot be used: {error}"
            ) from error
        answer = completion_token_ids(processor.tokenizer, f"[{str(row['answer']).strip('[]')}]")
        return {
            "input_ids": prompt.input_ids + answer,
            "loss_mask": [0] * len(prompt.input_ids) + [1] * len(answer),
            "mm_token_type_ids": prompt.mm_token_type_ids + [0] * len(answer),
            "multi_modal_input": [prompt.features],
        }

    def _images(self, row: Row) -> list[bytes]:
        return [to_jpeg_bytes(i, max_pixels=self.max_pixels) for i in _images_of(row)]

    def _encoded_or_as_it_is(self, image: Any) -> Any:
        try:
            return to_jpeg_bytes(image, max_pixels=self.max_pixels)
        except (OSError, TypeError):
            # Whoever prepares it raises the same, and then it is known for which episode.
            return image

    def _chat(self, row: Row) -> list[dict[str, Any]]:
        """Write the problem as one user message, an image part for each placeholder."""
        num_images = len(_images_of(row))
        parts = self.prompt.format(problem=row["problem"]).split(_PLACEHOLDER)
        if len(parts) == 1:  # no placeholder: the images come first
            parts = [""] * num_images + parts
        content: list[dict[str, str]] = []
        for position, text in enumerate(parts):
            if position:
                content.append({"type": "image"})
            if text.strip():
                content.append({"type": "text", "text": text})
        return [{"role": "user", "content": content}]


def _images_of(row: Row) -> Sequence[Any]:
    images = () if row["images"] is None else row["images"]
    is_many = isinstance(images, Sequence) and not isinstance(images, (bytes, str))
    return images if is_many else [images]


def _render(processor: Any, chat: list[dict[str, Any]]) -> str:
    return processor.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
