"""Decoding with log-probabilities: the embedded engine beside ``transformers`` generate.

Shape letters: B sequences, L padded prompt length, N new tokens, V vocabulary.
"""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from areal.api.cli_args import GenerationHyperparameters, InferenceEngineConfig, TrainEngineConfig
from areal.api.io_struct import ModelRequest
from areal.engine.local.decoder import Decoder, FinishedRow, Row
from areal.engine.local.engine import LocalInferenceEngine
from areal.engine.model.shared_weights import SharedWeights
from areal.engine.training.engine import HFTrainEngine
from areal.utils.data import concat_padded_tensors
from benchmarks.clock import interleaved_rates, ratio_spread, use_one_thread
from benchmarks.reference_model import (
    arithmetic_prompts,
    make_reference,
    plain_transformers_copy,
)
from benchmarks.results import Result
from benchmarks.settings import Settings


@dataclass(frozen=True)
class Scenario:
    """What is generated.

    Args:
        key: In ``TARGETS``.
        what: For a person.
        stops_at_eos: Answers end at end-of-sequence or at the limit; otherwise at the limit only.
    """

    key: str
    what: str
    stops_at_eos: bool


SCENARIOS = (
    Scenario("uneven", "the task: uneven prompts, answers end at <eos>", True),
    Scenario("equal", "hardest: equal lengths, no answer ends early", False),
)


def run(settings: Settings) -> list[Result]:
    """Measure both scenarios at each batch size, and whether the tokens are the right ones."""
    use_one_thread()
    weights, tokenizer = make_reference()
    bench = _Bench(weights, tokenizer, plain_transformers_copy(weights.module), settings)
    results = []
    for scenario in SCENARIOS:
        for batch_size in settings.batch_sizes:
            results += bench.speed(scenario, batch_size)
    return [*results, bench.greedy_agreement(), bench.drift()]


