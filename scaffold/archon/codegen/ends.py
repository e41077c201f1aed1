"""What is around the blocks: from tokens to the first one, and from the last one to logits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scaffold.archon.codegen.class_body import maybe, model_value
from scaffold.archon.codegen.modules import norm_text
from scaffold.archon.codegen.source import Source
from scaffold.archon.codegen.values import ALWAYS, Json, given, guard_of, has, told, value_text


def embedding_setup(part: Json, source: Source) -> list[str]:
    """Return the statements that make the modules of an embedding."""
    width = "args.dim"
    projection: Json = part.get("projection") or {"when": False}
    if has(projection):
        # The norm and all tables are as wide as the embedding, which is mapped to the stream last.
        width = value_text(projection["dim"])
    options = ", ".join(["args.vocab_size", width, *told(part, padding_idx=None)])
    lines = [f"self.tok_embeddings = nn.Embedding({options})"]
    if has(part.get("token_types")):
        size = value_text(part["token_types"]["size"])
        lines.append(f"self.type_embeddings = nn.Embedding({size}, {width})")
    if embeds_positions(part):
        positions: Json = part["positions"]
        text = _positions_text(positions, width, source)
        text = maybe(text, guard_of(positions), "None")
        lines.append(f"self.pos_embeddings = {text}")
    if has(part.get("norm")):
        lines.append(f"self.embedding_norm = {norm_text(part['norm'], source)}")
    if has(projection):
        call = f"nn.Linear({width}, args.dim, bias={value_text(projection['bias'])})"
        call = maybe(call, guard_of(projection), "nn.Identity()")
        lines.append(f"self.embedding_proj = {call}")
    return lines


def embeds_positions(part: Json) -> bool:
    """Return whether an embedding adds vectors of positions."""
    return has(part.get("positions"))


def embedding_steps(part: Json) -> list[str]:
    """Return the body of ``embed``; none where tokens are all that is embedded."""
    lines = ["h = self.tok_embeddings(tokens)"]
    if told(part, multiplier=1.0):
        lines.append(f"h = h * {model_value(part['multiplier'])}")
    if has(part.get("token_types")):
        # Callers give no types, and then every token has the first one.
        lines.append("h = h + self.type_embeddings.weight[0]")
    if embeds_positions(part):
        kind = part["positions"].get("kind", "learned")
        arguments = {"learned": "packing", "beside_padding": "tokens, packing"}
        found = f"h = h + self.pos_embeddings({arguments.get(kind, 'packing, h.dtype')})"
        is_always = guard_of(part["positions"]) == ALWAYS
        lines += [found] if is_always else ["if self.pos_embeddings is not None:", f"    {found}"]
    if has(part.get("norm")):
        lines.append("h = self.embedding_norm(h)")
    if has(part.get("projection")):
        lines.append("h = self.embedding_proj(h)")
    last = lines.pop()
    if not lines:
        return []
    # The last step is returned at once; with nothing but tokens the shared `embed` does.
    ending = last.removeprefix("h = ")
    return [*lines, f"return {ending}"] if ending != last else [*lines, last, "return h"]


def _positions_text(positions: Json, width: str, source: Source) -> str:
    if positions.get("kind") == "beside_padding":
        source.share("layers.positions", "PositionsBesidePadding")
        padding = "self.tok_embeddings.padding_idx"
        return f"PositionsBesidePadding({value_text(positions['size'])}, {width}, {padding})"
    is_learned = positions.get("kind", "learned") == "learned"
    kind = "LearnedPositions" if is_learned else "SinusoidalPositions"
    source.share("layers.positions", kind)
    options = [value_text(positions["size"])] if is_learned else []
    options += [width, *told(positions, offset=0)]
    options += [] if is_learned else told(positions, layout=None, reaches_base=None)
    return f"{kind}({', '.join(options)})"


def head_setup(part: Json, source: Source) -> list[str]:
    """Return the statements that make the modules of a head."""
    norm = norm_text(part["norm"], source) if has(part.get("norm")) else "nn.Identity()"
    lines = [f"self.norm = {norm}"]
    if has(part.get("transform")):
        transform: Json = part["transform"]
        bias = value_text(transform.get("bias", True))
        source.share("layers.feed_forward", "get_activation")
        lines += [
            f"self.head_dense = nn.Linear(args.dim, args.dim, bias={bias})",
            f"self.head_act = get_activation({value_text(transform['activation'])})",
        ]
        if has(transform["norm"]):
            lines.append(f"self.head_norm = {norm_text(transform['norm'], source)}")
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
