"""What the probes share: how they report, and the tiny model and tokenizer that they make.

A probe is started as ``python unit_probe NAME REQUEST.json RESULT.jsonl``, by the interpreter of
the target. It writes one JSON object per line, so that what it found is kept even where the
component kills the process. Its output is not read: the component may print what it likes.
Packages of the target are imported inside functions, where one that is missing is a finding.
"""

from __future__ import annotations

import asyncio
import copy
import importlib
import json
import logging
import os
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
"""The folder of the runners, from which their packages are imported."""

WEIGHT_VERSION = 3
"""The version that engines report: not 0, so that versions that were never filled in are seen."""


class Stop(Exception):  # noqa: N818  (it is no error: the finding was reported)
    """The early end of a probe, after the finding that explains it was reported."""


class Findings:
    """The result file of a probe, written line by line so that a crash leaves what was found.

    Args:
        path: The result file.
    """

    def __init__(self, path: str) -> None:
        self._file = open(path, "a", encoding="utf-8")  # noqa: SIM115  (open for the whole run)
        self.failures = 0
        self._warnings: set[tuple[str, str]] = set()

    def _write(self, **row: Any) -> None:
        self._file.write(json.dumps(row) + "\n")
        self._file.flush()

    def stage(self, name: str) -> None:
        """Report what comes next: where the process dies or hangs, this names what it was doing."""
        self._write(event="stage", name=name)

    def passed(self, check: str, message: str = "") -> None:
        """Report a check that holds."""
        self._write(event="check", check=check, status="passed", message=message)

    def failed(self, check: str, message: str) -> None:
        """Report a check that does not hold, and what to do about it."""
        self.failures += 1
        self._write(event="check", check=check, status="failed", message=message)

    def warned(self, check: str, message: str) -> None:
        """Report what is allowed and probably not meant, once."""
        if (check, message) in self._warnings:
            return
        self._warnings.add((check, message))
        self._write(event="check", check=check, status="warning", message=message)

    def not_run(self, check: str, message: str) -> None:
        """Report a check that could not be made here."""
        self._write(event="check", check=check, status="skipped", message=message)

    def fatal(self, check: str, message: str) -> Stop:
        """Report a check after which nothing else can be, and return what ends the probe."""
        self.failed(check, message)
        return Stop()

    def hopeless(self, check: str, message: str) -> Stop:
        """Report a check without which no other can be made, and return what ends the probe."""
        self.not_run(check, message)
        return Stop()

    def done(self) -> None:
        """Report that the probe came to its end."""
        self._write(event="done")
        self._file.close()

    @contextmanager
    def guard(self, check: str, stage: str, hint: str = "") -> Iterator[None]:
        """Turn an exception of the component into a finding and stop the runner."""
        self.stage(stage)
        try:
            yield
        except Stop:
            raise
        except BaseException as error:  # a component may call sys.exit
            raise self.fatal(check, describe(error) + (f"; {hint}" if hint else "")) from error


def describe(error: BaseException) -> str:
    """Return ``KeyError: 'x' (file.py:12 in f)``, the innermost place in the target."""
    root = os.getcwd()
    where = ""
    for frame in traceback.extract_tb(error.__traceback__):
        inside = frame.filename.startswith(root + os.sep) and "site-packages" not in frame.filename
        if inside and not frame.filename.startswith(HERE):  # the last one is the innermost
            where = f" ({os.path.relpath(frame.filename, root)}:{frame.lineno} in {frame.name})"
    text = " ".join(str(error).split())[:400]
    return f"{type(error).__name__}: {text}{where}" if text else f"{type(error).__name__}{where}"


