"""Random weights that hide nothing: no zeros, no ones, logits of order one, uneven attention."""

from __future__ import annotations

import copy
import inspect
import math
import sys
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import (
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForPreTraining,
    AutoModelForSequenceClassification,
    PretrainedConfig,
)

from archon_probe.measure.hooks import Watch
from archon_probe.measure.tasks import LABELS, call, is_encoder

GAIN = 1.2  # of linear layers: scores of queries and keys then spread by more than one
EMBEDDING_STD = 0.15
NOISE_STD = 0.25  # around the fresh value of norms, biases and other vectors
NORMED_SCALE = 0.1  # of weights whose output is normed, or added to what is
EXPERTS_SCALE = 0.5  # the same for stacked experts, all of whose projections are scaled


def build_model(config: PretrainedConfig, attention: str = "eager") -> Any:
    """Return a fresh float32 causal language model, also of a composite config's text part.

    Of an encoder it is the model that gives a sequence one score.
    """
    torch.manual_seed(0)
    config = copy.deepcopy(config)  # transformers notes the dtype and the attention in it
    task: Any = AutoModelForCausalLM
    if is_encoder(config):
        task, config.num_labels = AutoModelForSequenceClassification, LABELS
    try:
        return task.from_config(config, attn_implementation=attention, dtype=torch.float32)
    except ValueError as error:
        if "Unrecognized configuration class" not in str(error):
            raise
    return _own_class(config)._from_config(
        config, attn_implementation=attention, dtype=torch.float32
    )


def names_beside(model: Any) -> set[str]:
    """Return the names that checkpoints of an encoder may have and its scoring model has not.

    They are those of the heads that it was pretrained with, of a pooling that the score does not
    use, and of numbers of positions, which were saved once.
    """
    found = {name for name, table in model.named_buffers() if not table.is_floating_point()}
    config = copy.deepcopy(model.config)
    for task in (AutoModelForMaskedLM, AutoModelForPreTraining, AutoModel):
        try:
            with torch.device("meta"):
                other = task.from_config(config)
        except ValueError:
            continue  # transformers has no model of the type for this task
        prefix = f"{model.base_model_prefix}." if task is AutoModel else ""
        found |= {prefix + name for name in other.state_dict()}
    return found - model.state_dict().keys()


def _own_class(config: PretrainedConfig) -> Any:
    """Return the causal model that the modeling module beside a text config has for it."""
    name = type(config).__module__.replace(".configuration_", ".modeling_")
    __import__(name)
    for _, cls in inspect.getmembers(sys.modules[name], inspect.isclass):
        if cls.__name__.endswith("ForCausalLM") and cls.config_class is type(config):
            return cls
    raise ValueError(f"transformers has no causal language model for {type(config).__name__}")


def random_model(config: PretrainedConfig, seed: int = 0, attention: str = "eager") -> Any:
    """Return a model in evaluation mode all of whose parameters and state are random.

    Weights whose output goes straight into a norm are small: there the norm's epsilon shows.

    Args:
        config: The model's config.
        seed: Gives the same model for the same number.
        attention: Name of the attention implementation.
    """
    model = build_model(config, attention).eval()
    randomise(model, seed)
    return model


