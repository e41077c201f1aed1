"""From the last block to logits: the norm, the output layer, its factor and bound."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scaffold.archon.codegen.class_body import model_value
from scaffold.archon.codegen.names import ModelNames
from scaffold.archon.codegen.norms import norm_text
from scaffold.archon.codegen.source import Source
from scaffold.archon.codegen.values import Json, given, has, told, value_text


def head_setup(part: Json, source: Source, names: ModelNames) -> list[str]:
    """Return the statements that make the modules of a head."""
    norm = norm_text(part["norm"], source, names) if has(part.get("norm")) else "nn.Identity()"
    lines = [f"self.norm = {norm}"]
    if has(part.get("transform")):
        transform: Json = part["transform"]
        bias = value_text(transform.get("bias", True))
        source.use(names.shared("layers", "feed_forward"), "get_activation")
        lines += [
            f"self.head_dense = nn.Linear(args.dim, args.dim, bias={bias})",
            f"self.head_act = get_activation({value_text(transform['activation'])})",
        ]
        if has(transform["norm"]):
            lines.append(f"self.head_norm = {norm_text(transform['norm'], source, names)}")
    bias = value_text(part.get("bias", False))
    if "pooling" in part:
        return [
            *lines,
            f"self.pooling = {value_text(part['pooling'])}",
            "self.output = None",
            f"self.score = nn.Linear(args.dim, args.num_labels, bias={bias})",
        ]
    return [
        *lines,
        # A critic scores each token and has no vocabulary.
        "if args.is_critic:",
        "    self.output = None",
        "    self.score = nn.Linear(args.dim, args.num_labels, bias=False)",
        "else:",
        f"    self.output = nn.Linear(args.dim, args.vocab_size, bias={bias})",
        "    self.score = None",
        "self.tie_weights()",
    ]


def scores_steps(part: Json) -> list[str]:
    """Return the body of ``scores``; none where the score alone makes them."""
    if not has(part.get("transform")):
        return []
    h = "self.head_act(self.head_dense(h))"
    h = f"self.head_norm({h})" if has(part["transform"]["norm"]) else h
    return [f"return self.score({h})"]


def logits_steps(part: Json, source: Source) -> list[str]:
    """Return the body of ``logits``; none where the output layer alone makes them."""
    lines: list[str] = []
    if has(part.get("transform")):
        lines.append("h = self.head_norm(self.head_act(self.head_dense(h)))")
    logits = "self.output(h)"
    if told(part, multiplier=1.0):
        logits = f"{logits} * {model_value(part['multiplier'])}"
    if given(part.get("softcap")):
        source.use("torch")
        return [*lines, *_capped(logits, part["softcap"])]
    return [*lines, f"return {logits}"] if lines or logits != "self.output(h)" else []


def _capped(logits: str, cap: Any) -> list[str]:
    """Return the statements that bound the logits; a cap from the config may be None."""
    text = model_value(cap)
    if not isinstance(cap, Mapping):
        return [f"return {text} * torch.tanh({logits} / {text})"]
    return [
        f"cap, logits = {text}, {logits}",
        "return logits if cap is None else cap * torch.tanh(logits / cap)",
    ]
