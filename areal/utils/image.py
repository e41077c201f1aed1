"""Images in the forms that data sets, processors and servers want them in."""

from __future__ import annotations

import base64
import functools
import io
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from PIL.Image import Image

JPEG_QUALITY = 95


def to_pil(image: Any) -> Image:
    """Return an RGB image, upright as its EXIF data have it, and white where it is transparent.

    Args:
        image: A PIL image, encoded bytes (JPEG, PNG ...), the path of a file, or what ``datasets``
            stores in Parquet: a mapping with ``bytes`` or ``path``.

    Raises:
        TypeError: It is none of these.
        OSError: The bytes or the file are no image.
    """
    from PIL import Image as PILImage
    from PIL import ImageOps

    if isinstance(image, Mapping):
        image = image.get("bytes") or image["path"]
    if isinstance(image, (str, os.PathLike)):
        image = PILImage.open(image)
    if isinstance(image, (bytes, bytearray, memoryview)):
        image = PILImage.open(io.BytesIO(image))
    if not isinstance(image, PILImage.Image):
        raise TypeError(
            f"no image: {type(image).__name__}; give a PIL image, encoded bytes or a path"
        )
    image = ImageOps.exif_transpose(image)
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        # The lines of a diagram are black on nothing, and nothing would become black.
        image = image.convert("RGBA")
        image = PILImage.alpha_composite(PILImage.new("RGBA", image.size, "white"), image)
    return image.convert("RGB")


def to_jpeg_bytes(image: Any, *, max_pixels: int | None = None) -> bytes:
    """Encode an image as JPEG, shrunk to at most ``max_pixels`` (area) with its aspect kept.

    Args:
        image: Anything that ``to_pil`` takes.
        max_pixels: Width times height; None keeps the size.
    """
    picture = to_pil(image)
    area = picture.width * picture.height
    if max_pixels is not None and area > max_pixels:
        scale = math.sqrt(max_pixels / area)
        size = (max(1, int(picture.width * scale)), max(1, int(picture.height * scale)))
        picture = picture.resize(size)
    buffer = io.BytesIO()
    picture.save(buffer, format="JPEG", quality=JPEG_QUALITY)
    return buffer.getvalue()


def image2base64(images: Any | Sequence[Any]) -> list[str]:
    """Encode images for ``ModelRequest.image_data``: base64 text of the encoded image bytes.

    Args:
        images: One image or a sequence; bytes are taken as they are, anything else that ``to_pil``
            takes is encoded as PNG, without loss.
    """
    is_many = isinstance(images, Sequence) and not isinstance(images, (bytes, bytearray))
    return [
        base64.b64encode(_encoded_bytes(image)).decode("ascii")
        for image in (images if is_many else [images])
    ]


def _encoded_bytes(image: Any) -> bytes:
    if isinstance(image, (bytes, bytearray)):
        return bytes(image)
    buffer = io.BytesIO()
    to_pil(image).save(buffer, format="PNG")
    return buffer.getvalue()


@dataclass(frozen=True)
class VisionPrompt:
    """A prompt with images as a processor prepares it.

    ``input_ids`` and ``mm_token_type_ids`` (1 where an image is, 0 for text) are lists of one
    length; ``features`` holds tensors of what the model takes beside tokens. ``pixel_values`` are
    always there, of shape [0] where there is no image, so that rows of both sorts make a batch.
    """

    input_ids: list[int]
    mm_token_type_ids: list[int]
    features: dict[str, Any]


def process_vision_prompt(processor: Any, text: str, images: Sequence[Any]) -> VisionPrompt:
    """Run a processor on one rendered prompt.

    Args:
        processor: A transformers processor.
        text: The prompt with the model's image placeholders.
        images: As many as there are placeholders; anything that ``to_pil`` takes.

    Returns:
        What may be shared with other callers: do not change it.
    """
    if all(isinstance(image, bytes) for image in images):
        return _process_bytes(processor, text, tuple(images))
    return _process(processor, text, images)


def _process(processor: Any, text: str, images: Sequence[Any]) -> VisionPrompt:
    # Processors take None for no images, and an empty list for a mistake.
    pictures = [to_pil(image) for image in images] or None
    prepared = dict(processor(images=pictures, text=[text], padding=False, return_tensors="pt"))
    input_ids = _first_row(prepared.pop("input_ids"))
    prepared.pop("attention_mask", None)
    if "mm_token_type_ids" in prepared:
        token_types = _first_row(prepared.pop("mm_token_type_ids"))
    else:
        image_token_id = getattr(processor, "image_token_id", None)
        token_types = [int(token == image_token_id) for token in input_ids]
    return VisionPrompt(input_ids, token_types, _tensors(prepared))


# The samples of a group ask one after the other, with the same prompt.
_process_bytes = functools.lru_cache(maxsize=8)(_process)


def _first_row(batch: Any) -> list[int]:
    rows = batch.tolist() if hasattr(batch, "tolist") else batch
    return list(rows[0]) if isinstance(rows[0], Sequence) else list(rows)


def _tensors(features: Mapping[str, Any]) -> dict[str, Any]:
    """Return tensors of arrays and lists of them, which some processors return all the same."""
    # Heavy, and datasets of text import this module too.
    import numpy as np
    import torch

    made = {
        name: torch.as_tensor(value if torch.is_tensor(value) else np.asarray(value))
        for name, value in features.items()
        if value is not None
    }
    return {"pixel_values": torch.empty(0), **made}