def run_checks(
    checks: Callable[[dict[str, Any], Findings], None], request_path: str, result_path: str
) -> None:
    """Read the request, run the checks and leave, whatever the component left behind."""
    with open(request_path, encoding="utf-8") as file:
        request = json.load(file)
    # The runners' folder comes last, so that no module of the target is hidden by one of ours.
    sys.path[:] = [p for p in sys.path if os.path.abspath(p or ".") != HERE]
    sys.path[:] = [os.getcwd(), *[p for p in sys.path if p != os.getcwd()], HERE]
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    findings = Findings(result_path)
    try:
        checks(request, findings)
    except Stop:
        pass
    except BaseException as error:
        findings.stage("fault")
        findings._write(
            event="fault", message=describe(error), trace=traceback.format_exc()[-4000:]
        )
    findings.done()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # a hung worker or thread of the component must not keep the process


def load_symbol(findings: Findings, dotted: str) -> Any:
    """Import ``package.module:Name``; an exception of the module is a finding."""
    module, _, name = dotted.partition(":")
    with findings.guard(
        "import", f"importing {module}", "the module must import without side effects"
    ):
        start = time.monotonic()
        found = importlib.import_module(module)
        for part in name.split(".") if name else []:
            found = getattr(found, part)
    findings.passed("import", f"{time.monotonic() - start:.1f} s")
    return found


