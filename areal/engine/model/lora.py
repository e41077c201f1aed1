"""LoRA adapters: low-rank matrices beside the linear layers of a model whose own weights stay.

The layers, the files and their names are those of peft, which is an optional package.

Source: Hu et al. 2021, arXiv:2106.09685.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from areal.api.errors import ConfigError
from areal.engine.model.causal_lm import HFCausalLM
from areal.engine.model.checkpoint import (
    copied,
    hub_tensors,
    read_tensors,
    whole_tensors,
    write_hf_model,
)
from areal.engine.model.shared_weights import SharedWeights

ADAPTER_CONFIG = "adapter_config.json"
ADAPTER_WEIGHTS = "adapter_model.safetensors"

# peft's name of the adapter in a model, which its files leave out, and what they put in front.
_NAME = "default"
_PREFIX = "base_model.model."
# Two adapters that differ in one of these are not the same function of the same tensors.
_IDENTITY = (
    "base_model_name_or_path",
    "r",
    "lora_alpha",
    "rank_pattern",
    "alpha_pattern",
    "use_rslora",
)
# What an adapter file may have beside two matrices a layer.
_UNAVAILABLE = (
    "use_dora",
    "lora_bias",
    "modules_to_save",
    "target_parameters",
    "trainable_token_indices",
    "layer_replication",
)


def is_adapter(path: str | Path) -> bool:
    """Return whether a path is the folder of an adapter."""
    return (Path(path) / ADAPTER_CONFIG).is_file()


def base_model_path(path: str) -> str:
    """Return the model on which an adapter was trained; a path of anything else is its own.

    Raises:
        ConfigError: The adapter does not name its model.
    """
    if not is_adapter(path):
        return path
    try:
        found = json.loads((Path(path) / ADAPTER_CONFIG).read_text())["base_model_name_or_path"]
    except (ValueError, LookupError, TypeError):
        found = None
    if not found or not isinstance(found, str):
        raise ConfigError(
            f"{Path(path) / ADAPTER_CONFIG} names no base_model_name_or_path; add the folder or "
            "the hub id of the model on which the adapter was trained"
        )
    return found


def make_config(base: str, rank: int, alpha: int, targets: list[str]) -> Any:
    """Return the configuration of a new adapter.

    Args:
        base: Folder or hub id of the model.
        rank: Of the matrices.
        alpha: Their product counts ``alpha / rank`` times.
        targets: Names of linear layers, such as "q_proj"; [] or ["all-linear"] means all but the
            head.

    Raises:
        ConfigError: peft is missing.
    """
    return _peft().LoraConfig(
        r=rank,
        lora_alpha=alpha,
        target_modules="all-linear" if targets in ([], ["all-linear"]) else targets,
        base_model_name_or_path=base,
        task_type="CAUSAL_LM",
    )


def read_config(folder: str | Path) -> Any:
    """Return the configuration of an adapter on disk.

    Raises:
        ConfigError: There is none, or of a kind that is not available here; or peft is missing.
    """
    if not is_adapter(folder):
        raise ConfigError(f"there is no LoRA adapter in {folder}: it has no {ADAPTER_CONFIG}")
    peft, file = _peft(), Path(folder) / ADAPTER_CONFIG
    try:
        if (kind := json.loads(file.read_text())["peft_type"]) != "LORA":
            raise ConfigError(f"{folder} has an adapter of peft_type {kind}; LORA is available")
        config = peft.LoraConfig.from_pretrained(str(folder))
    except (ValueError, TypeError, LookupError, OSError) as error:
        raise ConfigError(f"cannot read {file}: {error}") from error
    extras = [name for name in _UNAVAILABLE if getattr(config, name, None)]
    if config.bias != "none":
        extras.append("bias")
    config.inference_mode = False  # as peft saves it, the adapter would be frozen
    if extras:
        raise ConfigError(
            f"the adapter {folder} has {', '.join(extras)}, which is not available here; low-rank "
            "matrices of linear layers are"
        )
    return config


class LoraCausalLM(HFCausalLM):
    """A Hugging Face model with an adapter at work in it; only the adapter is trained.

    A new adapter changes nothing: its second matrices are zero. The first ones are drawn from
    PyTorch's random stream. In 16 bits they are kept in float32, as small steps would be lost.

    Args:
        module: A model as ``HFCausalLM`` takes it; gets the adapter's layers in place.
        config: A ``peft.LoraConfig``.

    Raises:
        ConfigError: The adapter's targets are not linear layers of the model.
    """

    def __init__(self, module: nn.Module, config: Any) -> None:
        super().__init__(module)
        self.lora_config = config
        self._layers = _inject(module, config)
        if not isinstance(config.target_modules, str):
            config.target_modules = sorted(config.target_modules)  # peft has a set

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Yield the parameters of the adapter by their names in its file."""
        for name, parameter in self.module.named_parameters():
            if self._is_of_adapter(name):
                yield _PREFIX + name.replace(f".{_NAME}.", "."), parameter

    def full_parameters(self, dtype: torch.dtype | None = None) -> Iterator[tuple[str, Tensor]]:
        """Yield the tensors of the model with the adapter merged into them."""
        return hub_tensors(self.module, dtype, self._merged_tensors())

    def write(self, folder: Path, tokenizer: Any = None) -> None:
        """Write the adapter alone, in a folder that peft reads."""
        self.stage()(folder, tokenizer)

    def stage(self) -> Callable[[Path, Any], None]:
        tensors = dict(copied(self.named_parameters()))

        def write(folder: Path, tokenizer: Any = None) -> None:
            contiguous = {name: tensor.contiguous() for name, tensor in tensors.items()}
            save_file(contiguous, folder / ADAPTER_WEIGHTS, metadata={"format": "pt"})
            self.lora_config.save_pretrained(str(folder))
            if tokenizer is not None:
                tokenizer.save_pretrained(folder)

        return write

    def write_merged(self, folder: Path, tokenizer: Any = None) -> None:
        write_hf_model(self.module, folder, tokenizer, self._merged_tensors())

    def read(self, folder: str | Path) -> None:
        """Copy an adapter on disk into the one of this model, all or nothing.

        Raises:
            ConfigError: There is none, it is damaged, or it is another model's or of other sizes.
        """
        found = read_config(folder)
        for name in _IDENTITY:
            here, there = getattr(self.lora_config, name), getattr(found, name)
            if here != there:
                raise ConfigError(
                    f"the adapter {folder} does not fit: its {name} is {there!r}, here {here!r}"
                )
        loaded, own = read_tensors(Path(folder)), dict(self.named_parameters())
        missing, extra = sorted(own.keys() - loaded.keys()), sorted(loaded.keys() - own.keys())
        wrong = sorted(n for n in own.keys() & loaded.keys() if own[n].shape != loaded[n].shape)
        if missing or extra or wrong:
            raise ConfigError(
                f"the adapter {folder} does not fit: missing {missing}, unknown {extra}, other "
                f"shape {wrong}"
            )
        with torch.no_grad():
            for name, tensor in loaded.items():
                own[name].copy_(tensor)

    @contextmanager
    def without_adapter(self) -> Iterator[None]:
        """Let the model compute what it did before it had the adapter."""
        for layer in self._layers.values():
            layer.enable_adapters(False)
        try:
            yield
        finally:
            for layer in self._layers.values():
                layer.enable_adapters(True)

    def merge(self) -> nn.Module:
        """Merge the adapter into the weights, take its layers out, and return the model."""
        with torch.no_grad():
            for path, layer in self._layers.items():
                weight = layer.base_layer.weight
                weight.copy_(_merged(weight, layer))
                self.module.set_submodule(path, layer.base_layer)
        self.module.requires_grad_(True)
        del self.module.peft_config
        return self.module

    def _is_of_adapter(self, name: str) -> bool:
        return ".lora_" in name and name.partition(".lora_")[0] in self._layers

    @torch.no_grad()
    def _merged_tensors(self) -> Iterator[tuple[str, Tensor]]:
        for name, tensor in whole_tensors(self.module):
            path, is_base, own = name.partition(".base_layer.")
            if is_base:
                merged = _merged(tensor, self._layers[path]) if own == "weight" else tensor
                yield f"{path}.{own}", merged
            elif not self._is_of_adapter(name):
                yield name, tensor


