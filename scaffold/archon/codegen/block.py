"""The block of a generated model: its modules and how the residual stream passes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from scaffold.archon.codegen.attention import attention_count, forward_signature, takes_rope
from scaffold.archon.codegen.class_body import ModuleBody, maybe
from scaffold.archon.codegen.modules import feed_forward_text, mixer_text, norm_text
from scaffold.archon.codegen.moe import moe_text
from scaffold.archon.codegen.source import Source, class_text
from scaffold.archon.codegen.steps import steps_text
from scaffold.archon.codegen.values import ALWAYS, NEVER, Json, guard_of


def block_class(design: Json, source: Source) -> str:
    """Return the class ``TransformerBlock`` of a design."""
    return _BlockWriter(design, source).text()


class _BlockWriter:
    def __init__(self, design: Json, source: Source) -> None:
        self.design = design
        self.source = source
        self.body = ModuleBody(source)
        modules: Sequence[Json] = design["block"]["modules"]
        # What no configuration has is written nowhere.
        self.modules = {str(m["name"]): m for m in modules if guard_of(m) != NEVER}

    def text(self) -> str:
        self._make_modules()
        variants = [v for v in self.design["block"]["variants"] if guard_of(v) != NEVER]
        self._write_variants(variants)
        init = f"def __init__(self, args: {self.source.names.args}, layer_id: int) -> None"
        methods = self.body.methods(init, forward_signature(self.design))
        return class_text("TransformerBlock", "nn.Module", self._doc(variants), methods)

    def _doc(self, variants: Sequence[Json]) -> str:
        kinds = [module["kind"] for module in self.modules.values()]
        branch = "the feed-forward"
        if "moe" in kinds:
            branch = "a mixture of experts"
            dense = [module for module in self.modules.values() if module["kind"] == "mlp"]
            word = "or" if any(guard_of(module) != ALWAYS for module in dense) else "and"
            branch += f" {word} a feed-forward" if dense else ""
        mixed = [m for m in self.modules.values() if m["kind"] in ("attention", "mixer")]
        word = "and" if all(guard_of(module) == ALWAYS for module in mixed) else "or"
        mixing = f"attention {word} a mixer" if "mixer" in kinds else "attention"
        where = _norm_places(variants[0]["steps"], self.modules)
        if len(variants) > 1:
            return f"Adds {mixing} and {branch}, in an order that the arguments choose."
        if _is_parallel(variants[0]["steps"], self.modules):
            return f"Adds {mixing} and {branch} side by side{where}."
        return f"Adds {mixing}, then {branch}{where}."

    def _make_modules(self) -> None:
        cores = 0
        for name, module in self.modules.items():
            text = self._module_text(module, cores)
            cores += module["kind"] == "attention"
            if module["kind"] != "norm":
                text = maybe(text, guard_of(module), "None")
            self.body.setup.append(f"self.{name} = {text}")

    def _module_text(self, module: Json, number: int) -> str:
        """Return the call that makes a module; ``number`` attentions of the block are before it."""
        if module["kind"] == "attention":
            count = attention_count(self.design)
            # Each core has a number of its own over all layers, under which inference keeps its
            # cache.
            core_id = f", {count} * layer_id" + (f" + {number}" if number else "")
            return f"Attention(args, layer_id{core_id if count > 1 else ''})"
        if module["kind"] == "norm":
            norm: dict[str, Any] = dict(module["norm"])
            if "when" in module:
                norm["when"] = module["when"]
            return norm_text(norm, self.source)
        if module["kind"] == "mixer":
            return mixer_text(self.design["mixer"], self.source)
        if module["kind"] == "mlp":
            mlp: Json = module.get("mlp") or self.design["mlp"]
            return feed_forward_text(mlp, self.source)
        # The mixture of experts has much to say of its own.
        return moe_text(self.design["moe"], self.source)

    def _write_variants(self, variants: Sequence[Json]) -> None:
        for number, variant in enumerate(variants):
            guard = self.body.flag(f"has_order_{number + 1}", guard_of(variant))
            is_last = number == len(variants) - 1
            lines = self._variant_lines(variant)
            # The last order needs no condition: one of them always holds.
            if is_last or guard == ALWAYS:
                self.body.steps += lines
                return
            self.body.steps += [f"if {guard}:", *(f"    {line}" for line in lines)]

    def _variant_lines(self, variant: Json) -> list[str]:
        first: list[str] = []

        def call(target: Any, argument: str) -> str:
            name = self._chosen(target, first)
            module = self.modules.get(name)
            shown = f"self.{name}" if module else name
            kinds = {self.modules[each]["kind"] for each in _targets(target)}
            if not kinds & {"attention", "mixer"}:
                return f"{shown}({argument})"
            rope = "rope, " if takes_rope(self.design) else ""
            return f"{shown}({argument}, {rope}packing)"

        steps = self._live(variant["steps"])
        lines = steps_text(steps, call, lambda value: self.body.stored("residual_scale", value))
        return [*first, *lines]

    def _live(self, steps: Sequence[Json]) -> list[Json]:
        """Return the steps with calls of modules that the model never has left out."""
        # A module that is never there passes its input on: whoever read its output reads that.
        renamed: dict[str, str] = {}
        found: list[Json] = []
        for step in steps:
            step = _renamed(step, renamed)
            targets = step.get("call")
            if isinstance(targets, str) and targets not in self.modules:
                renamed[str(step["out"])] = str(step["in"])
            else:
                found.append(step)
        return found

    def _chosen(self, target: Any, first: list[str]) -> str:
        """Return the name to call: a module's, or that of a variable that holds whichever is."""
        if isinstance(target, str):
            return target
        options = [name for name in _targets(target) if name in self.modules]
        if len(options) == 1:
            return options[0]
        # Two modules that exclude each other, such as experts and a feed-forward by layer.
        one, other = options
        variable = "ffn" if "feed_forward" in options else "mixed"
        variable = variable if {"feed_forward", "mixer"} & set(options) else f"{other}_or_{one}"
        first.append(f"{variable} = self.{other} if self.{one} is None else self.{one}")
        return variable


