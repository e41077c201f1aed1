"""A size that is right in every tiny model may be wrong in the one that is asked for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from archon_probe.measure.random_weights import build_model
from archon_probe.measure.tiny import tiny_config
from archon_probe.proof.full_size import compare_sizes
from transformers import CONFIG_MAPPING

from areal.experimental.models.archon.qwen2.spec import QWEN2_SPEC


def test_the_full_configuration_has_as_many_parameters_as_in_transformers() -> None:
    real = CONFIG_MAPPING["qwen2"]()
    found = compare_sizes(QWEN2_SPEC, real, tiny_config(real))
    assert found == (False, "12,049,846,272 parameters, as in transformers")


def test_a_text_model_that_no_mapping_has_is_built_too() -> None:
    """Emu3's text configuration is in no mapping of transformers."""
    config = tiny_config("emu3")

    class OfArgs:
        from_hf_config = staticmethod(lambda config, **chosen: config)

    spec = SimpleNamespace(model_class=build_model, model_args_class=OfArgs)
    assert "as in transformers" in compare_sizes(spec, config, config).text


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
    assert found.differ
    assert "parameters in transformers and" in found.text


def test_defaults_that_transformers_does_not_build_are_not_counted() -> None:
    """Seven of 96 types have such: the proof of their tiny models stays what it is."""
    spec = SimpleNamespace(
        model_class=build_model,
        model_args_class=SimpleNamespace(from_hf_config=lambda config, **chosen: config),
    )
    found = compare_sizes(spec, CONFIG_MAPPING["nemotron"](), tiny_config("nemotron"))
    assert not found.differ
    assert found.text.startswith("not counted: transformers does not build it: TypeError")


def test_arguments_are_not_read_of_defaults_that_are_no_models() -> None:
    """LFM2-MoE's class states no kinds of layers, which arguments are read from."""

    def read(config: Any, **chosen: Any) -> Any:
        return tuple(kind == "conv" for kind in config.layer_types)

    spec = SimpleNamespace(model_class=None, model_args_class=SimpleNamespace(from_hf_config=read))
    found = compare_sizes(spec, CONFIG_MAPPING["lfm2_moe"](), tiny_config("lfm2_moe"))
    assert found.text.startswith("not counted: transformers does not build it: TypeError")


class Unset(QWEN2_SPEC.model_args_class):
    """Arguments that ask for a field which the configuration leaves open."""

    @classmethod
    def from_hf_config(cls, hf_config: Any, **chosen: Any) -> Any:
        return 2 * hf_config.num_experts_per_tok


def test_a_field_without_a_value_is_named_and_ends_no_proof() -> None:
    """Such is `num_experts_per_tok` in the defaults of DeepSeek-V2."""
    real = CONFIG_MAPPING["qwen2"](num_experts_per_tok=None)
    spec = SimpleNamespace(model_class=QWEN2_SPEC.model_class, model_args_class=Unset)
    found = compare_sizes(spec, real, tiny_config(real))
    assert not found.differ
    assert found.text.startswith("not counted: a field has no value: ")
