"""From tokens to the first block: the embedding, its factor, norm, positions and projection."""

from __future__ import annotations

from scaffold.archon.codegen.class_body import maybe, model_value
from scaffold.archon.codegen.names import ModelNames
from scaffold.archon.codegen.norms import norm_text
from scaffold.archon.codegen.source import Source
from scaffold.archon.codegen.values import ALWAYS, Json, guard_of, has, told, value_text


def embedding_setup(part: Json, source: Source, names: ModelNames) -> list[str]:
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
        text = _positions_text(positions, width, source, names)
        text = maybe(text, guard_of(positions), "None")
        lines.append(f"self.pos_embeddings = {text}")
    if has(part.get("norm")):
        lines.append(f"self.embedding_norm = {norm_text(part['norm'], source, names)}")
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


def _positions_text(positions: Json, width: str, source: Source, names: ModelNames) -> str:
    if positions.get("kind") == "beside_padding":
        source.use(names.shared("layers", "positions"), "PositionsBesidePadding")
        padding = "self.tok_embeddings.padding_idx"
        return f"PositionsBesidePadding({value_text(positions['size'])}, {width}, {padding})"
    is_learned = positions.get("kind", "learned") == "learned"
    kind = "LearnedPositions" if is_learned else "SinusoidalPositions"
    source.use(names.shared("layers", "positions"), kind)
    options = [value_text(positions["size"])] if is_learned else []
    options += [width, *told(positions, offset=0)]
    options += [] if is_learned else told(positions, layout=None, reaches_base=None)
    return f"{kind}({', '.join(options)})"
