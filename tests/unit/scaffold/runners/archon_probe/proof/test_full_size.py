"""A size that is right in every tiny model may be wrong in the one that is asked for."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from transformers import CONFIG_MAPPING

from areal.experimental.models.archon.qwen2.spec import QWEN2_SPEC

RUNNERS = str(Path(__file__).parents[6] / "scaffold" / "runners")
if RUNNERS not in sys.path:
    sys.path.append(RUNNERS)

from archon_probe.measure.random_weights import build_model  # noqa: E402
from archon_probe.measure.tiny import tiny_config  # noqa: E402
from archon_probe.proof.full_size import compare_sizes  # noqa: E402


def test_the_full_configuration_has_as_many_parameters_as_in_transformers() -> None:
    real = CONFIG_MAPPING["qwen2"]()
    assert compare_sizes(QWEN2_SPEC, real, tiny_config(real)) == ""


def test_a_text_model_that_no_mapping_has_is_built_too() -> None:
    """Emu3's text configuration is in no mapping of transformers."""
    config = tiny_config("emu3")

    class OfArgs:
        from_hf_config = staticmethod(lambda config, **chosen: config)

    spec = SimpleNamespace(model_class=build_model, model_args_class=OfArgs)
    assert compare_sizes(spec, config, config) == ""


def test_a_size_that_only_tiny_models_have_is_found() -> None:
    """LFM2's feed-forward is rounded up to 256: a tiny one is 256 wide whatever it is asked for."""

    def narrow(config: Any, **chosen: Any) -> Any:
        args = QWEN2_SPEC.model_args_class.from_hf_config(config, **chosen)
        args.hidden_dim = min(args.hidden_dim, 256)
        return args

    spec = SimpleNamespace(
        model_class=QWEN2_SPEC.model_class,
        model_args_class=SimpleNamespace(from_hf_config=narrow),
    )
    real = CONFIG_MAPPING["qwen2"]()
    found = compare_sizes(spec, real, tiny_config(real))
    assert "parameters in transformers and" in found