def make_tokenizer() -> Any:
    """Make a byte tokenizer with a chat template: any text has tokens, nothing is downloaded."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    specials = ["<pad>", "<eos>", "<system>", "<user>", "<assistant>", "<tool>"]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {token: index for index, token in enumerate([*specials, *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocab, []))
    tokenizer.add_special_tokens(specials)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    template = (
        "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}<eos>{% endfor %}"
        "{% if add_generation_prompt %}<assistant>{% endif %}"
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<eos>", chat_template=template
    )


def make_model(tokenizer: Any, seed: int = 1) -> Any:
    """Make a small language model that ends two in three completions of 12 tokens by itself.

    Random weights alone would hardly ever draw the end token, and the two ways in which a
    completion ends are two paths through a workflow. So one dimension of the embedding is constant,
    and only the end token reads it.
    """
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    generator = torch.Generator().manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=4096,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        dtype="float32",
    )
    model = LlamaForCausalLM(config).eval()
    scales = {"embed_tokens": 1.0, "lm_head": 0.5}
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if not name.endswith("norm.weight"):
                scale = next((x for part, x in scales.items() if part in name), 0.1)
                weight.copy_(torch.randn(weight.shape, generator=generator) * scale)
        # Dimension 0 is the constant one; 1.8 is what makes two in three completions end.
        model.get_input_embeddings().weight[:, 0] = 4.0
        head = model.get_output_embeddings().weight
        head[:, 0] = 0.0
        head[tokenizer.eos_token_id] = 0.0
        head[tokenizer.eos_token_id, 0] = 1.8
    return model


class TinyEngine:
    """Generates with a transformers model, one token after another.

    For targets without an embedded engine.

    Args:
        model: A causal language model on the CPU.
        tokenizer: Names the end token.
        seed: Of the sampling.
    """

    def __init__(self, model: Any, tokenizer: Any, seed: int = 1) -> None:
        import torch

        self.model = model
        self.tokenizer = tokenizer
        self.generator = torch.Generator().manual_seed(seed)

    def get_version(self) -> int:
        return WEIGHT_VERSION

    async def agenerate(self, req: Any) -> Any:
        """Continue one prompt.

        Raises:
            ValueError: The request is for more than one sample.
            RuntimeError: The prompt leaves no room for a token.
        """
        from areal.api import ModelResponse

        req = req.copy()
        config = req.gconfig
        if config.n_samples != 1:
            raise ValueError(f"n_samples must be 1 in agenerate, found {config.n_samples}")
        budget = min(config.max_new_tokens, config.max_tokens - len(req.input_ids))
        if budget <= 0:
            raise RuntimeError(
                f"a prompt of {len(req.input_ids)} tokens leaves no room to generate"
            )
        stops = set(config.stop_token_ids)
        stops |= set() if config.ignore_eos else {self.tokenizer.eos_token_id}
        tokens, logprobs, reason = [], [], "length"
        while len(tokens) < budget and reason == "length":
            token, logprob = self._draw([*req.input_ids, *tokens], config)
            tokens.append(token)
            logprobs.append(logprob)
            if token in stops and len(tokens) >= config.min_new_tokens:
                reason = "stop"
            await asyncio.sleep(0)  # other episodes run in between, as with a real engine
        return ModelResponse(
            input_tokens=list(req.input_ids),
            output_tokens=tokens,
            output_logprobs=logprobs,
            output_versions=[WEIGHT_VERSION] * len(tokens),
            stop_reason=reason,
            tokenizer=req.tokenizer,
            latency=0.0,
            ttft=0.0,
        )

    def _draw(self, ids: list[int], config: Any) -> tuple[int, float]:
        import torch

        temperature = 1.0 if config.greedy or not config.temperature else config.temperature
        with torch.no_grad():
            logits = self.model(torch.tensor([ids])).logits[0, -1].float() / temperature
        logprobs = logits.log_softmax(-1)
        token = self._choose(logprobs, config)
        return token, float(logprobs[token])

    def _choose(self, logprobs: Any, config: Any) -> int:
        import torch

        if config.greedy:
            return int(logprobs.argmax())
        return int(torch.multinomial(logprobs.exp(), 1, generator=self.generator))


class ScriptedEngine(TinyEngine):
    """Answers with given texts, one a turn and the last one again, at the model's probabilities.

    Args:
        model: A causal language model on the CPU.
        tokenizer: Names the end token.
        texts: What it answers, whatever ``max_new_tokens`` is.
    """

    def __init__(self, model: Any, tokenizer: Any, texts: list[str]) -> None:
        super().__init__(model, tokenizer)
        self.texts = texts
        self.turn = 0
        self.pending: Iterator[int] = iter(())

    async def agenerate(self, req: Any) -> Any:
        text = self.texts[min(self.turn, len(self.texts) - 1)]
        self.turn += 1
        tokens = [
            *self.tokenizer.encode(text, add_special_tokens=False),
            self.tokenizer.eos_token_id,
        ]
        self.pending = iter(tokens)
        req = req.copy()
        req.gconfig = req.gconfig.new(max_new_tokens=len(tokens), min_new_tokens=0)
        return await super().agenerate(req)

    def _choose(self, logprobs: Any, config: Any) -> int:
        return next(self.pending)


@contextmanager
def engine(findings: Findings, model: Any, tokenizer: Any, is_own: bool = False) -> Iterator[Any]:
    """Yield the target's embedded engine over the tiny model, or the runner's own.

    Args:
        findings: Takes which one it is.
        model: What generates; the engine gets a copy.
        tokenizer: Of the model.
        is_own: Take the runner's own although the target may have an embedded engine.
    """
    with findings.guard("engine", "starting the engine"):
        embedded = None if is_own else _embedded_engine(model)
    if embedded is None:
        text = "the target has no embedded engine; the runner's own generated the tokens"
        findings.warned("engine", text)
        yield TinyEngine(model, tokenizer)
        return
    findings.passed("engine", type(embedded).__name__)
    try:
        yield embedded
    finally:
        embedded.destroy()


def has_embedded_engine() -> bool:
    """Return whether the target has the embedded engine, or is another package."""
    return find_spec("areal.engine") is not None and find_spec("areal.engine.local") is not None


def _embedded_engine(model: Any) -> Any:
    """Start the target's embedded engine; None where the target is another package."""
    if not has_embedded_engine():
        return None
    import torch

    from areal.api.cli_args import InferenceEngineConfig
    from areal.engine.loading.huggingface import prepare_model
    from areal.engine.local.engine import LocalInferenceEngine
    from areal.engine.model.shared_weights import SharedWeights

    weights = SharedWeights(prepare_model(copy.deepcopy(model), torch.device("cpu")))
    weights.version = WEIGHT_VERSION
    found = LocalInferenceEngine(InferenceEngineConfig(), weights, seed=1)
    found.initialize()
    return found