def _targets(target: Any) -> list[str]:
    """Return the modules that a step may call."""
    return [target] if isinstance(target, str) else cast("list[str]", target)


def _renamed(step: Json, names: dict[str, str]) -> Json:
    if "call" in step:
        return {**step, "in": names.get(str(step["in"]), step["in"])}
    terms = [[names.get(str(name), name), weight] for name, weight in step["sum"]]
    return {**step, "sum": terms}


def _norm_places(steps: Sequence[Json], modules: dict[str, Json]) -> str:
    """Return where the norms of a block are, as the end of its description."""
    places: set[str] = set()
    branches: set[str] = set()
    ends = {name for step in steps for name, _ in step.get("sum", ())} | {steps[-1]["out"]}
    for step in steps:
        target = step.get("call")
        is_norm = isinstance(target, str) and modules.get(target, {}).get("kind") == "norm"
        if target and not is_norm:
            branches.add(str(step["out"]))
        elif is_norm:
            out = str(step["out"])
            # A norm whose output is added or returned is behind a branch, else in front of one.
            is_kept = out in ends
            after = "after" if str(step["in"]) in branches else "stream"
            places.add(after if is_kept else "before")
    return _PLACES.get(frozenset(places), "")


_PLACES = {
    frozenset({"before"}): ", each on the normed stream",
    frozenset({"after"}): ", each normed afterwards",
    frozenset({"stream"}): ", and norms the stream after each",
    frozenset({"before", "after"}): ", each normed before and after",
}


def _is_parallel(steps: Sequence[Json], modules: dict[str, Json]) -> bool:
    """Return whether one sum adds both branches."""
    sums = [step["sum"] for step in steps if "sum" in step]
    # The stream and both branches.
    return len(sums) == 1 and len(sums[0]) > 2