class BaseOfLora(HFCausalLM):
    """The model beneath an adapter, over the same parameters: for a reference without a copy.

    Args:
        weights: Of a ``LoraCausalLM``.
    """

    def __init__(self, weights: SharedWeights) -> None:
        assert isinstance(weights.lm, LoraCausalLM)
        super().__init__(weights.module)
        self._weights = weights
        self._adapted = weights.lm

    def logits(self, *args: Any, **kwargs: Any) -> Tensor:
        # Rollouts that go on meanwhile want the adapter.
        with self._weights.reading(), self._adapted.without_adapter():
            return super().logits(*args, **kwargs)


def put_adapter(weights: SharedWeights, folder: str | Path) -> None:
    """Put an adapter on disk into a model in use, in the place of one that it has.

    Raises:
        ConfigError: It does not fit, or the model takes none.
    """
    with weights.writing():
        if not isinstance(weights.lm, HFCausalLM):
            raise ConfigError("an Archon model takes no LoRA adapter; use the backend fsdp:d1")
        if not isinstance(weights.lm, LoraCausalLM):
            weights.lm = LoraCausalLM(weights.module, read_config(folder))
        weights.lm.read(folder)


def merge_adapter(module: nn.Module, folder: str | Path) -> nn.Module:
    """Merge an adapter on disk into a model as ``HFCausalLM`` takes it, and return the model.

    Raises:
        ConfigError: It does not fit.
    """
    adapted = LoraCausalLM(module, read_config(folder))
    adapted.read(folder)
    return adapted.merge()


