"""From tokens to the first block: the embedding, its factor, norm, positions and projection."""

from __future__ import annotations

from collections.abc import Sequence

from scaffold.archon.codegen.class_body import maybe, model_value
from scaffold.archon.codegen.names import ModelNames
from scaffold.archon.codegen.norms import norm_text
from scaffold.archon.codegen.source import Source
from scaffold.archon.codegen.values import ALWAYS, Json, given, guard_of, has, value_text

ORDER: Sequence[str] = ("multiplier", "token_types", "positions", "norm")
"""In which order the parts of an embedding follow each other, unless the design says so."""


def embedding_setup(part: Json, source: Source, names: ModelNames) -> list[str]:
    """Return the statements that make the modules of an embedding."""
    width = value_text(part["tokens_dim"]) if given(part.get("tokens_dim")) else "args.dim"
    wide = "args.dim"
    projection: Json = part.get("projection") or {"when": False}
    if has(projection):
        # The norm and all tables are as wide as the embedding, which is mapped to the stream last.
        width = wide = value_text(projection["dim"])
    padding = ""
    if given(part.get("padding_idx")):
        padding = f", padding_idx={value_text(part['padding_idx'])}"
    lines = [f"self.tok_embeddings = nn.Embedding(args.vocab_size, {width}{padding})"]
    if width != wide:
        lines.append(f"self.embedding_proj = nn.Linear({width}, args.dim, bias=False)")
    if has(part.get("token_types")):
        size = value_text(part["token_types"]["size"])
        lines.append(f"self.type_embeddings = nn.Embedding({size}, {wide})")
    if embeds_positions(part):
        positions: Json = part["positions"]
        text = _positions_text(positions, wide, source, names)
        text = maybe(text, guard_of(positions), "None")
        lines.append(f"self.pos_embeddings = {text}")
    if has(part.get("norm")):
        lines.append(f"self.embedding_norm = {norm_text(part['norm'], source, names)}")
    if has(projection):
        call = f"nn.Linear({wide}, args.dim, bias={value_text(projection['bias'])})"
        call = maybe(call, guard_of(projection), "nn.Identity()")
        lines.append(f"self.embedding_proj = {call}")
    return lines


def embeds_positions(part: Json) -> bool:
    """Return whether an embedding adds vectors of positions."""
    return has(part.get("positions"))


def embedding_steps(part: Json, source: Source) -> list[str]:
    """Return the body of ``embed``; none where tokens are all that is embedded."""
    lines = ["h = self.tok_embeddings(tokens)"]
    if given(part.get("tokens_dim")):
        lines.append("h = self.embedding_proj(h)")
    for name in part.get("order") or ORDER:
        lines += _step(str(name), part, source)
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
    options.append(width)
    if positions.get("offset", 0):
        options.append(f"offset={value_text(positions['offset'])}")
    known = () if is_learned else ("layout", "reaches_base", "base")
    given_names = [name for name in known if given(positions.get(name))]
    options += [f"{name}={value_text(positions[name])}" for name in given_names]
    return f"{kind}({', '.join(options)})"


def _step(name: str, part: Json, source: Source) -> list[str]:
    if name == "multiplier" and given(part.get("multiplier")) and part["multiplier"] != 1.0:
        number = model_value(part["multiplier"])
        if part.get("multiplier_rounded"):
            source.use("torch")
            # Some models round the factor to the dtype of the states first, which changes its value
            # in bf16.
            number = f"torch.tensor({number}, dtype=h.dtype)"
        return [f"h = h * {number}"]
    if name == "token_types" and has(part.get("token_types")):
        # Callers give no types, and then every token has the first one.
        return ["h = h + self.type_embeddings.weight[0]"]
    if name == "norm" and has(part.get("norm")):
        return ["h = self.embedding_norm(h)"]
    if name == "positions" and embeds_positions(part):
        kind = part["positions"].get("kind", "learned")
        arguments = {"learned": "packing", "beside_padding": "tokens, packing"}
        found = f"self.pos_embeddings({arguments.get(kind, 'packing, h.dtype')})"
        if guard_of(part["positions"]) == ALWAYS:
            return [f"h = h + {found}"]
        return ["if self.pos_embeddings is not None:", f"    h = h + {found}"]
    return []
