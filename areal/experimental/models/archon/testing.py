"""What the tests of models share: a packed batch, a loss, and a run over several processes."""

from __future__ import annotations

import math
import multiprocessing
import pickle
import tempfile
import traceback
import warnings
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from areal.api.errors import ConfigError
from areal.experimental.models.archon.parallel_dims import ArchonParallelDims
from areal.experimental.models.archon.ulysses import ulysses_gather_output, ulysses_slice_inputs

PRELOADED = (
    __name__,
    f"{__package__}.decoder",
    f"{__package__}.parallel.decoder",
    f"{__package__}.state_dict",
    "transformers.configuration_utils",
)
"""What every process needs and takes seconds to import; it is imported once, before they fork."""

TIMEOUT_S = 120
"""How long processes wait for each other, and the caller for them."""


class PackedBatch(NamedTuple):
    """Sequences in one row, in the order in which a model takes them."""

    tokens: Tensor
    positions: Tensor
    cu_seqlens: Tensor
    max_seqlen: int

    @classmethod
    def draw(cls, vocab_size: int, lengths: Sequence[int]) -> PackedBatch:
        """Return random tokens, of which the first three, often special ones, are left out."""
        tokens = torch.randint(3, vocab_size, (1, sum(lengths)))
        positions = torch.cat([torch.arange(length) for length in lengths]).unsqueeze(0)
        cu_seqlens = torch.tensor([0, *lengths]).cumsum(0).int()
        return cls(tokens, positions, cu_seqlens, max(lengths))

    def to(self, device: str) -> PackedBatch:
        """Return the batch on a device."""
        tensors = (tensor.to(device) for tensor in self[:3])
        return PackedBatch(*tensors, self.max_seqlen)


def loss_of(logits: Tensor) -> Tensor:
    """Return a loss in which every logit counts."""
    return logits.logsumexp(-1).square().mean()


def build_model(
    spec: Any,
    hf_config: Any,
    weights: Mapping[str, Tensor],
    dtype: torch.dtype = torch.float32,
    **chosen: Any,
) -> Any:
    """Return a model with a checkpoint's weights.

    Args:
        spec: The model's spec.
        hf_config: The checkpoint's configuration.
        weights: Its tensors, by their names on the Hub.
        dtype: Of the parameters; buffers are in fp32, as where models are trained.
        chosen: Arguments that no configuration has, such as ``attn_type``.
    """
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        model = spec.model_class(spec.model_args_class.from_hf_config(hf_config, **chosen)).eval()
    finally:
        torch.set_default_dtype(before)
    model.init_buffers("cpu")
    model.load_state_dict(spec.state_dict_adapter_class(hf_config).from_hf(dict(weights)))
    return model


class SplitRun(NamedTuple):
    """Logits [1, T, vocab] and whole gradients, by parameter, of a model split over processes."""

    logits: Tensor
    gradients: dict[str, Tensor]


def run_split(
    spec: Any,
    hf_config: Any,
    weights: Mapping[str, Tensor],
    batch: PackedBatch,
    is_critic: bool = False,
    **dims: int,
) -> SplitRun:
    """Split a model over processes of this machine, and run it forward and backward.

    Every process of data parallelism has the same batch, so gradients are those of one process.

    Args:
        spec: The model's spec.
        hf_config: The checkpoint's configuration.
        weights: Its tensors, by their names on the Hub.
        batch: What is run; the loss is ``loss_of``.
        is_critic: Whether the model has scores and no logits.
        dims: Axes of ``ArchonParallelDims``, such as ``tp=2``.

    Raises:
        ConfigError: The model cannot be split so.
        RuntimeError: A process failed; the message is its traceback.
    """
    # Forked from a process that has torch already, and in which no backward has started threads.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(PRELOADED))
    size = math.prod(dims.values())
    with tempfile.TemporaryDirectory() as folder:
        asked = Path(folder) / "asked.pt"
        torch.save({"weights": dict(weights), "batch": tuple(batch)}, asked)
        row = (folder, size, pickle.dumps((spec, hf_config, is_critic)), dims)
        processes = [context.Process(target=_run_rank, args=(rank, *row)) for rank in range(size)]
        for process in processes:
            process.start()
        for process in processes:
            process.join(TIMEOUT_S)
        for process in processes:
            process.kill()
        for failure in sorted(Path(folder).glob("failure*.pickle")):
            kind, text = pickle.loads(failure.read_bytes())
            raise (ConfigError if kind == "ConfigError" else RuntimeError)(text)
        return SplitRun(**torch.load(Path(folder) / "found.pt"))


def _run_rank(rank: int, folder: str, size: int, subject: bytes, dims: dict[str, int]) -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # torch's own, whatever the caller makes of warnings
    try:
        _run(rank, Path(folder), size, *pickle.loads(subject), dims)
    except Exception as error:
        is_refusal = isinstance(error, ConfigError)
        text = str(error) if is_refusal else traceback.format_exc()
        kind = "ConfigError" if is_refusal else "RuntimeError"
        (Path(folder) / f"failure{rank}.pickle").write_bytes(pickle.dumps((kind, text)))


def _run(
    rank: int,
    folder: Path,
    size: int,
    spec: Any,
    hf_config: Any,
    is_critic: bool,
    split: dict[str, int],
) -> None:
    store = dist.FileStore(str(folder / "store"), size)
    timeout = timedelta(seconds=TIMEOUT_S)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=timeout)
    asked = torch.load(folder / "asked.pt")
    batch = PackedBatch(*asked["batch"])
    dims = ArchonParallelDims(**split, world_size=size, device_type="cpu")
    model = build_model(spec, hf_config, asked["weights"], is_critic=is_critic)
    model = spec.parallelize_fn(
        model,
        dims,
        param_dtype=torch.float32,
        loss_parallel=False,
        enable_compile=False,
    )
    logits = _logits(model, batch, dims)
    loss_of(logits).backward()
    gradients = {n: _whole(p.grad) for n, p in model.named_parameters() if p.grad is not None}
    if rank == 0:
        torch.save({"logits": logits.detach(), "gradients": gradients}, folder / "found.pt")
    dist.destroy_process_group()


def _logits(model: nn.Module, batch: PackedBatch, dims: ArchonParallelDims) -> Tensor:
    """Return the logits of all tokens, of which a process of context parallelism has some."""
    inputs = {"input_ids": batch.tokens, "position_ids": batch.positions}
    if not dims.cp_enabled:
        return model(*batch)
    cp_rank = dims.get_mesh("cp").get_local_rank()
    inputs, _ = ulysses_slice_inputs(inputs, batch.tokens, cp_rank, dims.cp)
    part = model(inputs["input_ids"], inputs["position_ids"], batch.cu_seqlens, batch.max_seqlen)
    return ulysses_gather_output(part, dims.get_group("cp"), 1)


def _whole(gradient: Tensor) -> Tensor:
    return gradient.full_tensor() if isinstance(gradient, DTensor) else gradient