class _Bench:
    def __init__(
        self, weights: SharedWeights, tokenizer: Any, theirs: Any, settings: Settings
    ) -> None:
        self.weights = weights
        self.tokenizer = tokenizer
        self.theirs = theirs
        self.settings = settings
        self.decoder = Decoder(weights.module, seed=1)

    def speed(self, scenario: Scenario, batch_size: int) -> list[Result]:
        """Measure real tokens per CPU second of decoder, engine around it, and transformers."""
        prompts = arithmetic_prompts(
            self.tokenizer, batch_size, not scenario.stops_at_eos, seed=batch_size
        )
        options = self._options(scenario.stops_at_eos)
        with _RunningEngine(self.weights) as engine:
            rates = interleaved_rates(
                {
                    "decoder": lambda: _num_tokens(self._decode(prompts, options)),
                    "engine": lambda: engine.generate(prompts, options),
                    "transformers": lambda: self._generate_real_tokens(prompts, options),
                },
                self.settings.repetitions,
            )
        medians = {name: statistics.median(values) for name, values in rates.items()}
        key = f"decode.{scenario.key}.{batch_size}"
        return [
            Result(
                key,
                f"{name}, batch {batch_size}, {scenario.what}",
                medians[part],
                "tok/CPU-s",
                medians["transformers"],
                "transformers generate",
                note=ratio_spread(rates[part], rates["transformers"]),
            )
            for part, name in (("decoder", "decode loop"), ("engine", "agenerate"))
        ]

    def greedy_agreement(self) -> Result:
        """Compare greedy answers token by token."""
        count = max(self.settings.batch_sizes)
        prompts = arithmetic_prompts(self.tokenizer, count, equal_length=False, seed=3)
        options = self._options(stops_at_eos=True).new(greedy=True)
        ours = {tuple(done.row.prompt): done.tokens for done in self._decode(prompts, options)}
        tokens_BN, _ = self._generate(prompts, options)
        theirs = self._until_eos(tokens_BN)
        same = sum(ours[tuple(p)] == t for p, t in zip(prompts, theirs, strict=True))
        return Result(
            "decode.greedy",
            f"greedy answers identical to transformers', share of {count}",
            same / count,
            "",
        )

    def drift(self) -> Result:
        """Compare the log-probabilities of sampled tokens with those of the train engine."""
        count = max(self.settings.batch_sizes)
        prompts = arithmetic_prompts(self.tokenizer, count, equal_length=False, seed=4)
        finished = self._decode(prompts, self._options(stops_at_eos=True))
        engine = HFTrainEngine(TrainEngineConfig(backend="fsdp:d1"), self.weights)
        batch = concat_padded_tensors([_trajectory(done) for done in finished])
        trained_BL = engine.forward_batch({**batch, "loss_mask": batch["loss_mask"].roll(-1, 1)})
        gap_BL = (trained_BL.roll(1, 1) - batch["logprobs"]).abs() * batch["loss_mask"]
        num_tokens = int(batch["loss_mask"].sum())
        return Result(
            "decode.drift",
            f"largest |log-probability of training - of rollout|, {num_tokens:,} tokens",
            float(gap_BL.max()),
            "",
            is_higher_better=False,
        )

    def _options(self, stops_at_eos: bool) -> GenerationHyperparameters:
        return GenerationHyperparameters(
            max_new_tokens=self.settings.new_tokens,
            stop_token_ids=[self.tokenizer.eos_token_id],
            ignore_eos=not stops_at_eos,
        )

    def _decode(
        self, prompts: Sequence[list[int]], options: GenerationHyperparameters
    ) -> list[FinishedRow]:
        rows = [Row(prompt, options, options.max_new_tokens) for prompt in prompts]
        finished = self.decoder.admit(rows)
        while self.decoder.rows:
            finished += self.decoder.advance() + self.decoder.admit()
        return finished

    @torch.inference_mode()
    def _generate(
        self, prompts: Sequence[list[int]], options: GenerationHyperparameters
    ) -> tuple[Tensor, Tensor]:
        """Return what transformers generates and its log-probabilities, both [B, N]."""
        longest = max(map(len, prompts))
        pad, eos = self.tokenizer.pad_token_id, self.tokenizer.eos_token_id
        ids_BL = torch.tensor([[pad] * (longest - len(p)) + p for p in prompts])
        mask_BL = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in prompts])
        # All tokens, as in training: no truncation, no penalty.
        sampling = {"do_sample": True, "top_k": 0, "top_p": 1.0, "temperature": 1.0}
        if options.greedy:
            sampling = {"do_sample": False}
        out = self.theirs.generate(
            ids_BL,
            attention_mask=mask_BL,
            max_new_tokens=options.max_new_tokens,
            # Without an end-of-sequence token every row runs to the limit.
            eos_token_id=[] if options.ignore_eos else eos,
            pad_token_id=pad,
            **sampling,
            output_logits=True,
            return_dict_in_generate=True,
        )
        tokens_BN = out.sequences[:, longest:]
        logprobs_BNV = torch.stack(out.logits, 1).float().log_softmax(-1)
        return tokens_BN, logprobs_BNV.gather(-1, tokens_BN[..., None]).squeeze(-1)

    def _generate_real_tokens(
        self, prompts: Sequence[list[int]], options: GenerationHyperparameters
    ) -> int:
        """Return the number of tokens up to each row's end; what follows is padding."""
        tokens_BN, _ = self._generate(prompts, options)
        if options.ignore_eos:
            return tokens_BN.numel()
        is_eos_BN = tokens_BN == self.tokenizer.eos_token_id
        return int(((is_eos_BN.cumsum(1) - is_eos_BN.long()) == 0).sum())

    def _until_eos(self, tokens_BN: Tensor) -> list[list[int]]:
        eos = self.tokenizer.eos_token_id
        rows: list[list[int]] = tokens_BN.tolist()
        return [row[: row.index(eos) + 1] if eos in row else row for row in rows]


class _RunningEngine:
    """Runs the embedded engine, with its decode thread, and an event loop to ask it from."""

    def __init__(self, weights: SharedWeights) -> None:
        self._engine = LocalInferenceEngine(InferenceEngineConfig(backend="local:d1"), weights)
        self._loop = asyncio.new_event_loop()

    def __enter__(self) -> _RunningEngine:
        self._engine.initialize()
        return self

    def __exit__(self, *_: object) -> None:
        self._engine.destroy()
        self._loop.close()

    def generate(self, prompts: Sequence[list[int]], options: GenerationHyperparameters) -> int:
        """Generate one answer a prompt and returns the number of tokens."""
        return self._loop.run_until_complete(self._gather(prompts, options))

    async def _gather(
        self, prompts: Sequence[list[int]], options: GenerationHyperparameters
    ) -> int:
        calls = [
            self._engine.agenerate(ModelRequest(input_ids=prompt, gconfig=options))
            for prompt in prompts
        ]
        return sum(response.output_len for response in await asyncio.gather(*calls))


def _num_tokens(finished: Sequence[FinishedRow]) -> int:
    return sum(len(done.tokens) for done in finished)


def _trajectory(done: FinishedRow) -> dict[str, Tensor]:
    prompt = done.row.prompt
    ids = torch.tensor([prompt + done.tokens], dtype=torch.int32)
    return {
        "input_ids": ids,
        "attention_mask": torch.ones_like(ids, dtype=torch.bool),
        "loss_mask": torch.tensor([[0] * len(prompt) + [1] * len(done.tokens)]),
        "logprobs": torch.tensor([[0.0] * len(prompt) + done.logprobs]),
    }
