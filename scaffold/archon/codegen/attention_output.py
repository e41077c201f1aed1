"""What happens to the heads' output: its norm, its gate, and the projection back to the stream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scaffold.archon.codegen.class_body import ModuleBody, maybe
from scaffold.archon.codegen.names import ModelNames
from scaffold.archon.codegen.norms import norm_text
from scaffold.archon.codegen.source import function_text
from scaffold.archon.codegen.values import ALWAYS, Json, fixed, guard_of, has, product, value_text

GATES = {
    "sigmoid": "torch.sigmoid({})",
    "softplus": "F.softplus({})",
    "silu": "F.silu({})",
    "tanh": "torch.tanh({})",
}
"""Functions of a gate on the attention's output, by the name that a design gives them."""


def write_output(
    part: Json, body: ModuleBody, names: ModelNames, attended: str, v_head_dim: Any
) -> None:
    """Write the way from the attention's output [1, H, T, Dv] to the end of ``forward``.

    Args:
        part: The attention of the design.
        attended: The text of that output.
        v_head_dim: Its last dimension, as a value of the design.
    """
    norm: Json | None = part.get("out_norm") if has(part.get("out_norm")) else None
    gate: Json | None = part.get("gate") if has(part.get("gate")) else None
    if norm is not None:
        heads = part["n_heads"] if norm.get("per_head") else None
        body.setup.append(f"self.out_norm = {norm_text(norm, body.source, names, heads)}")
    out = attended
    if gate is not None:
        body.step(f"out = {out}")
        _write_gate(part, gate, body, v_head_dim)
        out = "out"
    out = f"merge_heads({out})"
    # A norm over the projection sees all heads side by side, so it comes after the merge.
    if norm is not None:
        out = f"self.out_norm({out})"
    body.step(f"return self.wo({out})")


def _write_gate(part: Json, gate: Json, body: ModuleBody, v_head_dim: Any) -> None:
    guard = guard_of(gate)
    per_head = gate.get("per", "dim") == "head"
    width, size = _gate_sizes(part, gate, body, v_head_dim)
    call = f"nn.Linear(args.dim, {width}, bias={value_text(gate.get('bias', False))})"
    body.setup.append(f"self.gate = {maybe(call, guard, 'None')}")
    logits = "self.gate(x)" if per_head else f"split_heads(self.gate(x), {size})"
    if gate.get("head_bias"):
        body.source.use("torch")
        zeros = f"nn.Parameter(torch.zeros({value_text(part['n_heads'])}))"
        body.setup.append(f"self.gate_bias = {maybe(zeros, guard, 'None')}")
        # The bias is [H]; logits are [1, T, H] for one gate a head, else [1, H, T, Dv].
        logits += " + self.gate_bias" + ("" if per_head else "[:, None, None]")
    value = GATES[fixed(gate, "fn", "sigmoid")].format(logits)
    if value.startswith("F."):
        body.source.use_as("torch.nn.functional", "F")
    else:
        body.source.use("torch")
    # One gate a head is [1, T, H]; the output of attention is [1, H, T, Dv].
    shaped = f"{value}.transpose(1, 2).unsqueeze(-1)" if per_head else value
    condition = ALWAYS if guard == ALWAYS else "self.gate is not None"
    body.step(f"out = out * {shaped}", condition)


def _gate_sizes(part: Json, gate: Json, body: ModuleBody, v_head_dim: Any) -> tuple[str, str]:
    """Return how wide all gates are and those of a head, which may be one: the config may say."""
    per = gate.get("per", "dim")
    if isinstance(per, Mapping):
        text = f'1 if {value_text(per)} == "head" else {value_text(v_head_dim)}'
        kept = body.kept("gate_dim", text)
        return f"{product(part['n_heads'])} * {kept}", kept
    size = "v_head_dim" if part.get("v_head_dim") is not None else "head_dim"
    return product(part["n_heads"], *([] if per == "head" else [v_head_dim])), f"self.{size}"


def own_parameters(part: Json) -> dict[str, str]:
    """Return the parameters that belong to the attention itself, and their guards."""
    found: dict[str, str] = {}
    if has(part.get("sinks")):
        found["sinks"] = guard_of(part["sinks"])
    if has(part.get("gate")) and part["gate"].get("head_bias"):
        found["gate_bias"] = guard_of(part["gate"])
    return found


def reset_method(part: Json) -> str:
    """Return the method that gives the attention's own parameters fresh values, or ""."""
    body: list[str] = []
    for name, guard in own_parameters(part).items():
        line = f"nn.init.zeros_(self.{name})"
        body += [line] if guard == ALWAYS else [f"if self.{name} is not None:", f"    {line}"]
    return function_text("def reset_parameters(self) -> None", body) if body else ""
