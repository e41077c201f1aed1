"""The attention of a generated model: projections, norms, rotation, gates and the shared core."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scaffold.archon.codegen.class_body import ModuleBody, maybe
from scaffold.archon.codegen.modules import norm_text
from scaffold.archon.codegen.source import Source, class_text, function_text
from scaffold.archon.codegen.values import (
    ALWAYS,
    NEVER,
    Json,
    fixed,
    given,
    guard_of,
    has,
    product,
    told,
    value_text,
)

_DOC_WIDTH = 88
"""Longest first line of the docstring of a class, between its indent and its quotes."""

GATES = {
    "sigmoid": "torch.sigmoid({})",
    "softplus": "F.softplus({})",
    "silu": "F.silu({})",
    "tanh": "torch.tanh({})",
}
"""Functions of a gate on the attention's output, by the name that a design gives them."""


def attention_class(design: Json, source: Source) -> str:
    """Return the class ``Attention`` of a design."""
    return _GroupedWriter(design, source).text()


def takes_rope(design: Json) -> bool:
    """Return whether the blocks of a model get a table of rotations."""
    return bool(design.get("ropes")) and has(design["attention"].get("rope"))


def attention_count(design: Json) -> int:
    """Return how many attention modules each block has."""
    return sum(module["kind"] == "attention" for module in design["block"]["modules"])


def forward_signature(design: Json) -> str:
    """Return ``def forward`` of an attention or a block, up to its colon."""
    rope = "rope: RopeTable, " if takes_rope(design) else ""
    return f"def forward(self, x: Tensor, {rope}packing: Packing) -> Tensor"


class AttentionWriter:
    """What grouped and latent attention share: imports, the core, and the class around all."""

    def __init__(self, design: Json, source: Source) -> None:
        self.design = design
        self.part: Json = design["attention"]
        self.source = source
        self.body = ModuleBody(source)
        source.share("attention", "AttentionCore", "merge_heads", "split_heads")
        source.share("layers.packing", "Packing")
        if takes_rope(design):
            source.share("layers.rope", "RopeTable", "apply_rotary")

    def add_core(self) -> None:
        """Make the core, which attends."""
        layer = "core_id" if attention_count(self.design) > 1 else "layer_id"
        options = [f"scale={value_text(self.part['scale'])}"]
        options += told(self.part, window=None, chunk=None, softcap=None, causal=True)
        call = f"AttentionCore({layer}, args.attn_type, {', '.join(options)})"
        self.body.setup.append(f"self.core = {call}")

    def class_of(self, doc: str, reset: str = "") -> str:
        """Return the class, with a method that resets its own parameters if it has some."""
        core_id = ", core_id: int" if attention_count(self.design) > 1 else ""
        init = f"def __init__(self, args: {self.source.names.args}, layer_id: int{core_id}) -> None"
        made, forward = self.body.methods(init, forward_signature(self.design))
        return class_text("Attention", "nn.Module", doc, [made, reset, forward])


