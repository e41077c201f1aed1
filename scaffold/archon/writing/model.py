"""``model/model.py``: attention, block, and the model from tokens to logits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from scaffold.archon.writing.attention import attention_class, takes_rope
from scaffold.archon.writing.block import block_class
from scaffold.archon.writing.class_body import maybe
from scaffold.archon.writing.names import ModelNames
from scaffold.archon.writing.norms import norm_text
from scaffold.archon.writing.source import Source, class_text, function_text
from scaffold.archon.writing.values import (
    ALWAYS,
    Json,
    given,
    guard_of,
    has,
    value_text,
)

FORWARD = (
    "def forward(self, tokens: Tensor, positions: Tensor, cu_seqlens: Tensor, "
    "max_seqlen: int | Tensor, tree_attn_meta: Any = None, *, "
    "logits_to_keep: Tensor | None = None, attention_plan: AttentionPlan | None = None) -> Tensor"
)


def model_file(design: Json, names: ModelNames) -> str:
    """Returns ``model/model.py``."""
    source = Source(_file_doc(design, names), names.first_party)
    source.use("typing", "Any")
    source.use("torch", "Tensor", "nn")
    source.use(names.own("model", "args"), names.args)
    source.use(names.shared("packing"), "AttentionPlan", "Packing")
    if design["attention"].get("kind", "gqa") == "mla":
        # Latent attention shares no projections with the other kind.
        from scaffold.archon.writing.mla import mla_class

        source.add(mla_class(design, source, names))
    else:
        source.add(attention_class(design, source, names))
    source.add(block_class(design, source, names))
    source.add(_ModelWriter(design, source, names).text())
    return source.text()


def _file_doc(design: Json, names: ModelNames) -> str:
    kinds = {module["kind"] for module in design["block"]["modules"]}
    branch = "a mixture of experts" if "moe" in kinds else "a feed-forward"
    if "mlp" in kinds and "moe" not in kinds:
        branch = "a gated feed-forward" if design["mlp"].get("gated", True) else branch
    attention = design["attention"]
    heads = "latent" if attention.get("kind") == "mla" else "grouped"
    lines = [f"{names.prefix}: a decoder with {heads} queries and {branch}."]
    rows: Sequence[Json] = design.get("unknown") or []
    # What a variation of the config asks for is refused, so the model is right without it.
    unknown = [each for each in rows if not each.get("variation")]
    if unknown:
        lines += ["", "Not reproduced, so this model is not what transformers computes yet:"]
        lines += [f"    {each.get('module', '')}: {each.get('what', '')}" for each in unknown]
    origin = cast("Json", design.get("source") or {})
    if origin.get("model_class"):
        lines += ["", f"Source: transformers {origin['transformers']}, {origin['model_class']}."]
    return "\n".join(lines)


class _ModelWriter:
    def __init__(self, design: Json, source: Source, names: ModelNames) -> None:
        self.design = design
        self.source = source
        self.names = names
        self.embedding = cast("Json", design.get("embedding") or {})
        self.head = cast("Json", design.get("head") or {})
        self.ropes = cast("Mapping[str, Json]", design.get("ropes") or {})
        self.has_rope = takes_rope(design)
        self.setup: list[str] = []

    def text(self) -> str:
        base = self.names.shared("base")
        self.source.use(base, "BaseArchonModel", "keep_tokens", "refuse_tree_attention")
        self._make_embedding()
        self._make_ropes()
        self._make_layers()
        self._make_head()
        init = f"def __init__(self, args: {self.names.args}) -> None"
        lines = ["super().__init__()", "self.model_args = args", *self.setup]
        methods = [function_text(init, lines), function_text(FORWARD, self._forward())]
        embed = self._embed()
        if embed:
            packing = ", packing: Packing" if self._embeds_positions() else ""
            signature = f"def _embed(self, tokens: Tensor{packing}) -> Tensor"
            methods.append(function_text(signature, embed))
        logits = self._logits()
        if logits:
            signature = "def _logits(self, h: Tensor) -> Tensor"
            methods.append(function_text(signature, logits))
        doc = f"{self.names.prefix} for causal language modelling, or as a critic."
        return class_text(self.names.model, "BaseArchonModel", doc, methods)

    # --- what the model is made of ---

    def _make_embedding(self) -> None:
        part = self.embedding
        width = value_text(part["tokens_dim"]) if given(part.get("tokens_dim")) else "args.dim"
        padding = ""
        if given(part.get("padding_idx")):
            padding = f", padding_idx={value_text(part['padding_idx'])}"
        self.setup.append(f"self.tok_embeddings = nn.Embedding(args.vocab_size, {width}{padding})")
        if width != "args.dim":
            self.setup.append(f"self.embedding_proj = nn.Linear({width}, args.dim, bias=False)")
        positions: Json | None = part.get("positions")
        if positions is not None and has(positions):
            text = maybe(self._positions_text(positions), guard_of(positions), "None")
            self.setup.append(f"self.pos_embeddings = {text}")
        if has(part.get("norm")):
            text = norm_text(part["norm"], self.source, self.names)
            self.setup.append(f"self.embedding_norm = {text}")

    def _positions_text(self, positions: Json) -> str:
        is_learned = positions.get("kind", "learned") == "learned"
        kind = "LearnedPositions" if is_learned else "SinusoidalPositions"
        self.source.use(self.names.shared("positions"), kind)
        sizes = [value_text(positions["size"])] if is_learned else []
        options = [*sizes, "args.dim"]
        if positions.get("offset", 0):
            options.append(f"offset={value_text(positions['offset'])}")
        known = () if is_learned else ("layout", "reaches_base", "base")
        names = [name for name in known if given(positions.get(name))]
        options += [f"{name}={value_text(positions[name])}" for name in names]
        return f"{kind}({', '.join(options)})"

    def _make_ropes(self) -> None:
        if not self.has_rope:
            return
        self.source.use(self.names.shared("rope"), "RotaryEmbedding")
        calls = {key: self._rotary_text(key, rope) for key, rope in self.ropes.items()}
        if len(calls) == 1:
            self.setup += [f"self.rope = {call}" for call in calls.values()]
            return
        rows = [
            f'"{self.ropes[key].get("layer_type", key)}": {call}' for key, call in calls.items()
        ]
        self.setup.append(f"self.ropes = nn.ModuleDict({{{', '.join(rows)}}})")

    def _rotary_text(self, key: str, rope: Json) -> str:
        options = [f"args.{key}"]
        if rope.get("pairing", "half") != "half":
            options.append(f"pairing={value_text(rope['pairing'])}")
        if rope.get("reverse"):
            options.append("reverse=True")
        return f"RotaryEmbedding({', '.join(options)})"

    def _make_layers(self) -> None:
        each = "str(layer_id): TransformerBlock(args, layer_id)"
        self.setup.append(
            f"self.layers = nn.ModuleDict({{{each} for layer_id in range(args.n_layers)}})"
        )

    def _make_head(self) -> None:
        part = self.head
        if has(part.get("norm")):
            text = norm_text(part["norm"], self.source, self.names)
            self.setup.append(f"self.norm = {text}")
        transform: Json | None = part.get("transform")
        if transform is not None and has(transform):
            bias = value_text(transform.get("bias", True))
            self.source.use(self.names.shared("feed_forward"), "get_activation")
            self.setup += [
                f"self.head_dense = nn.Linear(args.dim, args.dim, bias={bias})",
                f"self.head_act = get_activation({value_text(transform['activation'])})",
                f"self.head_norm = {norm_text(transform['norm'], self.source, self.names)}",
            ]
        bias = value_text(part.get("bias", False))
        self.setup += [
            "if args.is_critic:",
            "    self.score = nn.Linear(args.dim, args.num_labels, bias=False)",
            "else:",
            f"    self.output = nn.Linear(args.dim, args.vocab_size, bias={bias})",
            "self.tie_weights()",
        ]

    # --- what it computes ---

    def _forward(self) -> list[str]:
        lines = [
            "refuse_tree_attention(tree_attn_meta)",
            "packing = Packing.of(positions, cu_seqlens, max_seqlen, attention_plan)",
        ]
        embedded = "self.tok_embeddings(tokens)"
        if self._embed():
            embedded = f"self._embed(tokens{', packing' if self._embeds_positions() else ''})"
        lines.append(f"h = tokens if self.tok_embeddings is None else {embedded}")
        lines += self._layer_loop()
        lines += self._last_stage()
        return lines

    def _layer_loop(self) -> list[str]:
        if not self.has_rope:
            return ["for layer in self.layers.values():", "    h = layer(h, packing)"]
        if len(self.ropes) == 1:
            return [
                "rope = self.rope(packing, h.dtype)",
                "for layer in self.layers.values():",
                "    h = layer(h, rope, packing)",
            ]
        key = value_text(self.design["attention"]["rope"]["key"])
        kind = key.replace("args.", "self.model_args.").replace("[layer_id]", "[int(layer_id)]")
        return [
            "ropes = {kind: rope(packing, h.dtype) for kind, rope in self.ropes.items()}",
            "for layer_id, layer in self.layers.items():",
            f"    h = layer(h, ropes[{kind}], packing)",
        ]

    def _last_stage(self) -> list[str]:
        norm = self.head.get("norm")
        lines: list[str] = []
        kept = "keep_tokens(h, logits_to_keep)"
        if has(norm):
            lines += ["if self.norm is None:", "    return h"]
            kept = "keep_tokens(self.norm(h), logits_to_keep)"
        if self._logits():
            lines += [
                f"h = {kept}",
                "if self.model_args.is_critic:",
                "    return h if self.score is None else self.score(h)",
                "return h if self.output is None else self._logits(h)",
            ]
            return lines
        lines.append("head = self.score if self.model_args.is_critic else self.output")
        if has(norm):
            return [*lines[:-1], f"h = {kept}", lines[-1], "return h if head is None else head(h)"]
        return [*lines, f"return h if head is None else head({kept})"]

    def _embeds_positions(self) -> bool:
        return has(self.embedding.get("positions"))

    def _embed(self) -> list[str]:
        """Returns the body of ``_embed``; none where tokens are all that is embedded."""
        part = self.embedding
        steps = [self._embed_step(name) for name in part.get("order") or _EMBEDDING_ORDER]
        steps = [step for step in steps if step]
        if not steps and not given(part.get("tokens_dim")):
            return []
        lines = ["h = self.tok_embeddings(tokens)", *(line for step in steps for line in step)]
        if given(part.get("tokens_dim")):
            lines.insert(1, "h = self.embedding_proj(h)")
        last = lines[-1].removeprefix("h = ")
        return [*lines[:-1], f"return {last}"] if last != lines[-1] else [*lines, "return h"]

    def _embed_step(self, name: str) -> list[str]:
        part = self.embedding
        if name == "multiplier" and given(part.get("multiplier")) and part["multiplier"] != 1.0:
            factor = model_value(part["multiplier"])
            if part.get("multiplier_rounded"):
                self.source.use("torch")
                factor = f"torch.tensor({factor}, dtype=h.dtype)"
            return [f"h = h * {factor}"]
        if name == "norm" and has(part.get("norm")):
            return ["h = self.embedding_norm(h)"]
        if name == "positions" and has(part.get("positions")):
            is_learned = part["positions"].get("kind", "learned") == "learned"
            found = f"self.pos_embeddings(packing{'' if is_learned else ', h.dtype'})"
            if guard_of(part["positions"]) == ALWAYS:
                return [f"h = h + {found}"]
            return ["if self.pos_embeddings is not None:", f"    h = h + {found}"]
        return []

    def _logits(self) -> list[str]:
        """Returns the body of ``_logits``; none where the output layer alone makes them."""
        part = self.head
        lines: list[str] = []
        transform: Json | None = part.get("transform")
        if transform is not None and has(transform):
            lines.append("h = self.head_norm(self.head_act(self.head_dense(h)))")
        logits = "self.output(h)"
        if given(part.get("multiplier")) and part["multiplier"] != 1.0:
            logits = f"{logits} * {model_value(part['multiplier'])}"
        if given(part.get("divisor")) and part["divisor"] != 1.0:
            logits = f"{logits} / {model_value(part['divisor'])}"
        cap = part.get("softcap")
        if given(cap):
            self.source.use("torch")
            lines += _capped(logits, cap)
        elif lines or logits != "self.output(h)":
            lines.append(f"return {logits}")
        return lines


_EMBEDDING_ORDER: Sequence[str] = ("multiplier", "positions", "norm")


def model_value(value: Any) -> str:
    """Returns a value as it stands in the methods of a model."""
    return value_text(value).replace("args.", "self.model_args.")


def _capped(logits: str, cap: Any) -> list[str]:
    """Returns the statements that bound the logits; a cap from the config may be None."""
    text = model_value(cap)
    if not isinstance(cap, Mapping):
        return [f"return {text} * torch.tanh({logits} / {text})"]
    return [
        f"cap, logits = {text}, {logits}",
        "return logits if cap is None else cap * torch.tanh(logits / cap)",
    ]
