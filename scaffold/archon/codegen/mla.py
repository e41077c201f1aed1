"""Latent attention of a generated model: keys and values expanded from a compressed state."""

from __future__ import annotations

from scaffold.archon.codegen.attention import AttentionWriter, takes_rope
from scaffold.archon.codegen.modules import norm_text
from scaffold.archon.codegen.source import Source
from scaffold.archon.codegen.values import ALWAYS, Json, given, guard_of, product, value_text


def mla_class(design: Json, source: Source) -> str:
    """Return the class ``Attention`` of a design whose attention is latent."""
    return _LatentWriter(design, source).text()


class _LatentWriter(AttentionWriter):
    def text(self) -> str:
        part, body, rotates = self.part, self.body, takes_rope(self.design)
        self.source.use("torch")
        sizes = ("head_dim", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "kv_lora_rank")
        for name in sizes:
            body.kept(name, value_text(part[name]))
        self._queries()
        if rotates:
            nope_and_rope = "[self.qk_nope_head_dim, self.qk_rope_head_dim]"
            body.step(f"q_nope, q_rope = q.split({nope_and_rope}, dim=-1)")
        self._keys_and_values(rotates)
        out = product(part["n_heads"], part["v_head_dim"])
        body.setup.append(self._linear("wo", f"{out}, args.dim", "o_bias"))
        self.add_core()
        body.step("return self.wo(merge_heads(self.core(q, k, v, packing)))")
        return self.class_of("Attends with keys and values that are expanded from a latent state.")

    def _linear(self, name: str, sizes: str, bias: str) -> str:
        return f"self.{name} = nn.Linear({sizes}, bias={value_text(self.part.get(bias, False))})"

    def _queries(self) -> None:
        """Write queries: from a latent state, straight from the input, or by the rank."""
        part, body = self.part, self.body
        width = product(part["n_heads"], part["head_dim"])
        plain = self._linear("wq", f"args.dim, {width}", "q_bias")
        query = "self.wq(x)"
        if given(part.get("q_lora_rank")):
            rank = value_text(part["q_lora_rank"])
            norm = norm_text({**part["q_norm"], "when": True}, self.source)
            setup = [
                self._linear("wq_a", f"args.dim, {rank}", "q_a_bias"),
                f"self.q_norm = {norm}",
                self._linear("wq_b", f"{rank}, {width}", "q_b_bias"),
            ]
            latent = "self.wq_b(self.q_norm(self.wq_a(x)))"
            if guard_of(part["q_norm"]) == ALWAYS:  # the rank is always there
                query = latent
            else:
                inner = [f"    {line}" for line in setup]
                setup = [f"if {rank} is None:", f"    {plain}", "else:", *inner]
                query = f"{query} if self.q_lora_rank is None else {latent}"
            body.setup += setup
            if query != latent:
                body.kept("q_lora_rank", rank)
        else:
            body.setup.append(plain)
        body.step(f"q = {query}")
        factor = ""
        if given(part.get("q_multiplier")):
            factor = f" * {body.stored('q_multiplier', part['q_multiplier'])}"
        body.step(f"q = split_heads(q{factor}, self.head_dim)")

    def _keys_and_values(self, rotates: bool) -> None:
        # The first projection gives the latent state and the part of the keys that may rotate; the
        # second expands the state to keys and values.
        part, body = self.part, self.body
        nope, value = value_text(part["qk_nope_head_dim"]), value_text(part["v_head_dim"])
        rank, rotated = value_text(part["kv_lora_rank"]), value_text(part["qk_rope_head_dim"])
        heads = value_text(part["n_heads"])
        body.setup += [
            self._linear("wkv_a", f"args.dim, {rank} + {rotated}", "kv_a_bias"),
            f"self.kv_norm = {norm_text(part['kv_norm'], self.source)}",
            self._linear("wkv_b", f"{rank}, {heads} * ({nope} + {value})", "kv_b_bias"),
        ]
        sizes = "[self.kv_lora_rank, self.qk_rope_head_dim]"
        body.step(f"latent, k_rope = self.wkv_a(x).split({sizes}, dim=-1)")
        latent = "self.kv_norm(latent)"
        if given(part.get("kv_multiplier")):
            latent += f" * {body.stored('kv_multiplier', part['kv_multiplier'])}"
        size = "self.qk_nope_head_dim + self.v_head_dim"
        body.step(f"kv = split_heads(self.wkv_b({latent}), {size})")
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