class _GroupedWriter(AttentionWriter):
    def text(self) -> str:
        self.v_head_dim: Any = self.part.get("v_head_dim") or self.part["head_dim"]
        self._projections()
        self._queries_keys_values()
        extras = self._extras()
        self.add_core()
        attended = f"self.core({', '.join(['q', 'k', 'v', 'packing', *extras])})"
        self._output(attended)
        return self.class_of(self._doc(), _reset_method(self.part))

    def _doc(self) -> str:
        part = self.part
        is_multi_head = part["n_heads"] == part["n_kv_heads"]
        parts = ["Attends with several heads" if is_multi_head else "Attends with grouped queries"]
        norm: Json = part.get("q_norm") or {"when": False}
        if has(norm):
            over = "each head of " if norm.get("over", "head") == "head" else ""
            order = "after" if norm.get("after_rope") else "before"
            rotation = f" {order} rotating" if takes_rope(self.design) else ""
            parts.append(f"norms {over}queries and keys{rotation}")
        if has(part.get("gate")):
            parts.append("gates the output")
        if has(part.get("sinks")):
            parts.append("lets heads attend to nothing")
        if has(part.get("alibi")):
            parts.append("lowers scores with distance")
        # "Attends with grouped queries and gates the output." reads as one clause.
        if len(parts) < 3:
            return " and ".join(parts) + "."
        text = ", ".join(parts[:-1]) + f" and {parts[-1]}."
        if len(text) <= _DOC_WIDTH:
            return text
        rest = text.removeprefix(f"{parts[0]}, ")
        return f"{parts[0]}.\n\n{rest[:1].upper()}{rest[1:]}"

    def _projections(self) -> None:
        part, body = self.part, self.body
        body.kept("head_dim", value_text(part["head_dim"]))
        if given(part.get("v_head_dim")):
            body.kept("v_head_dim", value_text(self.v_head_dim))
        q_width = product(part["n_heads"], part["head_dim"])
        k_width = product(part["n_kv_heads"], part["head_dim"])
        v_width = product(part["n_kv_heads"], self.v_head_dim)
        out_width = product(part["n_heads"], self.v_head_dim)
        for name, sizes in (
            ("q", f"args.dim, {q_width}"),
            ("k", f"args.dim, {k_width}"),
            ("v", f"args.dim, {v_width}"),
            ("o", f"{out_width}, args.dim"),
        ):
            bias = value_text(part.get(f"{name}_bias", False))
            body.setup.append(f"self.w{name} = nn.Linear({sizes}, bias={bias})")
        heads = {"q_norm": part["n_heads"], "k_norm": part["n_kv_heads"]}
        for name in ("q_norm", "k_norm", "v_norm"):
            norm: Json | None = part.get(name)
            if norm is not None and has(norm):
                each = heads.get(name, part["n_kv_heads"]) if norm.get("per_head") else None
                call = norm_text(norm, self.source, each)
                body.setup.append(f"self.{name} = {call}")

    def _queries_keys_values(self) -> None:
        # Each state is the text of an expression, which grows until a statement has to name it.
        states = {name: f"self.w{name}(x)" for name in "qkv"}
        clip: Json | None = self.part.get("clip_qkv")
        if clip is not None and not clip.get("after_norm"):
            self._clip(states, clip)
        # Clipping and norming do not commute, and models do both orders.
        self._norm(states, over="projection", after_rope=False)
        if clip is not None and clip.get("after_norm"):
            self._clip(states, clip)
        has_v_size = given(self.part.get("v_head_dim"))
        for name in "qkv":
            size = "self.v_head_dim" if name == "v" and has_v_size else "self.head_dim"
            self.body.step(f"{name} = split_heads({states[name]}, {size})")
            states[name] = name
        self._norm(states, over="head", after_rope=False)
        self._rotate(states)
        self._norm(states, over="head", after_rope=True)
        self._settle(states)
        self._factors()

    def _settle(self, states: dict[str, str]) -> None:
        """Give each state its name back, in one statement each."""
        for name, text in states.items():
            if text != name:
                self.body.step(f"{name} = {text}")
                states[name] = name

    def _clip(self, states: dict[str, str], clip: Json) -> None:
        guard = self.body.flag("clips", guard_of(clip))
        if guard == NEVER:
            return
        limit = self.body.stored("clip_limit", clip["limit"])
        if guard == ALWAYS:
            for name in states:
                states[name] = f"{states[name]}.clamp(-{limit}, {limit})"
            return
        # A clamp under a condition is a statement, so the states need names before it.
        guard = self._none_test(guard, clip["limit"], limit)
        self._settle(states)
        for name in states:
            self.body.step(f"{name} = {name}.clamp(-{limit}, {limit})", guard)

    def _none_test(self, guard: str, value: Any, stored: str) -> str:
        """Return a test of the value itself where the guard only asks whether it is there."""
        text = value_text(value)
        for line in list(self.body.setup):
            # `self.clips = args.clip_qkv is not None`: the stored limit gives the same answer.
            if line == f"{guard} = {text} is not None":
                self.body.setup.remove(line)
                return f"{stored} is not None"
        return guard

    def _norm(self, states: dict[str, str], *, over: str, after_rope: bool) -> None:
        for name in "qkv":
            norm: Json | None = self.part.get(f"{name}_norm")
            if norm is None or not has(norm) or fixed(norm, "over", "head") != over:
                continue
            if bool(fixed(norm, "after_rope", False)) == after_rope:
                states[name] = f"self.{name}_norm({states[name]})"

    def _rotate(self, states: dict[str, str]) -> None:
        if not takes_rope(self.design):
            return
        guard = self.body.flag("has_rope", guard_of(self.part["rope"]))
        if guard != ALWAYS:
            self._settle(states)
        for name in "qk":
            if guard == ALWAYS:
                states[name] = f"apply_rotary({states[name]}, rope)"
            else:
                self.body.step(f"{name} = apply_rotary({name}, rope)", guard)

    def _factors(self) -> None:
        """Write what multiplies queries, keys and values before they meet."""
        body, part = self.body, self.part
        temperature: Json | None = part.get("temperature")
        if temperature is not None and has(temperature):
            rule = temperature.get("rule", "log")
            self.source.share("layers.positions", f"{rule}_temperature")
            guard = body.flag("has_temperature", guard_of(temperature))
            keys = ("scale", "floor") if rule == "log" else ("power", "length")
            options = [f"{k}={body.stored(f'temperature_{k}', temperature[k])}" for k in keys]
            if temperature.get("position_offset", 0):
                options.append(f"offset={value_text(temperature['position_offset'])}")
            call = f"{rule}_temperature(packing.positions, {', '.join(options)})"
            body.step(f"temperature = {call}", guard)
            body.step("q = (q * temperature).to(q.dtype)", guard)
        if told(part, value_scale=1.0):
            body.step(f"v = v * {body.stored('value_scale', part['value_scale'])}")

    def _extras(self) -> list[str]:
        """Return what the core is given beside queries, keys and values."""
        part, extras = self.part, list[str]()
        if has(part.get("sinks")):
            empty = f"nn.Parameter(torch.zeros({value_text(part['n_heads'])}))"
            self.source.use("torch")
            sinks = maybe(empty, guard_of(part["sinks"]), "None")
            self.body.setup.append(f"self.sinks = {sinks}")
            extras.append("sinks=self.sinks")
        if has(part.get("alibi")):
            extras.append(f"alibi_slopes={self._alibi(part['alibi'])}")
        return extras

    def _alibi(self, alibi: Json) -> str:
        self.source.share("layers.positions", "AlibiSlopes")
        # Only what differs from the defaults of AlibiSlopes is written.
        options = [value_text(self.part["n_heads"]), *told(alibi, max_bias=8)]
        options += told({"scale": alibi.get("multiplier")}, scale=1.0)
        guard = guard_of(alibi)
        call = f"AlibiSlopes({', '.join(options)})"
        self.body.setup.append(f"self.alibi = {maybe(call, guard, 'None')}")
        is_always = guard == ALWAYS
        return "self.alibi(q)" if is_always else "None if self.alibi is None else self.alibi(q)"

    def _output(self, attended: str) -> None:
        """Write the way from what was attended, [1, H, T, Dv], to the end of ``forward``."""
        part, body = self.part, self.body
        norm: Json | None = part.get("out_norm") if has(part.get("out_norm")) else None
        if norm is not None:
            heads = part["n_heads"] if norm.get("per_head") else None
            body.setup.append(f"self.out_norm = {norm_text(norm, self.source, heads)}")
        out = attended
        if has(part.get("gate")):
            body.step(f"out = {out}")
            self._gate(part["gate"])
            out = "out"
        out = f"merge_heads({out})"
        # A norm over the projection sees all heads side by side, so it comes after the merge.
        if norm is not None:
            out = f"self.out_norm({out})"
        body.step(f"return self.wo({out})")

    def _gate(self, gate: Json) -> None:
        part, body = self.part, self.body
        guard = guard_of(gate)
        per_head = gate.get("per", "dim") == "head"
        width, size = self._gate_sizes(gate)
        call = f"nn.Linear(args.dim, {width}, bias={value_text(gate.get('bias', False))})"
        body.setup.append(f"self.gate = {maybe(call, guard, 'None')}")
        logits = "self.gate(x)" if per_head else f"split_heads(self.gate(x), {size})"
        if gate.get("head_bias"):
            self.source.use("torch")
            zeros = f"nn.Parameter(torch.zeros({value_text(part['n_heads'])}))"
            body.setup.append(f"self.gate_bias = {maybe(zeros, guard, 'None')}")
            # The bias is [H]; logits are [1, T, H] for one gate a head, else [1, H, T, Dv].
            logits += " + self.gate_bias" + ("" if per_head else "[:, None, None]")
        value = GATES[fixed(gate, "fn", "sigmoid")].format(logits)
        if value.startswith("F."):
            self.source.use_as("torch.nn.functional", "F")
        else:
            self.source.use("torch")
        # One gate a head is [1, T, H]; the output of attention is [1, H, T, Dv].
        shaped = f"{value}.transpose(1, 2).unsqueeze(-1)" if per_head else value
        body.step(f"out = out * {shaped}", guard if guard == ALWAYS else "self.gate is not None")

    def _gate_sizes(self, gate: Json) -> tuple[str, str]:
        """Return how wide all gates are, and those of a head: the config may choose one."""
        part, per = self.part, gate.get("per", "dim")
        if isinstance(per, Mapping):
            text = f'1 if {value_text(per)} == "head" else {value_text(self.v_head_dim)}'
            kept = self.body.kept("gate_dim", text)
            return f"{product(part['n_heads'])} * {kept}", kept
        size = "v_head_dim" if part.get("v_head_dim") is not None else "head_dim"
        width = product(part["n_heads"], *([] if per == "head" else [self.v_head_dim]))
        return width, f"self.{size}"


def own_parameters(part: Json) -> dict[str, str]:
    """Return the parameters that belong to the attention itself, and their guards."""
    found: dict[str, str] = {}
    if has(part.get("sinks")):
        found["sinks"] = guard_of(part["sinks"])
    if has(part.get("gate")) and part["gate"].get("head_bias"):
        found["gate_bias"] = guard_of(part["gate"])
    return found


def _reset_method(part: Json) -> str:
    """Return the method that gives the attention's own parameters fresh values, or ""."""
    body: list[str] = []
    for name, guard in own_parameters(part).items():
        line = f"nn.init.zeros_(self.{name})"
        body += [line] if guard == ALWAYS else [f"if self.{name} is not None:", f"    {line}"]
    return function_text("def reset_parameters(self) -> None", body) if body else ""
