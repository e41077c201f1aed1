"""Archon models as the engines run them: made, loaded, called on packed batches, saved.

Shape letters: T packed tokens, N tokens whose logits are wanted, V vocabulary, B sequences.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from safetensors import SafetensorError
from torch import Tensor, nn

from areal.api.cli_args import ArchonEngineConfig, ModelSpecConfig
from areal.api.errors import ConfigError
from areal.engine.attention import AttentionPlan
from areal.engine.causal_lm import UNLIMITED, CausalLM
from areal.engine.cpu_kernels import use_cpu_kernels
from areal.engine.fused_linear import fuse_siblings
from areal.engine.model import make_config, require_path
from areal.engine.processes import is_first
from areal.engine.suitability import apart_logits, check_equal, planned_logits
from areal.experimental.models.archon import (
    ModelSpec,
    get_model_spec,
    get_supported_model_types,
    is_supported_model,
)
from areal.experimental.models.archon.activation_checkpoint import (
    ActivationCheckpointConfig,
    apply_ac,
)
from areal.experimental.models.archon.base import BaseArchonModel
from areal.experimental.models.archon.compile import apply_compile
from areal.experimental.models.archon.parallel_dims import ArchonParallelDims
from areal.experimental.models.archon.rope import RopeArgs
from areal.experimental.models.archon.state_dict import load_checkpoint, save_checkpoint
from areal.experimental.models.archon.ulysses import (
    ulysses_gather_output,
    ulysses_slice_inputs,
)

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

# As the configuration spells a type, and as the router's arguments do.
_ROUTER_DTYPES = {"fp32": "float32"}
# Rope kinds whose frequencies change with the length of the sequence, beyond the length that the
# model was pretrained on. Cached keys keep those of the length at which they were computed.
_LENGTH_DEPENDENT = ("dynamic", "longrope")


class ArchonCausalLM(CausalLM):
    """Is an Archon model with what its files need.

    Args:
        module: The model.
        hf_config: The Hugging Face configuration that it was made from.
        spec: What the package knows of its model_type.
        options: Of the engine.

    Attributes:
        source: Folder of the checkpoint it came from, whose generation settings are kept.
    """

    source: str | None = None
    dims: ArchonParallelDims | None = None  # of a model that several processes share
    recomputed: ActivationCheckpointConfig | None = None  # what the backward computes again

    def __init__(
        self,
        module: BaseArchonModel,
        hf_config: Any,
        spec: ModelSpec,
        options: ArchonEngineConfig,
    ) -> None:
        super().__init__(module)
        self.args: Any = module.model_args
        self.hf_config = hf_config
        self.spec = spec
        self.options = options
        self.adapter = spec.state_dict_adapter_class(self.args)
        self.num_layers = self.args.n_layers
        self.vocab_size = self.args.vocab_size
        self.num_embeddings = len(module.tok_embeddings.weight)
        self.max_length = _max_length(hf_config.get_text_config(), self.args)

    def logits(
        self,
        tokens_T: Tensor,
        positions_T: Tensor,
        lengths: Sequence[int],
        plan: AttentionPlan | None = None,
        keep_N: Tensor | None = None,
    ) -> Tensor:
        if self.dims is not None:
            logits_TV = self._split_logits(tokens_T, positions_T, lengths, self.dims)
            return logits_TV if keep_N is None else logits_TV[keep_N]
        ends_B1 = torch.tensor([0, *lengths]).cumsum(0, dtype=torch.int32)
        out = self.module(
            tokens_T[None],
            positions_T[None],
            ends_B1.to(tokens_T.device),
            max(lengths),
            logits_to_keep=keep_N,
            attention_plan=plan,
        )
        return out if keep_N is not None else out[0]

    def wrap(self, dims: ArchonParallelDims | None, reduce_dtype: torch.dtype) -> None:
        """Recomputes and compiles blocks as the options say, and shares the model among processes.

        Args:
            dims: In how many parts; None keeps it whole. Each process has all of it before.
            reduce_dtype: In which gradients are summed over processes.

        Raises:
            ConfigError: A size of the model does not divide.
        """
        options = self.options
        if dims is None:
            apply_ac(self.module, self.recomputed, model_compile_enabled=options.enable_compile)
            if options.enable_compile:
                apply_compile(self.module)
            return
        self.spec.parallelize_fn(
            self.module,
            dims,
            param_dtype=self.dtype,
            reduce_dtype=reduce_dtype,
            loss_parallel=False,
            cpu_offload=options.offload_params,
            reshard_after_forward_policy=options.reshard_after_forward_policy,
            ac_config=self.recomputed,
            enable_compile=options.enable_compile,
        )
        self.dims = dims

    def _split_logits(
        self,
        tokens_T: Tensor,
        positions_T: Tensor,
        lengths: Sequence[int],
        dims: ArchonParallelDims,
    ) -> Tensor:
        """Returns the logits [T, V] of a packed row on every process that shares it."""
        total, padding = len(tokens_T), -len(tokens_T) % dims.seq_len_divisor
        if padding:
            # A sequence of its own, which no other token sees.
            tokens_T, positions_T = (F.pad(x, (0, padding)) for x in (tokens_T, positions_T))
            lengths = [*lengths, padding]
        ends_B1 = torch.tensor([0, *lengths]).cumsum(0, dtype=torch.int32).to(tokens_T.device)
        inputs = {"input_ids": tokens_T[None], "position_ids": positions_T[None]}
        cp_group = dims.get_group("cp")
        if cp_group is not None:
            inputs, _ = ulysses_slice_inputs(
                inputs, tokens_T[None], cp_group.rank(), cp_group.size()
            )
        out = self.module(inputs["input_ids"], inputs["position_ids"], ends_B1, max(lengths))
        if cp_group is not None:
            out = ulysses_gather_output(out, cp_group, 1)
        return out[0, :total]

    def require_plans(self) -> None:
        if self.dims is not None:
            raise ConfigError("a model that several processes share does not generate here")
        if self.options.enable_compile:
            raise ConfigError(
                "actor.archon.enable_compile is for training alone: each step of the embedded "
                "engine has other shapes, and compiling for them takes longer than it saves; set "
                "it to false"
            )
        was_training = self.module.training
        self.module.eval()
        try:
            found = planned_logits(self)
        except (ConfigError, RuntimeError) as error:
            raise ConfigError(
                f"{type(self.module).__name__} does not run in the embedded engine: {error}"
            ) from error
        check_equal(self.module, apart_logits(self), found)
        self.module.train(was_training)

    def enable_checkpointing(self) -> None:
        """Notes what ``ac_mode`` says for ``wrap``."""
        options = self.options
        self.recomputed = ActivationCheckpointConfig(
            mode=options.ac_mode,
            selective_ac_option=options.selective_ac_option,
            memory_budget=options.ac_memory_budget,
            preserve_rng_state=options.ac_preserve_rng_state,
            debug=options.ac_debug,
        )

    def turn_off_dropout(self) -> None:
        """Does nothing: Archon models have no dropout."""

    @property
    def dropouts(self) -> dict[str, float]:
        """Is what the configuration asks for and no Archon model does."""
        fields = vars(self.hf_config.get_text_config()).items()
        return {
            name: value
            for name, value in fields
            if ("dropout" in name or "pdrop" in name) and isinstance(value, float) and value
        }

    def write(self, folder: Path, tokenizer: Any = None) -> None:
        save_checkpoint(self.module, folder, self.adapter)
        if not is_first():
            return
        write_config(self.hf_config, self.dtype, folder, self.source)
        if tokenizer is not None:
            tokenizer.save_pretrained(folder)

    def read(self, folder: str | Path) -> None:
        load_checkpoint(self.module, folder, self.adapter)


def make_archon_model(
    spec: ModelSpecConfig,
    tokenizer: PreTrainedTokenizerBase,
    dtype: torch.dtype,
    device: torch.device,
    options: ArchonEngineConfig,
) -> ArchonCausalLM:
    """Makes a small model with random weights that depend on ``spec.seed`` alone.

    Raises:
        ConfigError: There is no Archon model of that architecture, or not with these sizes.
    """
    what = f"run.model.architecture {spec.architecture!r}"
    lm = build_archon_model(make_config(spec, tokenizer), dtype, device, options, what)
    _draw_weights(lm.module, spec.seed)
    return lm


def load_archon_model(
    path: str,
    dtype: torch.dtype,
    device: torch.device,
    options: ArchonEngineConfig,
    fresh_seed: int | None = None,
) -> ArchonCausalLM:
    """Loads a model from a Hugging Face checkpoint folder or a hub id.

    Args:
        path: The folder or id.
        dtype: Of the parameters.
        device: Where they go.
        options: Of the engine.
        fresh_seed: Takes the configuration alone, and random weights of this seed.

    Raises:
        ConfigError: There is no such checkpoint, no Archon model for it, or it is damaged.
    """
    from transformers import AutoConfig

    require_path(path)
    what = f"actor.path {path!r}"
    try:
        hf_config = AutoConfig.from_pretrained(path)
        folder = _local_folder(path, with_weights=fresh_seed is None)
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise ConfigError(f"cannot load {what}: {error}") from error
    lm = build_archon_model(hf_config, dtype, device, options, what)
    lm.source = folder
    if fresh_seed is None:
        try:
            lm.read(folder)
        except ConfigError as error:
            raise ConfigError(f"cannot load {what}: {error}") from error
    else:
        _draw_weights(lm.module, fresh_seed)
    return lm


def require_archon_model(model_type: str, what: str) -> ModelSpec:
    """Returns what the package knows of a model_type.

    Args:
        model_type: As Hugging Face spells it.
        what: The key of the configuration that asks, for the message.

    Raises:
        ConfigError: No Archon model implements it; it says how to make one.
    """
    if not is_supported_model(model_type):
        known = ", ".join(sorted(get_supported_model_types()))
        raise ConfigError(
            f"{what}: there is no Archon model for model_type {model_type!r}. "
            f"`scaffold add-archon-model {model_type}` writes one; known: {known}. "
            "The backend fsdp:d1 trains Hugging Face's own"
        )
    found: ModelSpec = get_model_spec(model_type)
    return found


def build_archon_model(
    hf_config: Any,
    dtype: torch.dtype,
    device: torch.device,
    options: ArchonEngineConfig,
    what: str,
) -> ArchonCausalLM:
    """Makes a model with memory for its parameters and nothing in it.

    Args:
        hf_config: What to make.
        dtype: Of the parameters.
        device: Where they go.
        options: Of the engine.
        what: The key of the configuration that asks, for messages.

    Raises:
        ConfigError: No Archon model implements the configuration.
    """
    model_spec = require_archon_model(hf_config.model_type, what)
    try:
        args = _model_args(model_spec.model_args_class, hf_config, options)
        with default_dtype(dtype), torch.device("meta"):
            module = model_spec.model_class(args)
    except ConfigError as error:
        raise ConfigError(f"{what}: {error}") from error
    module.to_empty(device=device)
    module.tie_weights()  # to_empty gives every name a tensor of its own
    module.init_buffers(device)
    return ArchonCausalLM(module.eval(), hf_config, model_spec, options)


def _model_args(args_class: Any, hf_config: Any, options: ArchonEngineConfig) -> Any:
    """Returns what the model is built from; one without experts has no router."""
    args = args_class.from_hf_config(hf_config, attn_type=options.attn_type)
    moe_args = getattr(args, "moe_args", None)
    if moe_args is None or options.moe_router_dtype is None:
        return args
    routed = dataclasses.replace(moe_args, router_dtype=_ROUTER_DTYPES[options.moe_router_dtype])
    return dataclasses.replace(args, moe_args=routed)


def _draw_weights(module: nn.Module, seed: int) -> None:
    model: Any = module
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        model.init_weights()


def prepare_archon_model(lm: ArchonCausalLM) -> ArchonCausalLM:
    """Lets a model that has its weights, and stays whole, use what is fast on its device."""
    if lm.device.type == "cpu" and not lm.options.enable_compile:
        use_cpu_kernels(lm.module)
        fuse_siblings(lm.module)
    return lm


def _max_length(config: Any, args: Any) -> int:
    """Returns how long a sequence may become by generation."""
    limits = [getattr(config, "max_position_embeddings", None) or UNLIMITED]
    for value in vars(args).values():
        if isinstance(value, RopeArgs) and value.kind in _LENGTH_DEPENDENT:
            original = value.scaling.get("original_max_position_embeddings")
            limits.append(original or value.max_position_embeddings)
    return min(limits)


def _local_folder(path: str, with_weights: bool) -> str:
    if Path(path).is_dir() or not with_weights:
        return path
    from huggingface_hub import snapshot_download

    return snapshot_download(path, allow_patterns=["*.json", "*.safetensors"])


def write_config(hf_config: Any, dtype: torch.dtype, folder: Path, source: str | None) -> None:
    """Writes ``config.json``, and ``generation_config.json`` where the source has one."""
    from transformers import GenerationConfig
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    if not hf_config.architectures:
        hf_config.architectures = [MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[hf_config.model_type]]
    hf_config.dtype = dtype
    hf_config.save_pretrained(folder)
    if source is not None and (Path(source) / "generation_config.json").is_file():
        GenerationConfig.from_pretrained(source).save_pretrained(folder)


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """Makes new parameters of this type."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
