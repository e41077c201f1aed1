"""The attention of a generated model: projections, norms, rotation, gates and the shared core."""

from __future__ import annotations

from typing import Any

from scaffold.archon.codegen.attention_output import reset_method, write_output
from scaffold.archon.codegen.class_body import ModuleBody, maybe
from scaffold.archon.codegen.names import ModelNames
from scaffold.archon.codegen.norms import norm_text
from scaffold.archon.codegen.source import Source, class_text
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


def attention_class(design: Json, source: Source, names: ModelNames) -> str:
    """Return the class ``Attention`` of a design."""
    return _GroupedWriter(design, source, names).text()


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

    def __init__(self, design: Json, source: Source, names: ModelNames) -> None:
        self.design = design
        self.part: Json = design["attention"]
        self.source = source
        self.names = names
        self.body = ModuleBody(source)
        source.use(names.shared("attention"), "AttentionCore", "merge_heads", "split_heads")
        source.use(names.shared("layers", "packing"), "Packing")
        if takes_rope(design):
            source.use(names.shared("layers", "rope"), "RopeTable", "apply_rotary")

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
        init = f"def __init__(self, args: {self.names.args}, layer_id: int{core_id}) -> None"
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
        write_output(self.part, self.body, self.names, attended, self.v_head_dim)
        return self.class_of(self._doc(), reset_method(self.part))

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
                call = norm_text(norm, self.source, self.names, each)
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
            self.source.use(self.names.shared("layers", "positions"), f"{rule}_temperature")
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
        self.source.use(self.names.shared("layers", "positions"), "AlibiSlopes")
        # Only what differs from the defaults of AlibiSlopes is written.
        options = [value_text(self.part["n_heads"]), *told(alibi, max_bias=8)]
        options += told({"scale": alibi.get("multiplier")}, scale=1.0)
        guard = guard_of(alibi)
        call = f"AlibiSlopes({', '.join(options)})"
        self.body.setup.append(f"self.alibi = {maybe(call, guard, 'None')}")
        is_always = guard == ALWAYS
        return "self.alibi(q)" if is_always else "None if self.alibi is None else self.alibi(q)"
