"""``model/args.py``: the dataclass of a model's arguments, and what it refuses."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import cast

from scaffold.archon.codegen.docs import STANDARD, field_docs
from scaffold.archon.codegen.layout import WIDTH
from scaffold.archon.codegen.modules import mixer_fields
from scaffold.archon.codegen.moe import moe_fields, outer_args
from scaffold.archon.codegen.names import ModelNames
from scaffold.archon.codegen.source import INDENT, Source, class_text, function_text
from scaffold.archon.codegen.values import Json, default_text, spelled
from scaffold.templating.render import python_literal

# Another field in the expression of one: `{n_heads}`.
_LOCAL = re.compile(r"\{(\w+)\}")
_MESSAGE_WIDTH = 85
"""Longest piece of a message, which is inside two levels of brackets."""

_REFUSE = "_refuse_what_is_missing"
# "args" would name every field, the others describe or check the config.
_NO_USES = ("args", "evidence", "refusals", "unknown", "source", "tiny", "ropes")
"""Parts of a design in which the name of an argument does not mean that the model reads it."""

_HOMES = {"RopeArgs": "layers.rope", "MoEArgs": "moe"}
"""Types of the shared package that a field may have, and the module that each comes from."""


def args_file(design: Json, names: ModelNames) -> str:
    """Return ``model/args.py``."""
    source = Source(f"Arguments of {names.prefix}.", names)
    source.use("dataclasses", "dataclass")
    source.use("typing", "Any")
    source.share("base", "BaseModelArgs")
    fields = all_fields(design)
    parts = [
        _fields_text(design, fields, source),
        _from_hf(design, fields, source),
    ]
    doc = f"What {names.prefix} is built from, in the words of its configuration."
    source.add(class_text(names.args, "BaseModelArgs", doc, parts, "@dataclass"))
    if design.get("refusals"):
        source.use(names.errors, "ConfigError")
        source.add(_refusals_text(design["refusals"], str(design["model_type"]), names))
    return source.text()


def all_fields(design: Json) -> list[Json]:
    """Return the fields that are read from the config: the design's, the ropes', the experts'."""
    fields: list[Json] = [*outer_args(design), *_rope_fields(design), *moe_fields(design)]
    fields += mixer_fields(design)
    ropes = cast("Mapping[str, Json]", design.get("ropes") or {})
    pairings = [rope.get("pairing") for rope in ropes.values()]
    uses = {key: part for key, part in design.items() if key not in _NO_USES}
    text = json.dumps([uses, pairings])
    made = {"moe_args", "mixer_config", *ropes}
    for field in list(fields):
        name = str(field["name"])
        if name in STANDARD or name in made or re.search(rf"\b{name}\b", text):
            continue
        # What serves only to compute another field is in that field's expression.
        found = spelled(str(field["expr"]))
        kept = [each for each in fields if each["name"] != name]
        fields = [{**each, "expr": _with(str(each["expr"]), name, found)} for each in kept]
    return fields


def _with(text: str, name: str, found: str) -> str:
    """Return an expression in which another replaces a name in braces."""
    # As a whole argument of a call it needs no brackets of its own, elsewhere it may.
    text = re.sub(rf"([=(]|, )\{{{name}\}}(?=[,)])", lambda match: match[1] + found, text)
    whole = found if re.fullmatch(r"[\w.]+", found) else f"({found})"
    return text.replace(f"{{{name}}}", whole)


def _rope_fields(design: Json) -> list[Json]:
    found: list[Json] = []
    sizes = (each.get("default") for each in design["args"] if each["name"] == "head_dim")
    usual = f"RopeArgs(dim={next(sizes, None) or 64})"
    for key, rope in cast("Mapping[str, Json]", design.get("ropes") or {}).items():
        of = f" of layers of type {rope['layer_type']}" if rope.get("layer_type") else ""
        doc = f"Configuration parameters for the RoPE embeddings{of}."
        default = {"expr": rope.get("default") or usual}
        row = {"name": key, "type": "RopeArgs", "default": default, "expr": rope["expr"]}
        found.append({**row, "doc": doc})
    return found


def _fields_text(design: Json, fields: Sequence[Json], source: Source) -> str:
    rows: list[str] = []
    docs = field_docs(design)
    for each in fields:
        name = str(each["name"])
        doc = STANDARD.get(name) or docs.get(name) or each.get("doc")
        text = str(doc or "")
        text = text.replace("decoder", "encoder") if design.get("encoder") else text
        line = _field_text(each, source)
        one = f"{line}  # {text}" if text else line
        # A comment that is too long for the line goes above it.
        rows += [one] if len(INDENT) + len(one) <= WIDTH else [f"# {text}", line]
    # Fields that no configuration gives: the trainer chooses them.
    is_critic, scores = "False  # Whether `score` replaces `output`.", "a critic gives each token"
    if design.get("encoder"):
        is_critic, scores = "True  # Always: an encoder has no logits.", "a sequence gets"
    rows += [
        f"is_critic: bool = {is_critic}",
        f"num_labels: int = 1  # Number of scores that {scores}.",
    ]
    return "\n".join(rows)


