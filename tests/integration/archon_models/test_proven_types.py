"""Are models of many architectures measured, written and proven without a hand on them?

Few types stand for all features: fused and interleaved layouts, partial rotation, biases, layer
norms, windows, caps, sandwich norms, multipliers, parallel residuals, learned positions, slopes,
latent attention, chunks, gates, routers of several kinds, shared and idle experts.
"""

from __future__ import annotations

import importlib
import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from archon_probe.design.derive import derive
from archon_probe.measure.model_source import resolve
from archon_probe.proof.prove import prove

import areal.experimental.models.archon as archon
from scaffold.archon.codegen import write_model

PACKAGE = archon.__name__

TYPES = {
    "phi3": "one matrix for queries, keys and values, one for gate and up",
    "cohere2": "layer norms, parallel residual, interleaved rotation, layers without positions",
    "falcon": "keys that all heads share, three layouts, slopes or rotation",
    "bloom": "slopes over the distance, residuals inside modules",
    "gpt2": "learned positions, transposed weights, scales by layer",
    "gemma2": "capped scores and logits, norms around each branch, windows",
    "granite": "multipliers on embedding, scores, residuals and logits",
    "apertus": "an activation with parameters of its own",
    "glm4": "interleaved rotation of a part of each head, fused feed-forward",
    "stablelm": "a norm for each head, parallel residual as an option",
    "modernbert-decoder": "a dense block before the output, a norm on the embedding",
    "llama4_text": "chunks, growth by position, experts scored before they are run",
    "longcat_flash": "latent attention twice in a block, idle experts",
    "mimo_v2_flash": "layers of other numbers of heads, sinks in windows, scaled values",
    "beam": "gated attention, weights of the residual by depth, groups of experts",
}


# Half a minute each and more: `make test-full` runs them.
SLOW = TYPES.keys() - {"gpt2"}


@pytest.fixture
def overlay(tmp_path: Path) -> Iterator[Path]:
    """Is a folder whose packages stand among the models for the length of a test."""
    before, threads = set(sys.modules), torch.get_num_threads()
    archon.__path__.insert(0, str(tmp_path))
    torch.set_num_threads(1)
    yield tmp_path
    torch.set_num_threads(threads)
    archon.__path__.remove(str(tmp_path))
    for name in set(sys.modules) - before:
        if name.startswith(f"{PACKAGE}."):
            del sys.modules[name]


@pytest.mark.heavy
@pytest.mark.parametrize(
    "model_type",
    [pytest.param(each, marks=pytest.mark.slow if each in SLOW else ()) for each in TYPES],
)
def test_a_model_is_written_and_proven_equal(model_type: str, overlay: Path) -> None:
    request: dict[str, Any] = {"model_type": model_type, "config": None, "fast": True}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # transformers' own, of tiny configurations
        design = derive(resolve(request))
        files = write_model(design)
        folder = overlay / model_type.replace("-", "_")
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        spec = re.search(r"^(\w+_SPEC) = ", files["spec.py"], re.MULTILINE)
        assert spec is not None
        importlib.invalidate_caches()
        found = prove(request | {"spec": f"{PACKAGE}.{folder.name}.spec:{spec[1]}"})

    assert found["ok"], found["summary"]
    assert found["counts"]["failed"] == 0
    assert found["counts"]["proven"] > found["counts"]["refused"]
