"""Language models that see: images beside tokens, and positions along several axes.

Shape letters: T packed tokens, L tokens of one sequence, A axes of positions, N tokens whose logits
are wanted.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from areal.api.errors import ConfigError
from areal.engine.model.attention import AttentionPlan
from areal.engine.model.causal_lm import HFCausalLM, PackedInputs
from areal.experimental.models.archon.parallel_dims import ArchonParallelDims
from areal.utils.data import concat_padded_tensors

# In configurations of transformers: what marks a part of an image or a video in a prompt.
_PLACEHOLDERS = ("image_token_id", "video_token_id", "audio_token_id")


@dataclass(frozen=True)
class Sight:
    """The images of one sequence, as the model takes them.

    Args:
        features: What the processor made of them, on the model's device.
        positions_AL: Of the tokens of the sequence; None where they just count up.
        shift: How far the positions behind the last image are from counting up.
    """

    features: dict[str, Tensor]
    positions_AL: Tensor | None
    shift: int

    def positions(self, length: int) -> Tensor | None:
        """Return [A, length], for the sequence with more tokens behind it or with fewer."""
        if self.positions_AL is None:
            return None
        known = self.positions_AL.shape[1]
        if length <= known:
            return self.positions_AL[:, :length]
        more = torch.arange(known, length, device=self.positions_AL.device) + self.shift
        return torch.cat([self.positions_AL, more.expand(len(self.positions_AL), -1)], 1)


class ImageTextLM(HFCausalLM):
    """A model of transformers that takes images, in one process.

    Args:
        module: A model that ``areal.engine.loading.huggingface`` made, loaded or prepared.

    Attributes:
        image_token: Marks a part of an image in a prompt.
        placeholders: All such tokens, which no answer may hold.

    Raises:
        ConfigError: Its configuration names no such token.
    """

    takes_images = True

    def __init__(self, module: nn.Module) -> None:
        super().__init__(module)
        model: Any = module
        config = model.config
        found = getattr(config, "image_token_id", None)
        if not isinstance(found, int):
            raise ConfigError(
                f"{type(model).__name__} takes images, and its configuration has no "
                "image_token_id; choose a model whose prompts hold a token for each part of an "
                "image"
            )
        self.image_token = found
        ids = {getattr(config, name, None) for name in _PLACEHOLDERS}
        self.placeholders = sorted(
            i for i in ids if isinstance(i, int) and 0 <= i < self.vocab_size
        )
        self._takes = set(inspect.signature(model.forward).parameters)
        self._rope_index: Any = getattr(model.model, "get_rope_index", None)
        vision = getattr(config, "vision_config", None)
        self._merged_patches = getattr(vision, "spatial_merge_size", 1) ** 2
        # By the shapes of features: how many tokens images of these shapes take.
        self._num_tokens: dict[tuple[tuple[int, ...], ...], int] = {}

    def see(self, tokens: Sequence[int], features: Mapping[str, Any]) -> Sight | None:
        """Return what a sequence looks at; None where it has no image.

        Args:
            tokens: Of the sequence, with ``image_token`` for each part of an image.
            features: What the processor gave; ``pixel_values`` are empty for no image.

        Raises:
            ValueError: Images and tokens do not belong together.
        """
        taken = self.taken_features(tokens, features)
        if taken is None:
            return None
        positions_AL = self._positions(tokens, taken)
        shift = 0 if positions_AL is None else int(positions_AL.max()) + 1 - len(tokens)
        return Sight(taken, positions_AL, shift)

    def taken_features(
        self, tokens: Sequence[int], features: Mapping[str, Any]
    ) -> dict[str, Tensor] | None:
        """Return what the model takes of the features of a sequence; None where it has no image.

        Raises:
            ValueError: Images and tokens do not belong together.
        """
        num_tokens = sum(token == self.image_token for token in tokens)
        pixels = features.get("pixel_values")
        if pixels is None or not pixels.numel():
            if num_tokens:
                raise ValueError(f"{num_tokens} image tokens and no image: pixel_values is empty")
            return None
        taken = {
            name: value.to(self.device, self.dtype if value.is_floating_point() else None)
            for name, value in features.items()
            if name in self._takes and torch.is_tensor(value)
        }
        expected = self._count_tokens(taken)
        if num_tokens != expected:
            raise ValueError(
                f"{num_tokens} image tokens for images of {expected}: input_ids and pixel_values "
                "must come from one call of the processor, and no answer may hold an image token"
            )
        return taken

    def packed_logits(self, batch: PackedInputs, plan: AttentionPlan | None = None) -> Tensor:
        if not any(batch.sights):
            return super().packed_logits(batch, plan)
        sights = [sight for sight in batch.sights if sight is not None]
        images = concat_padded_tensors([sight.features for sight in sights])
        return self._own_logits(
            batch.tokens_T, self._joined(batch), batch.lengths, plan, batch.keep_N, images
        )

    def wrap(
        self, dims: ArchonParallelDims | None, reduce_dtype: torch.dtype, cpu_offload: bool
    ) -> None:
        if dims is not None:
            raise ConfigError(
                f"{type(self.module).__name__} takes images, and several processes do not share "
                "such a model here; set actor.backend=fsdp:d1"
            )

    def _joined(self, batch: PackedInputs) -> Tensor:
        """Return the positions [A, T] of a packed batch, or [T] where they just count up."""
        rows = batch.positions_T.split(batch.lengths)
        # A sequence of padding has no entry.
        sights = [*batch.sights, *[None] * (len(rows) - len(batch.sights))]
        seen = [s and s.positions(len(row)) for row, s in zip(rows, sights, strict=True)]
        num_axes = next((len(each) for each in seen if each is not None), 0)
        if not num_axes:
            return batch.positions_T
        placed = [
            row.expand(num_axes, -1) if each is None else each
            for row, each in zip(rows, seen, strict=True)
        ]
        return torch.cat(placed, 1)

    def _positions(self, tokens: Sequence[int], features: dict[str, Tensor]) -> Tensor | None:
        """Return the positions [A, L] of tokens and parts of images, where the model has any."""
        if self._rope_index is None:
            return None
        ids = torch.tensor([tokens], device=self.device)
        types = (ids == self.image_token).int()
        try:
            positions: Tensor = self._rope_index(
                input_ids=ids, mm_token_type_ids=types, **features
            )[0][:, 0]
        except RuntimeError as error:
            raise ValueError(
                "the images cannot be told apart: a prompt needs a token between two images, as "
                f"the model's own chat template puts there ({error})"
            ) from error
        return positions

    def _count_tokens(self, features: dict[str, Tensor]) -> int:
        """Return how many tokens images take.

        Raises:
            ValueError: There are no grids of patches, or more or fewer pixels than they have.
        """
        pixels, grid = features["pixel_values"], features.get("image_grid_thw")
        if grid is None and "image_grid_thw" in self._takes:
            raise ValueError("pixel_values come without image_grid_thw, the places of patches")
        if grid is not None:
            num_patches = int(grid.prod(-1).sum())
            if len(pixels) != num_patches:
                raise ValueError(f"{len(pixels)} patches for grids of {num_patches}")
            return num_patches // self._merged_patches
        shapes = tuple(tuple(value.shape) for value in features.values())
        if shapes not in self._num_tokens:
            model: Any = self.module
            with torch.no_grad():
                seen = model.get_image_features(**features).pooler_output
            parts = seen if isinstance(seen, list | tuple) else [seen]
            self._num_tokens[shapes] = sum(part.numel() // part.shape[-1] for part in parts)
        return self._num_tokens[shapes]
