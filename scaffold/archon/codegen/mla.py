"""Latent attention of a generated model: keys and values expanded from a compressed state."""

from __future__ import annotations

from scaffold.archon.codegen.attention import AttentionWriter, takes_rope
from scaffold.archon.codegen.class_body import ModuleBody
from scaffold.archon.codegen.names import ModelNames
from scaffold.archon.codegen.norms import norm_text
from scaffold.archon.codegen.source import Source
from scaffold.archon.codegen.values import ALWAYS, Json, given, guard_of, product, value_text


def mla_class(design: Json, source: Source, names: ModelNames) -> str:
    """Return the class ``Attention`` of a design whose attention is latent."""
    writer = AttentionWriter(design, source, names)
    part, body, rotates = writer.part, writer.body, takes_rope(design)
    source.use("torch")
    sizes = ("head_dim", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "kv_lora_rank")
    for name in sizes:
        body.kept(name, value_text(part[name]))
    _queries(part, body, source, names)
    if rotates:
        nope_and_rope = "[self.qk_nope_head_dim, self.qk_rope_head_dim]"
        body.step(f"q_nope, q_rope = q.split({nope_and_rope}, dim=-1)")
    _keys_and_values(part, body, source, names, rotates)
    out = product(part["n_heads"], part["v_head_dim"])
    body.setup.append(_linear("wo", f"{out}, args.dim", part, "o_bias"))
    writer.add_core()
    body.step("return self.wo(merge_heads(self.core(q, k, v, packing)))")
    return writer.class_of("Attends with keys and values that are expanded from a latent state.")


def _linear(name: str, sizes: str, part: Json, bias: str) -> str:
    return f"self.{name} = nn.Linear({sizes}, bias={value_text(part.get(bias, False))})"


def _queries(part: Json, body: ModuleBody, source: Source, names: ModelNames) -> None:
    """Write queries: from a latent state, straight from the input, or as the rank says."""
    width = product(part["n_heads"], part["head_dim"])
    rank = part.get("q_lora_rank")
    guard = guard_of(part["q_norm"])
    if not given(rank):
        body.setup.append(_linear("wq", f"args.dim, {width}", part, "q_bias"))
        query = "self.wq(x)"
    # The rank is known: queries always come from a latent state.
    elif guard == ALWAYS:
        _latent_queries(part, body, source, names, width)
        query = "self.wq_b(self.q_norm(self.wq_a(x)))"
    else:
        text = value_text(rank)
        body.setup += [
            f"if {text} is None:",
            f"    {_linear('wq', f'args.dim, {width}', part, 'q_bias')}",
            "else:",
        ]
        # The same statements, collected apart to be indented below the `else`.
        inner = ModuleBody(source)
        _latent_queries(part, inner, source, names, width)
        body.setup += [f"    {line}" for line in inner.setup]
        body.kept("q_lora_rank", text)
        query = "self.wq(x) if self.q_lora_rank is None else self.wq_b(self.q_norm(self.wq_a(x)))"
    body.step(f"q = {query}")
    factor = ""
    if given(part.get("q_multiplier")):
        factor = f" * {body.stored('q_multiplier', part['q_multiplier'])}"
    body.step(f"q = split_heads(q{factor}, self.head_dim)")


def _latent_queries(
    part: Json, body: ModuleBody, source: Source, names: ModelNames, width: str
) -> None:
    rank = value_text(part["q_lora_rank"])
    norm = {**part["q_norm"], "when": True}
    body.setup += [
        _linear("wq_a", f"args.dim, {rank}", part, "q_a_bias"),
        f"self.q_norm = {norm_text(norm, source, names)}",
        _linear("wq_b", f"{rank}, {width}", part, "q_b_bias"),
    ]


def _keys_and_values(
    part: Json, body: ModuleBody, source: Source, names: ModelNames, rotates: bool
) -> None:
    # The first projection gives the latent state and the part of the keys that may rotate; the
    # second expands the state to keys and values.
    nope, value = value_text(part["qk_nope_head_dim"]), value_text(part["v_head_dim"])
    rank, rotated = value_text(part["kv_lora_rank"]), value_text(part["qk_rope_head_dim"])
    heads = value_text(part["n_heads"])
    body.setup += [
        _linear("wkv_a", f"args.dim, {rank} + {rotated}", part, "kv_a_bias"),
        f"self.kv_norm = {norm_text(part['kv_norm'], source, names)}",
        _linear("wkv_b", f"{rank}, {heads} * ({nope} + {value})", part, "kv_b_bias"),
    ]
    body.step(
        "latent, k_rope = self.wkv_a(x).split([self.kv_lora_rank, self.qk_rope_head_dim], dim=-1)"
    )
    latent = "self.kv_norm(latent)"
    if given(part.get("kv_multiplier")):
        latent += f" * {body.stored('kv_multiplier', part['kv_multiplier'])}"
    body.step(f"kv = split_heads(self.wkv_b({latent}), self.qk_nope_head_dim + self.v_head_dim)")
    body.step("k_nope, v = kv.split([self.qk_nope_head_dim, self.v_head_dim], dim=-1)")
    # The rest of the keys is one head that all query heads share.
    shared = "apply_rotary(k_rope.unsqueeze(1), rope)" if rotates else "k_rope.unsqueeze(1)"
    body.step(f"k_rope = {shared}.expand(-1, k_nope.shape[1], -1, -1)")
    if rotates:
        body.step("q = torch.cat([q_nope, apply_rotary(q_rope, rope)], dim=-1)")
    body.step("k = torch.cat([k_nope, k_rope], dim=-1)")


def mla_plan(design: Json) -> dict[str, str]:
    """Return how latent attention is split: heads over ranks, latent states on each of them."""
    part: Json = design["attention"]
    plan = {"": "Region()", ".wkv_b": "Colwise()", ".wo": "Rowwise()"}
    # Either projection may exist; a plan may name modules that a configuration lacks.
    if not given(part.get("q_lora_rank")) or guard_of(part["q_norm"]) != ALWAYS:
        plan[".wq"] = "Colwise()"
    if given(part.get("q_lora_rank")):
        plan[".wq_b"] = "Colwise()"
    return plan
