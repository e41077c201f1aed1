"""Checkpoints into an Archon model and back, beside a plain copy of the same safetensors."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from areal.experimental.models.archon.state_dict import (
    Fused,
    Rename,
    RuleAdapter,
    Stacked,
    Transposed,
    load_checkpoint,
    save_checkpoint,
)
from benchmarks.clock import interleaved_rates, ratio_spread, use_one_thread
from benchmarks.results import Result
from benchmarks.settings import Settings

WIDTH = 1024
NUM_LAYERS = 4
NUM_HEADS = 16
NUM_EXPERTS = 16
SHARD_BYTES = 32 * 2**20
MB = 2**20
DTYPE = torch.bfloat16


@dataclass(frozen=True)
class Layout:
    """How a checkpoint holds the parameters of one layer.

    Args:
        what: For a person.
        shapes: Of each parameter of a layer.
        rules: For all layers.
    """

    what: str
    shapes: dict[str, tuple[int, ...]]
    rules: tuple[Any, ...]


def _layouts(width: int) -> dict[str, Layout]:
    projections = dict.fromkeys(("w1", "w2", "w3", "wo"), (4 * width, width))
    experts = dict.fromkeys(("w1", "w2"), (NUM_EXPERTS, width // 2, width))
    qkv = dict.fromkeys(("wq", "wk", "wv"), (4 * width, width))
    parts = tuple(f"layers.{{}}.{name}" for name in qkv)
    return {
        "plain": Layout(
            "one tensor, one parameter",
            projections,
            tuple(Rename(f"h.{{}}.{n}", f"layers.{{}}.{n}") for n in projections),
        ),
        "fused": Layout(
            "q, k and v of each head in one tensor",
            qkv,
            (Fused("h.{}.qkv", parts, groups="n_heads"),),
        ),
        "experts": Layout(
            "one tensor for each expert",
            experts,
            tuple(Stacked(f"h.{{}}.{{e}}.{n}", f"layers.{{}}.{n}") for n in experts),
        ),
        "crosswise": Layout(
            "transposed tensors",
            projections,
            tuple(Transposed(f"h.{{}}.{n}", f"layers.{{}}.{n}") for n in projections),
        ),
    }


def run(settings: Settings) -> list[Result]:
    """Measure MB per CPU second both ways, and how far loading goes above the model."""
    use_one_thread()
    width = WIDTH // 8 if settings.is_quick else WIDTH
    results: list[Result] = []
    for name, layout in _layouts(width).items():
        model, adapter = _model(layout)
        with tempfile.TemporaryDirectory(prefix="areal-bench-") as folder:
            results += _measure(name, layout.what, model, adapter, Path(folder), settings)
    return results


def _model(layout: Layout) -> tuple[nn.Module, RuleAdapter]:
    def build(_: Any) -> nn.Module:
        layers = {
            str(i): nn.ParameterDict(
                {
                    name: nn.Parameter(torch.ones(s, dtype=DTYPE))
                    for name, s in layout.shapes.items()
                }
            )
            for i in range(NUM_LAYERS)
        }
        return nn.ModuleDict({"layers": nn.ModuleDict(layers)})

    class Adapter(RuleAdapter):
        model_class = staticmethod(build)
        # The sizes are the configuration.
        model_args_class = SimpleNamespace(from_hf_config=lambda config, **_: config)
        RULES = layout.rules

    return build(None), Adapter(SimpleNamespace(n_heads=NUM_HEADS))


def _measure(
    name: str,
    what: str,
    model: nn.Module,
    adapter: RuleAdapter,
    folder: Path,
    settings: Settings,
) -> list[Result]:
    save_checkpoint(model, folder / "start", adapter, SHARD_BYTES)
    shards = [load_file(file) for file in sorted((folder / "start").glob("*.safetensors"))]
    shards = [{key: tensor.clone() for key, tensor in shard.items()} for shard in shards]
    size = sum(t.nbytes for shard in shards for t in shard.values()) / MB
    works: dict[str, dict[str, Callable[[], Any]]] = {
        "load": {
            "archon": lambda: load_checkpoint(model, folder / "start", adapter),
            "plain": lambda: _plain_load(folder / "start", shards),
        },
        "save": {
            "archon": lambda: _archon_save(model, adapter, folder / "archon"),
            "plain": lambda: _plain_save(shards, folder),
        },
    }
    results = [
        _speed(f"archon.adapter.{way}.{name}", f"{way} a checkpoint: {what}", size, sides, settings)
        for way, sides in works.items()
    ]
    return [*results, _memory(f"archon.adapter.memory.{name}", what, works["load"])]


def _speed(
    key: str,
    what: str,
    size_mb: float,
    sides: dict[str, Callable[[], Any]],
    settings: Settings,
) -> Result:
    def counted(work: Callable[[], Any]) -> float:
        work()
        return size_mb

    timed = {side: lambda work=work: counted(work) for side, work in sides.items()}
    rates = interleaved_rates(timed, settings.repetitions)
    return Result(
        key,
        what,
        statistics.median(rates["archon"]),
        "MB/CPU-s",
        statistics.median(rates["plain"]),
        "safetensors, one copy",
        note=f"{size_mb:.0f} MB, {ratio_spread(rates['archon'], rates['plain'])}",
    )


def _memory(key: str, what: str, sides: dict[str, Callable[[], Any]]) -> Result:
    return Result(
        key,
        f"memory above the model while it loads: {what}",
        _growth_mb(sides["archon"]),
        "MB",
        _growth_mb(sides["plain"]),
        "safetensors, one copy",
        is_higher_better=False,
    )


def _plain_load(folder: Path, shards: Sequence[dict[str, Tensor]]) -> None:
    for file, shard in zip(sorted(folder.glob("*.safetensors")), shards, strict=True):
        for name, tensor in load_file(file).items():
            shard[name].copy_(tensor)


def _archon_save(model: nn.Module, adapter: RuleAdapter, folder: Path) -> None:
    for file in folder.glob("*"):
        file.unlink()
    save_checkpoint(model, folder, adapter, SHARD_BYTES)


def _plain_save(shards: Sequence[dict[str, Tensor]], folder: Path) -> None:
    for number, shard in enumerate(shards):
        file = folder / f"plain-{number}.safetensors"
        file.unlink(missing_ok=True)
        save_file(shard, file)


def _growth_mb(work: Callable[[], Any]) -> float | None:
    """Return how far the resident size rises above what it is; None where it cannot be seen."""
    try:
        # proc(5): 5 sets the high-water mark of the resident size to what it is now.
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return None
    before = _status_mb("VmRSS")
    work()
    return max(_status_mb("VmHWM") - before, 0.01)


def _status_mb(field: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{field}:"))
