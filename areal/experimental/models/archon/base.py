"""Base classes of Archon models, their arguments and their state-dict adapters."""

from __future__ import annotations

import dataclasses
import json
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from areal.api.errors import ConfigError
from areal.api.registry import nearest_names
from areal.experimental.models.archon.attention import ATTENTION_BACKENDS
from areal.experimental.models.archon.layers.feed_forward import LEARNED_ACTIVATIONS

# Standard deviation of a fresh linear layer or embedding.
# Source: `initializer_range` of most decoder configs in transformers.
INITIALIZER_RANGE = 0.02

INDEX_NAME = "model.safetensors.index.json"


@dataclass
class BaseModelArgs(ABC):
    """What a model is built from.

    Attributes:
        attn_type: Attention backend, see ``archon.attention``.
    """

    attn_type: str = "varlen"

    def __post_init__(self) -> None:
        if self.attn_type not in ATTENTION_BACKENDS:
            known = nearest_names(self.attn_type, ATTENTION_BACKENDS)
            raise ConfigError(f"unknown attn_type {self.attn_type!r}{known}")
        heads, kv_heads = (getattr(self, name, None) for name in ("n_heads", "n_kv_heads"))
        if isinstance(heads, int) and isinstance(kv_heads, int) and heads % max(kv_heads, 1):
            raise ConfigError(f"{heads} query heads do not share {kv_heads} key-value heads evenly")

    @classmethod
    @abstractmethod
    def from_hf_config(
        cls, hf_config: Any, is_critic: bool = False, **kwargs: Any
    ) -> BaseModelArgs:
        """Read the arguments from a Hugging Face config.

        Raises:
            ConfigError: The config asks for something that the model does not implement.
        """

    @staticmethod
    def require_decoder(hf_config: Any) -> None:
        """Refuse what a configuration may ask of any model and no Archon model has.

        Raises:
            ConfigError: Tokens see later ones, or layers have fields of their own.
        """
        # transformers reads `is_causal` wherever it makes masks, and no class declares it. It asks
        # for its truth, so that null and 0 are False.
        if not (stated := getattr(hf_config, "is_causal", True)):
            raise ConfigError(
                f"is_causal={stated!r} lets tokens see later ones, and Archon models are decoders"
            )
        _refuse_layer_config(hf_config)

    @staticmethod
    def require_encoder(hf_config: Any, is_critic: bool) -> None:
        """Refuse what a configuration or a caller may ask of any encoder and none has here.

        Raises:
            ConfigError: Logits are asked for, tokens see earlier ones alone, or layers have fields
                of their own.
        """
        if not is_critic:
            raise ConfigError(
                f"{hf_config.model_type} is an encoder, which gives scores and no logits; it is "
                "built with is_critic=True, to train a reward model"
            )
        if getattr(hf_config, "is_decoder", False):
            raise ConfigError(
                "is_decoder=True hides later tokens, and this Archon model is an encoder"
            )
        _refuse_layer_config(hf_config)

    @classmethod
    def from_values(
        cls,
        values: dict[str, Any],
        is_critic: bool,
        *,
        router_dtype: str | torch.dtype | None = None,
        **chosen: Any,
    ) -> Self:
        """Return arguments of what a configuration gives and what the trainer chooses.

        Args:
            values: From the configuration, by field.
            is_critic: Whether ``score`` replaces ``output``.
            router_dtype: Of the projection that scores experts; None leaves it as the model has it,
                and a model without experts has none.
            chosen: Further fields, which win over the configuration.

        Raises:
            ConfigError: An activation has parameters for which the model's checkpoints have no
                place.
        """
        args = cls(**{**values, "is_critic": is_critic, **chosen})
        _refuse_learned_activations(args)
        moe_args = getattr(args, "moe_args", None)
        if router_dtype is None or moe_args is None:
            return args
        routed = dataclasses.replace(moe_args, router_dtype=router_dtype)
        return dataclasses.replace(args, moe_args=routed)

    @staticmethod
    def _get_rope_theta(hf_config: Any, default: float = 10000.0) -> float:
        """Return the rotary base, from ``rope_parameters`` or the older attribute."""
        parameters = getattr(hf_config, "rope_parameters", None) or {}
        theta = parameters.get("rope_theta", getattr(hf_config, "rope_theta", None))
        return default if theta is None else float(theta)


def _refuse_learned_activations(args: BaseModelArgs) -> None:
    """Refuse an activation with parameters where the model's own, its default, has none."""
    moe_args = getattr(args, "moe_args", None)
    values = [*vars(args).values(), *(vars(moe_args).values() if moe_args else ())]
    own = {field.default for field in dataclasses.fields(args) if isinstance(field.default, str)}
    named = {value for value in values if isinstance(value, str)}
    if new := (named & LEARNED_ACTIVATIONS.keys()) - own:
        raise ConfigError(
            f"the activation {new.pop()} has parameters, which {type(args).__name__} has no place "
            "for: the activation of its checkpoints has none"
        )


def _refuse_layer_config(hf_config: Any) -> None:
    if getattr(hf_config, "is_heterogeneous", False):
        raise ConfigError(
            "per_layer_config gives layers fields of their own, which Archon models do not have; "
            "remove it"
        )