def _merged(weight: Tensor, layer: Any) -> Tensor:
    # Added in the adapter's type and rounded once.
    delta: Tensor = layer.get_delta_weight(_NAME)
    return (weight.detach().to(delta.dtype) + delta).to(weight.dtype)


def _inject(module: nn.Module, config: Any) -> dict[str, Any]:
    """Put an adapter's layers into a model and return them by their paths.

    Raises:
        ConfigError: A target names nothing, or no linear layer.
    """
    peft = _peft()
    if config.target_modules == "all-linear":
        config.target_modules = _all_linear(module)
    targets = config.target_modules
    if not isinstance(targets, str):
        _check_targets(module, targets or ())
    patterns = dict(config.rank_pattern), dict(config.alpha_pattern)
    with warnings.catch_warnings():
        # peft fixes a setting by itself, and adds patterns for experts that are no targets.
        warnings.filterwarnings("ignore", message="fan_in_fan_out is set")
        warnings.filterwarnings("ignore", message="The following (rank|alpha)_pattern keys")
        try:
            peft.inject_adapter_in_model(config, module, _NAME)
        except ValueError as error:
            raise ConfigError(f"target_modules {targets}: {error}") from error
    config.rank_pattern, config.alpha_pattern = patterns
    peft.tuners.tuners_utils.cast_adapter_dtype(module, _NAME)
    return {
        path: layer
        for path, layer in module.named_modules()
        if isinstance(layer, peft.tuners.lora.LoraLayer)
    }


def _all_linear(module: Any) -> list[str]:
    """Return the last names of linear layers; servers know layers by these, and not by paths."""
    head = module.get_output_embeddings()
    layers = [
        path for path, each in module.named_modules() if _is_linear(each) and each is not head
    ]
    return sorted({path.rpartition(".")[2] for path in layers})


def _check_targets(module: Any, targets: Any) -> None:
    names = dict(module.named_modules())
    linear = {path for path, child in names.items() if _is_linear(child)}
    for target in targets:
        found = {path for path in names if path == target or path.endswith(f".{target}")}
        if not found or found - linear:
            why = "no linear layer" if found else "nothing in the model"
            known = ", ".join(sorted({path.rpartition(".")[2] for path in linear}))
            raise ConfigError(
                f"target_modules: {target!r} is {why}; its linear layers are {known}. [] takes all "
                "but the head"
            )
        embedding = module.get_input_embeddings().weight
        if any(names[path].weight is embedding for path in found):
            raise ConfigError(
                f"target_modules: {target!r} shares its weight with the embedding, which an "
                "adapter of it would change too; leave it out"
            )


def _is_linear(module: nn.Module) -> bool:
    from transformers.pytorch_utils import Conv1D  # loads what a server without adapters need not

    return isinstance(module, nn.Linear | Conv1D)


def _peft() -> Any:
    try:
        import peft  # an optional package, of which other runs have no use
    except ImportError as error:
        raise ConfigError(
            f"LoRA needs the package peft ({error}): pip install 'areal-lite[lora]'"
        ) from error
    return peft
