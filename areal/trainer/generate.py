"""A prompt in, text out: what a checkpoint or a run's model answers."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path

from areal.api.cli_args import (
    GenerationHyperparameters,
    InferenceEngineConfig,
    choose_config_class,
    load_expr_config,
)
from areal.api.errors import ConfigError
from areal.api.io_struct import ModelRequest
from areal.engine.local.engine import LocalInferenceEngine
from areal.engine.model.lora import ADAPTER_CONFIG
from areal.infra.sampling_seeds import stream_seed
from areal.trainer.evaluation import find_checkpoint
from areal.trainer.runtime import limit_threads, run_folder
from areal.trainer.serve import load_checkpoint
from areal.utils.hf_utils import apply_chat_template


def generate(
    model: str, prompt: str, gconfig: GenerationHyperparameters, *, is_plain: bool = False
) -> list[str]:
    """Return the answers of a model to a prompt, as the embedded engine samples them.

    Args:
        model: A checkpoint folder, a hub id, or the folder or YAML file of a run, whose final model
            is taken, else its newest checkpoint.
        prompt: The text, which becomes a user's message where the tokenizer has a chat template.
        gconfig: How many answers, how long, from what distribution.
        is_plain: Whether the model continues the text itself.

    Raises:
        ConfigError: The model cannot be loaded, the run has none, or the prompt is empty.
    """
    weights, tokenizer, seed = load_checkpoint(_checkpoint_of(model), "fsdp:d1")
    limit_threads(weights)
    if is_plain or tokenizer.chat_template is None:
        ids = tokenizer.encode(prompt)
    else:
        messages = [{"role": "user", "content": prompt}]
        ids = apply_chat_template(tokenizer, messages, add_generation_prompt=True)
    if not ids:
        raise ConfigError("the prompt is empty, and a model answers at least one token")
    gconfig = gconfig.new_with_stop_and_pad_token_ids(tokenizer)
    engine = LocalInferenceEngine(InferenceEngineConfig(backend="local:d1"), weights, seed)
    engine.initialize()
    requests = [
        ModelRequest(input_ids=ids, gconfig=_one_of(gconfig, number), tokenizer=tokenizer)
        for number in range(gconfig.n_samples)
    ]

    async def ask() -> list[str]:
        answers = await asyncio.gather(*map(engine.agenerate, requests))
        skips = gconfig.skip_special_tokens
        return [tokenizer.decode(each.output_tokens, skip_special_tokens=skips) for each in answers]

    try:
        return asyncio.run(ask())
    finally:
        engine.destroy()


def _one_of(gconfig: GenerationHyperparameters, number: int) -> GenerationHyperparameters:
    """Return the settings of one answer, whose draws are its own also where a seed is given."""
    seed = None if gconfig.seed is None else stream_seed((gconfig.seed, number))
    return dataclasses.replace(gconfig, n_samples=1, seed=seed)


def _checkpoint_of(model: str) -> str:
    run = Path(model).expanduser()
    is_checkpoint = any((run / name).is_file() for name in ("config.json", ADAPTER_CONFIG))
    if model.endswith((".yaml", ".yml")):
        argv = ["--config", model]
        run = Path(run_folder(load_expr_config(argv, choose_config_class(argv))[0]))
    elif is_checkpoint or not run.is_dir():
        return model
    found = find_checkpoint(run)
    if not found:
        raise ConfigError(f"{run} has neither a model nor a checkpoint yet; train first")
    return found