@torch.no_grad()
def randomise(model: nn.Module, seed: int = 0) -> None:
    """Give a model random weights, in place."""
    generator = torch.Generator().manual_seed(seed)
    embeddings = {id(m.weight): m for m in model.modules() if isinstance(m, nn.Embedding)}
    inputs: dict[int, int] = {}
    for module in model.modules():
        if isinstance(module, nn.Linear):
            inputs[id(module.weight)] = module.in_features
        elif type(module).__name__ == "Conv1D":  # its weight is [inputs, outputs]
            inputs[id(module.weight)] = module.weight.shape[0]
    for parameter in model.parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        if id(parameter) in embeddings:
            parameter.copy_(noise * EMBEDDING_STD)
        elif parameter.dim() < 2 or _is_constant(parameter):
            # Some classes leave parameters uninitialised, where any number may be in memory.
            fresh = torch.nan_to_num(parameter, 0.0, 0.0, 0.0).clamp(-4, 4)
            parameter.copy_(fresh + noise * NOISE_STD)
        else:
            fan_in = inputs.get(id(parameter)) or min(parameter.shape[-2:])
            parameter.copy_(noise * (GAIN / math.sqrt(max(fan_in, 1))))
    saved = model.state_dict()
    for name, buffer in model.named_buffers():
        # A table of frequencies stays as it is computed.
        is_state = name in saved and buffer.is_floating_point() and "inv_freq" not in name
        if is_state and _is_constant(buffer):
            buffer.add_(torch.randn(buffer.shape, generator=generator) * NOISE_STD)
    # Small is what goes into norms: straight, or by way of the stream that layers add to.
    tokens = torch.arange(6)[None] % model.config.get_text_config().vocab_size
    with _Writers(model) as writers:
        call(model, tokens)
    for module in writers.found.values():
        for parameter in module.parameters(recurse=False):
            parameter.mul_(NORMED_SCALE if parameter.dim() < 3 else EXPERTS_SCALE)


def save_and_load(model: Any, folder: Path) -> dict[str, Tensor]:
    """Write a transformers model as its users do, and return the tensors of the files."""
    model.save_pretrained(folder)
    found: dict[str, Tensor] = {}
    for path in sorted(folder.glob("*.safetensors")):
        found |= load_file(path)
    return found


def _is_constant(tensor: Tensor) -> bool:
    return tensor.numel() > 1 and bool((tensor == tensor.flatten()[0]).all())


class _Writers(Watch):
    """Finds the linear layers and experts whose output is normed or added to one of its shape."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.found: dict[int, nn.Module] = {}
        self._width = model.config.get_text_config().hidden_size
        self._makers: dict[int, nn.Module] = {}
        self._kept: list[Tensor] = []  # so that no other tensor gets the storage of one of these
        for module in model.modules():
            has_stack = any(p.dim() == 3 for p in module.parameters(recurse=False))
            if "Norm" in type(module).__name__ and not list(module.children()):
                hook = module.register_forward_pre_hook(self._normed, with_kwargs=True)
            elif has_stack or isinstance(module, nn.Linear) or type(module).__name__ == "Conv1D":
                hook = module.register_forward_hook(self._made)
            else:
                continue
            self.hooks.enter_context(hook)

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if getattr(func, "__name__", "") in ("add", "__add__", "__iadd__", "add_", "__radd__"):
            both = [a for a in args[:2] if isinstance(a, Tensor)]
            if len(both) == 2 and both[0].shape == both[1].shape:
                for tensor in both if both[0].shape[-1:] == (self._width,) else ():
                    self._note(tensor)
        output = func(*args, **(kwargs or {}))
        if getattr(func, "__name__", "") in ("mul", "__mul__", "__rmul__") and len(args) == 2:
            # An output may be multiplied by a number before it is added.
            tensors = [a for a in args if isinstance(a, Tensor) and a.dim() > 0]
            maker = self._makers.get(tensors[0].untyped_storage().data_ptr()) if tensors else None
            if len(tensors) == 1 and maker is not None:
                self._made(maker, None, output)
        return output

    def _made(self, module: nn.Module, args: Any, output: Any) -> None:
        if isinstance(output, Tensor):
            self._kept.append(output)
            self._makers[output.untyped_storage().data_ptr()] = module

    def _normed(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        tensor = next((a for a in (*args, *kwargs.values()) if isinstance(a, Tensor)), None)
        if tensor is not None:
            self._note(tensor)

    def _note(self, tensor: Tensor) -> None:
        maker = self._makers.get(tensor.untyped_storage().data_ptr())
        if maker is not None:
            self.found[id(maker)] = maker