def _field_text(field: Json, source: Source) -> str:
    kind, default = str(field["type"]), field.get("default")
    for word in re.findall(r"\w+", kind):
        if word in _HOMES:
            source.share(_HOMES[word], word)
    made = default_text(field)
    if isinstance(default, Mapping):
        # A dataclass refuses a mutable default.
        source.use("dataclasses", "field")
        made = f"field(default_factory=lambda: {made})"
    return f"{field['name']}: {kind} = {made}"


def _from_hf(design: Json, fields: Sequence[Json], source: Source) -> str:
    # The trainer hands over the whole configuration of a model with several senses.
    body = ["hf_config = hf_config.get_text_config()"] if design.get("composite") else []
    is_encoder = bool(design.get("encoder"))
    required = "encoder(hf_config, is_critic)" if is_encoder else "decoder(hf_config)"
    body.append(f"cls.require_{required}")
    body += [f"{_REFUSE}(hf_config)"] if design.get("refusals") else []
    expressions = {str(field["name"]): _by_kind(spelled(str(field["expr"]))) for field in fields}
    shared = _locals(expressions)
    body += [f"{name} = {_resolved(expressions[name])}" for name in shared]
    if any(re.search(r"\bmath\.", text) for text in expressions.values()):
        source.use("math")
    rows = [
        f'    "{name}": {name if name in shared else _resolved(text)},'
        for name, text in expressions.items()
    ]
    body += ["values: dict[str, Any] = {", *rows, "}"]
    # The caller's own keywords win over what the configuration has.
    body.append("return cls.from_values(values, is_critic, **kwargs)")
    signature = (
        "def from_hf_config(cls, hf_config: Any, is_critic: bool = False, **kwargs: Any)"
        f" -> {source.names.args}"
    )
    return "@classmethod\n" + function_text(signature, body)


def _locals(expressions: Mapping[str, str]) -> list[str]:
    """Return the fields that other fields are computed from, in the order of the fields."""
    used: set[str] = set()
    for name, text in expressions.items():
        used.update(found for found in _LOCAL.findall(text) if found in expressions)
        # Expressions over layers write the name without braces.
        if name != "n_layers" and re.search(r"\bn_layers\b", text):
            used.add("n_layers")
    return [name for name in expressions if name in used]


def _by_kind(text: str) -> str:
    """Return an expression that counts layers only to read one list as one over that list."""
    # `tuple(hf_config.types[i] == "x" for i in range(n_layers))` becomes `tuple(kind == "x" for
    # kind in hf_config.types)`.
    found = re.fullmatch(r"tuple\((.*) for i in range\(n_layers\)\)", text)
    lists = set(re.findall(r"hf_config\.(\w+)\[i\]", found[1])) if found else set[str]()
    if not found or len(lists) != 1:
        return text
    of = f"hf_config.{lists.pop()}"
    inner = found[1].replace(f"{of}[i]", "kind")
    if re.search(r"\bi\b", inner):
        return text
    return f"tuple({of})" if inner == "kind" else f"tuple({inner} for kind in {of})"


def _resolved(text: str) -> str:
    return _LOCAL.sub(r"\1", text)


def _refusals_text(refusals: Sequence[Json], model_type: str, names: ModelNames) -> str:
    body: list[str] = []
    if any(re.search(r"\bn_layers\b", str(each["condition"])) for each in refusals):
        body.append("n_layers = hf_config.num_hidden_layers")
    for each in refusals:
        pieces = _message_pieces(f"{model_type}: {each['message']}")
        one = f"    raise ConfigError({''.join(pieces)})"
        body.append(f"if {spelled(str(each['condition']))}:")
        if len(pieces) == 1 and len(INDENT) + len(one) <= WIDTH:
            body.append(one)
        else:
            body += ["    raise ConfigError(", *(f"        {piece}" for piece in pieces), "    )"]
    doc = (
        f"Refuses a config that asks for what {names.prefix} does not implement here.\n\n"
        "Raises:\n    ConfigError: The config asks for what the model lacks."
    )
    return function_text(f"def {_REFUSE}(hf_config: Any) -> None", body, doc)


def _message_pieces(text: str) -> list[str]:
    """Return the parts of an f-string, cut between words and not inside of braces."""
    if len(text) <= _MESSAGE_WIDTH:
        return [_f_string(text)]
    # textwrap cuts at spaces; an expression in braces has to stay in one piece.
    held = re.sub(r"\{[^{}]*\}", lambda found: found[0].replace(" ", "\0"), text)
    rows = textwrap.wrap(held, _MESSAGE_WIDTH - 1, break_long_words=False, break_on_hyphens=False)
    rows = [row + " " for row in rows[:-1]] + rows[-1:]
    return [_f_string(row.replace("\0", " ")) for row in rows]


def _f_string(text: str) -> str:
    prefix = "f" if re.search(r"\{[^{}]+\}", text) else ""
    # Up to Python 3.11 an f-string cannot hold its own quotes.
    if '"' in text and prefix and "'" not in re.sub(r"\{[^{}]*\}", "", text):
        text = text.replace('"', "'")
    return prefix + python_literal(text)