class BaseArchonModel(nn.Module, ABC):
    """A model that takes one packed row of tokens.

    Class attributes:
        is_causal: Whether what a token gets depends on earlier tokens alone.
    """

    is_causal: ClassVar[bool] = True

    @abstractmethod
    def forward(
        self,
        tokens: Tensor,
        positions: Tensor,
        cu_seqlens: Tensor,
        max_seqlen: int | Tensor,
        tree_attn_meta: Any = None,
    ) -> Tensor:
        """Return logits [1, T, vocab], or a critic's scores [1, T, num_labels].

        Args:
            tokens: [1, T] token ids; [1, T, dim] hidden states on later pipeline stages.
            positions: [1, T] position of each token inside its sequence.
            cu_seqlens: [B + 1] where each sequence starts, then T.
            max_seqlen: Tokens of the longest sequence.
        """

    def tie_weights(self) -> None:
        """Make the output layer use the embedding's weight, where the model ties them.

        Run it before wrapping the model for FSDP and again after: wrapping makes new parameters.
        """
        args = getattr(self, "model_args", None)
        embeddings = getattr(self, "tok_embeddings", None)
        output = getattr(self, "output", None)
        if (
            getattr(args, "enable_weight_tying", False)
            and embeddings is not None
            and output is not None
        ):
            output.weight = embeddings.weight

    def init_weights(self) -> None:
        """Give every parameter a fresh value, as for training from nothing."""
        fresh: set[int] = set()
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=INITIALIZER_RANGE)
                if getattr(module, "bias", None) is not None:
                    nn.init.zeros_(module.bias)
            elif module is not self and hasattr(module, "reset_parameters"):
                module.reset_parameters()
            else:
                continue
            fresh.update(id(parameter) for parameter in module.parameters(recurse=False))
        for parameter in self.parameters():
            if id(parameter) in fresh:
                continue
            # What a module holds beside layers: matrices like a linear's, and one number per head.
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=INITIALIZER_RANGE)
            else:
                nn.init.zeros_(parameter)

    def init_buffers(self, buffer_device: torch.device | str | None = None) -> None:
        """Compute buffers that are not in checkpoints; needed after building on ``meta``."""
        for module in self.modules():
            if module is not self and hasattr(module, "init_buffers"):
                module.init_buffers(buffer_device)


def keep_tokens(hidden: Tensor, logits_to_keep: Tensor | None) -> Tensor:
    """Return the hidden states that need logits: [1, T, dim], or [N, dim] at N positions.

    Args:
        hidden: [1, T, dim].
        logits_to_keep: [N], or [1, N] as pipeline stages get it.
    """
    if logits_to_keep is None:
        return hidden
    return hidden[0].index_select(0, logits_to_keep.reshape(-1))


class BaseStateDictAdapter(ABC):
    """Maps a model's state dict to the names on the Hub and back.

    Args:
        model_config: The Hugging Face configuration of the checkpoint.
        hf_assets_path: Folder of a Hugging Face checkpoint, for its index of shards.

    Attributes:
        from_hf_map: Names on the Hub, with placeholders, to names of parameters; a tuple where a
            tensor holds several, None where nothing needs it.
        to_hf_map: The other way round; a tuple where several tensors hold one parameter.
        fqn_to_index_mapping: Number of the shard that has each tensor, counted from 1; None for a
            checkpoint in one file.

    Raises:
        ConfigError: The folder's index cannot be read.
    """

    def __init__(self, model_config: Any, hf_assets_path: str | Path | None = None) -> None:
        self.model_config = model_config
        self.hf_assets_path = None if hf_assets_path is None else str(hf_assets_path)
        self.from_hf_map: dict[str, str | tuple[str, ...] | None] = {}
        self.to_hf_map: dict[str, str | tuple[str, ...]] = {}
        self.fqn_to_index_mapping = read_index(hf_assets_path) if hf_assets_path else None

    @abstractmethod
    def from_hf(self, hf_state_dict: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return the state dict of the Archon model."""

    @abstractmethod
    def to_hf(self, state_dict: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return the state dict under the names on the Hub."""

    @abstractmethod
    def convert_single_to_hf(self, name: str, tensor: Tensor) -> list[tuple[str, Tensor]]:
        """Return what one tensor of the Archon model is on the Hub: none, one or several."""

    def get_hf_storage_reader(self, path: str | Path, from_quantized: bool = False) -> Any:
        """Return torch's reader of Hugging Face checkpoints, for ``torch.distributed.checkpoint``.

        Args:
            path: Folder of the checkpoint.
            from_quantized: Its weights are in blocks of float8 with scales.
        """
        if from_quantized:
            from torch.distributed.checkpoint.quantized_hf_storage import (
                QuantizedHuggingFaceStorageReader,
            )

            return QuantizedHuggingFaceStorageReader(path=str(path))
        from torch.distributed.checkpoint import HuggingFaceStorageReader

        return HuggingFaceStorageReader(path=str(path))

    def _maybe_composite_hf_key(self, key: str) -> str:
        """Return a name as the checkpoint has it; a composite one has a prefix more."""
        return key


def read_index(folder: str | Path) -> dict[str, int] | None:
    """Return the number of the shard, from 1, that has each tensor of a checkpoint.

    Returns:
        None where the folder has no index.

    Raises:
        ConfigError: The index cannot be read.
    """
    path = Path(folder) / INDEX_NAME
    if not path.is_file():
        return None
    try:
        weight_map = json.loads(path.read_text())["weight_map"]
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path} is not an index of a checkpoint: {error!r}") from error
    order = {name: number for number, name in enumerate(sorted(set(weight_map.values())), 1)}
    return {key: order[file] for key, file in weight_map.items()}
