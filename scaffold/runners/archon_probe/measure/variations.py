"""Variations of a config: one option flipped at a time, as far as transformers accepts it."""

from __future__ import annotations

import copy
import inspect
import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from transformers import PretrainedConfig, configuration_utils

from archon_probe.measure import tiny
from archon_probe.measure.random_weights import build_model
from archon_probe.measure.reads import Reads, reading, stated_default
from archon_probe.measure.tasks import call, is_encoder

LONGEST = 40  # more tokens than any window, chunk or trained length of a tiny config

# No training forward reads these: they concern caches, generation, dropout, initialisation, losses
# that the caller computes, other heads, and the tokens that end a sequence.
UNREAD = (
    r"use_cache|output_.*|initializer.*|init_(std|device)|embedding_initializer.*|.*dropout.*"
    r"|.*(pdrop|layerdrop).*|summary_.*|classifier.*|.*(aux|z|moe)_loss.*|pretraining_tp"
    r"|(bos|eos|sep|cls|eod|decoder_start|image|boi|eoi)_token_(id|index)|problem_type|is_decoder"
    r"|chunk_size_feed_forward|num_labels|vocabulary_map|pooling|model_type|transformers_version"
)
HEADS = r"classifier_(?!dropout).*|summary_(?!.*dropout).*|pooling"
"""Of those, what encoders read that score sequences."""
ACTIVATIONS = ("gelu", "relu", "silu", "gelu_pytorch_tanh")
GUARDS = 1e-5  # smaller floats only keep a divisor from zero
OF_LAYERS = r"intermediate_size|.*norm_eps(ilon)?"
LAYER_TYPES = ("full_attention", "sliding_attention", "chunked_attention")
FEED_FORWARD_TYPES = ("dense", "sparse")
# transformers before 5.4 has no such list.
KNOWN_TYPES = getattr(configuration_utils, "ALLOWED_LAYER_TYPES", LAYER_TYPES)

# Other values of numbers, by canonical name; the first pattern that matches gives them.
NUMBERS: tuple[tuple[str, tuple[Any, ...]], ...] = (
    (r"num_key_value_heads|num_kv_heads|kv_n_heads", (1, 4)),
    (r"num_attention_heads|num_heads|n_heads?", (2, 8)),
    (r"num_hidden_layers|num_layers|n_layers?", (3,)),
    (r"hidden_size|d_model|n_embd", (48,)),
    (r"word_embed_proj_dim", (48,)),
    (r"(input_)?embedding_size", (40, tiny.HIDDEN)),
    (r"vocab_size", (88,)),
    (r"head_dim", (8, 24)),
    (r"qk_rope_head_dim", (4,)),
    (r"qk_nope_head_dim", (16,)),
    (r"v_head_dim", (12,)),
    (r"(q|kv)_lora_rank", (16,)),
    # As many as a grouped product can read at once.
    (r".*latent_size", (16,)),
    (r"rotary_dim", (4, 16)),
    (r".*(intermediate|ffn|inner|mlp).*(size|dim)?|dff|n_inner", (56,)),
    (r"(num|n|moe_num)_((local|routed)_)?experts", (4,)),
    (r"num_experts_per_tok|moe_top_?k|moe_k|top_k", (1, 2)),
    (r".*shared_experts", (1, 2, 0)),
    (r"n_group", (1, 2)),
    (r"topk_group", (1, 2)),
    (tiny.POSITIONS, (48,)),
    (tiny.WINDOWS, (7, 1)),
    (tiny.HALVED_WINDOWS, (6,)),
    (r"original_max_position_embeddings", (16,)),
)


LEFT_OUT = "<left out>"
"""A field that no class declares, where a config has it: its other value is not to be there."""


@dataclass(frozen=True)
class Variation:
    """One flip of a config.

    Attributes:
        name: What was flipped, such as "hidden_act=gelu"; unique in one list.
        field: The config's field; a dotted path into a nested config; two joined by " + ".
        value: What it was set to.
        config: The whole flipped config.
        parts: Classes of modules that its model has of its own, where it was built.
    """

    name: str
    field: str
    value: Any
    config: PretrainedConfig
    parts: frozenset[type] = frozenset()


@dataclass(frozen=True)
class Varied:
    """The variations of a config, and what has none.

    Attributes:
        variations: Different configs in a fixed order.
        undeclared: Fields and keys of mappings that the model asks for and the config lacks, to the
            place that asks.
        unvaried: Fields that stay as they are, to the reason.
    """

    variations: list[Variation]
    undeclared: dict[str, str]
    unvaried: dict[str, str]


def variations(config: PretrainedConfig) -> list[Variation]:
    """Return one variation for each flip of a field, then a few of two fields; see ``vary``."""
    return vary(config).variations


def vary(config: PretrainedConfig) -> Varied:
    """Flip each field of a config, each that its model asks for and it lacks, then a few pairs.

    Only what transformers builds and runs is a variation of a tiny config.
    """
    trial = _Trial(config)
    flips = list(_flips(config))
    singles = trial.made((f,) for f in flips)
    # What is read only under another option is known now.
    undeclared = trial.undeclared()
    added = [(f, v) for f in undeclared for v in _undeclared_values(config, f, trial.reads)]
    # Of these one layer may have another value than the others have.
    of_layers = (v for v in singles if re.fullmatch(OF_LAYERS, v.field))
    added += [("per_layer_config", {1: {v.field: v.value}}) for v in of_layers]
    singles = [v for v in singles + trial.made((f,) for f in added) if not trial.is_idle(v)]
    # A mix of layers may be refused alone and run beside a window that is switched on.
    mixes = [flip for flip in flips if flip[0] == "layer_types"][-1:]
    pairs = [*_odd_heads(config), *_pairs([*((v.field, v.value) for v in singles), *mixes])]
    pairs += [*_with_scaling(config, added), *_rope_keys(config, trial.reads)]
    # No window at all beside layers of one kind, as those that need one do not run then.
    none = [(f, v) for f, v in flips if v is None and tiny.matches(tiny.WINDOWS, config, f)]
    kinds = [(f, v) for f, v in flips if f == "layer_types" and v and len(set(v)) == 1]
    pairs += [*itertools.product(none, kinds), *_in_new_parts(trial.parts, singles)]
    every = singles + trial.made(pairs)
    every += trial.bounded(flips, every)
    return Varied(every, undeclared, trial.unvaried([*flips, *added], every))


def base_values(config: PretrainedConfig) -> dict[str, Any]:
    """Return few constructor arguments that make this config; what the class derives is left out.

    A window that another option turns off is there, so that turning it on gives a small one.
    """
    values = tiny.explicit_values(config)
    for name in list(values):
        fewer = {k: v for k, v in values.items() if k != name}
        values = fewer if _makes_same(config, fewer) else values
    for name in tiny.field_names(config):
        default = tiny.class_default(config, name)
        if name in values or not tiny.matches(tiny.WINDOWS, config, name):
            continue
        trial = values | {name: 4 + default % 2} if isinstance(default, int) else values
        values = trial if _makes_same(config, trial) else values
    return values


def why_not_run(config: PretrainedConfig, reads: Reads, parts: set[type]) -> str | None:
    """Return what keeps transformers from computing finite logits with a config, or None.

    A model with matrices that have no numbers does not count: nobody trains or saves one.

    Args:
        reads: Gets what the model asks of the config.
        parts: Gets the classes of modules that the model has of its own.
    """
    try:
        with torch.no_grad(), reading(config, reads) as watched:
            model = build_model(watched).eval()
            kinds = {type(module) for module in model.modules()}
            parts |= {kind for kind in kinds if kind.__module__ == type(model).__module__}
            if not all(parameter.numel() for parameter in model.parameters()):
                return "a matrix without numbers"
            tokens = torch.arange(LONGEST)[None] % config.vocab_size
            logits = call(model, tokens).logits
        return None if bool(logits.isfinite().all()) else "logits that are not finite"
    except Exception as error:
        # Whatever its own code raises means that this option cannot be chosen.
        return error_text(error)


def error_text(error: Exception) -> str:
    """Return the kind and the words of an error on one short line."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]


class _Trial:
    """Tries flips of a config, and keeps what was asked of it and why flips were none.

    Attributes:
        reads: What the models that ran asked of their configs.
        parts: Classes of modules that the config's own model has.
    """

    def __init__(self, config: PretrainedConfig) -> None:
        self.config = config
        self.values = base_values(config)
        # A config class may undo a flip, or derive another one's values.
        self.seen = {_key(config)}
        self.reads = Reads()
        self.parts: set[type] = set()
        self.reasons: dict[str, str] = {}
        why_not_run(config, self.reads, self.parts)

    def made(self, flips: Iterable[tuple[tuple[str, Any], ...]]) -> list[Variation]:
        """Return those flips that make a new config, each of one field or several."""
        return [found for flip in flips if (found := self._make(flip)) is not None]

    def _make(self, flip: tuple[tuple[str, Any], ...]) -> Variation | None:
        changed = self.values
        for field, value in flip:
            changed = _with(self.config, changed, field, value)
        changed = tiny.fit_rotary_factors(self.config, changed)
        fields = " + ".join(field for field, _ in flip)
        try:
            made = type(self.config)(**_copied(changed))
        except Exception as error:
            # A config class refuses combinations with errors of many kinds.
            self.reasons[fields] = f"its class refuses other values: {error_text(error)}"
            return None
        if _key(made) in self.seen:
            self.reasons.setdefault(fields, "its class derives it from other fields")
            return None
        self.seen.add(_key(made))
        parts: set[type] = set()
        if (why := why_not_run(made, self.reads, parts)) is not None:
            self.reasons[fields] = f"transformers does not run with other values: {why}"
            return None
        name = " + ".join(
            f"{field}={_short(tiny.read_field(self.config, field), v)}" for field, v in flip
        )
        value = flip[0][1] if len(flip) == 1 else [v for _, v in flip]
        return Variation(name, fields, value, made, frozenset(parts))

    def bounded(self, flips: list[tuple[str, Any]], made: list[Variation]) -> list[Variation]:
        """Return counts that none of ``made`` has, each beside the first one that lets it be.

        Groups that are open, for one, are at most as many as there are groups.
        """
        varied = {field for variation in made for field in variation.field.split(" + ")}
        counts = {f: v for f, v in reversed(flips) if type(v) is int and "." not in f}
        found: list[Variation] = []
        alone = (counts.keys() & self.reads.names) - varied
        for field, value in [flip for flip in flips if flip[0] in alone]:
            pairs = (((other, v), (field, value)) for other, v in counts.items() if other != field)
            if (first := next(filter(None, map(self._make, pairs)), None)) is not None:
                found.append(first)
        return found

    def is_idle(self, variation: Variation) -> bool:
        """Return whether a variation changes one undeclared field alone, which nothing reads.

        Checkpoints carry fields of other programs, and each costs a measurement and a proof.
        """
        name = variation.field
        if name in self.reads.names or name not in tiny.undeclared_fields(self.config):
            return False
        return _key(variation.config, without=name) == _key(self.config, without=name)

    def undeclared(self) -> dict[str, str]:
        """Return what models asked for and the config lacks, to the place that asks."""
        declared = {*tiny.declared_fields(type(self.config)), *vars(self.config)}
        found = {n: str(place) for n, place in self.reads.lacking.items() if n not in declared}
        # Attributes of the class, and properties, are there without being declared.
        found |= dict.fromkeys(
            (n for n in sorted(self.reads.found) if "." not in n and n not in declared),
            "the class of the configuration",
        )
        for field, keys in sorted(self.reads.lacking_keys.items()):
            found |= {f"{field}.{key}": f"the mapping {field}" for key in sorted(map(str, keys))}
        return {n: place for n, place in found.items() if not re.fullmatch(UNREAD, n)}

    def unvaried(self, flips: list[tuple[str, Any]], made: list[Variation]) -> dict[str, str]:
        """Return the fields that no variation flips, to the reason."""
        varied = {field for variation in made for field in variation.field.split(" + ")}
        tried = {field for field, _ in flips}
        idle = tiny.undeclared_fields(self.config)
        found: dict[str, str] = {}
        for name in dict.fromkeys([*tiny.field_names(self.config), *tried]):
            if name in varied or isinstance(getattr(self.config, name, None), PretrainedConfig):
                continue
            is_tried = name in tried and name not in idle
            if name not in self.reads.names and not is_tried:
                found[name] = "never read while the model is built and run"
            elif re.fullmatch(tiny.DROPOUTS, name):
                found[name] = "dropout, which is off when a policy is trained"
            elif _is_unread(self.config, name):
                found[name] = "read, and it changes caches, initialisation or losses"
            else:
                found[name] = self.reasons.get(name, "no other value is known for its type")
        return found


def _short(old: Any, value: Any) -> str:
    """Return what is different in a new value, in few words."""
    if isinstance(value, dict) and isinstance(old, dict):
        changed = {k: v for k, v in value.items() if k not in old or not tiny.same(v, old[k])}
        dropped = [f"no {k}" for k in old if k not in value]
        parts = [f"{k} {_short(old.get(k), v)}" for k, v in changed.items()]
        nested = {text.partition(" ")[2] for text in parts if isinstance(old, dict)}
        all_same = len(parts) == len(old) > 1 and len(nested) == 1
        return next(iter(nested)) if all_same else " ".join(parts + dropped)
    if isinstance(value, list):
        return "[" + ",".join(str(v).removesuffix("_attention") for v in value) + "]"
    return str(value)


def _with(
    config: PretrainedConfig, values: dict[str, Any], field: str, value: Any
) -> dict[str, Any]:
    outer, _, inner = field.partition(".")
    if not inner and value is LEFT_OUT:
        return {k: v for k, v in values.items() if k != field}
    if not inner:
        return values | {field: value}
    part = values.get(outer, getattr(config, outer))
    if not isinstance(part, dict):
        part = {f: getattr(part, f) for f in tiny.field_names(part)}
    return values | {outer: {**part, inner: value}}


def _makes_same(config: PretrainedConfig, values: dict[str, Any]) -> bool:
    """Return whether constructor arguments make a config again."""
    try:
        return _key(type(config)(**_copied(values))) == _key(config)
    except Exception:
        # A config class refuses combinations with errors of many kinds.
        return False


def _copied(value: Any) -> Any:
    """Copy dicts, lists and nested configs, which config classes change in place."""
    if isinstance(value, PretrainedConfig):
        return copy.deepcopy(value)
    if isinstance(value, dict):
        return {k: _copied(v) for k, v in value.items()}
    return [_copied(v) for v in value] if isinstance(value, list) else value


def _key(config: PretrainedConfig, without: str = "") -> str:
    """Return what distinguishes a config from others, apart from one field."""
    return str(sorted((k, str(v)) for k, v in config.to_dict().items() if k != without))


def _flips(config: PretrainedConfig, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (field, other value) for every field that a forward may read."""
    undeclared = tiny.undeclared_fields(config)
    for name in tiny.field_names(config):
        value = getattr(config, name, None)
        if _is_unread(config, name):
            continue
        if name in undeclared and not prefix:
            yield name, LEFT_OUT
        if isinstance(value, PretrainedConfig):
            yield from _flips(value, f"{name}.")
            continue
        for other in _others(config, name, value):
            if not tiny.same(other, value):
                yield prefix + name, other


def _is_unread(config: PretrainedConfig, name: str) -> bool:
    """Return whether no forward in training reads a field, whatever the model."""
    is_of_head = is_encoder(config) and re.fullmatch(HEADS, name)
    return not is_of_head and re.fullmatch(UNREAD, name) is not None


def _others(config: PretrainedConfig, name: str, value: Any) -> list[Any]:
    """Return other values of a field: by its value, else by what its annotation allows."""
    allowed = tiny.allowed_types(config, name)
    if name == "rope_parameters":
        return list(_ropes(config, value)) if isinstance(value, dict) else []
    if name == "pad_token_id":
        others = [(value + 4) % config.vocab_size] if value is not None else [5]
        return [*others, None] if value is None or is_encoder(config) else [None]
    options = _strings(config, name)
    none = [None] if type(None) in allowed and value is not None else []
    if isinstance(value, bool):
        return [not value, *options]
    if isinstance(value, str):
        return [*options, *none]
    if isinstance(value, dict):
        return _mappings(config, value)
    if isinstance(value, list):
        return _lists(config, name, value)
    if value is None:
        return [*options, *_absent(config, name, allowed)]
    if isinstance(value, int | float):
        return [*_numbers(config, name, value), *none, *options]
    return []


def _mappings(config: PretrainedConfig, value: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a mapping with another activation, and with one of its numbers or switches flipped."""
    made = [{**value, "name": act} for act in ACTIVATIONS[:2]] if "name" in value else []
    for key, inner in value.items():
        if isinstance(inner, bool | int | float) and not re.fullmatch(UNREAD, key):
            other = not inner if isinstance(inner, bool) else _numbers(config, key, inner)[0]
            made.append({**value, key: other})
    return made


def _numbers(config: PretrainedConfig, name: str, value: float) -> list[Any]:
    is_guard = isinstance(value, float) and 0 < value < GUARDS
    if re.search(r"eps(ilon)?$", name) or is_guard:
        return [max(10 * value, 1e-3)]
    if isinstance(value, int) and (values := tiny.entry_of(NUMBERS, config, name)):
        return list(values)
    if isinstance(value, float):
        return [round(value * 1.5, 6)] if value else [0.5]
    return [value + 1, max(1, value // 2)]


def _absent(config: PretrainedConfig, name: str, allowed: set[Any]) -> list[Any]:
    """Return values for a field that is None."""
    if re.search(r"cap", name):
        return [2.0]
    if int in allowed and (values := tiny.entry_of(NUMBERS, config, name)):
        return list(values[:1])
    made: list[Any] = [True] if bool in allowed else []
    is_guard = re.search(r"eps(ilon)?$", name)
    made += [1e-3 if is_guard else 0.7] if float in allowed else []
    made += [2] if int in allowed and float not in allowed else []
    count = getattr(config, tiny.layer_count_field(config), 0) if list in allowed else 0
    if count and "layer_types" in name and "mtp" not in name:
        made.append([LAYER_TYPES[1 - n % 2] for n in range(count)])
    return made


def _strings(config: PretrainedConfig, name: str) -> list[str]:
    """Return other strings: activations, or literals that the sources compare a field with."""
    value = getattr(config, name, None)
    if re.search(r"act|afn", name) and isinstance(value, str):
        return [a for a in ACTIVATIONS if a != value]
    if name in ("layer_types", "mlp_layer_types", "attn_impl"):
        return []
    if str not in tiny.allowed_types(config, name) | {type(value)}:
        return []
    text = tiny.modeling_source(config) + tiny.config_source(config)
    compared = re.findall(rf"\b{name}\b\s*(?:==|!=|(?:not\s+)?in)\s*([^\n:]+)", text)
    documented = re.findall(rf"(?ms)^\s*{name} \(.*?(?=^\s*\w+ \(|\Z)", tiny.config_source(config))
    note = tiny.literals(config, name)
    found = [s for part in compared + documented[:1] for s in re.findall(r"\"([\w-]+)\"", part)]
    return list(dict.fromkeys(s for s in [*note, *found] if s != value))


def _lists(config: PretrainedConfig, name: str, value: list[Any]) -> list[list[Any]]:
    """Return other lists: other layers chosen, or other values per layer."""
    count = getattr(config, tiny.layer_count_field(config), 0)
    if tiny.is_counted_pattern(value):
        kinds = value[0][0]
        return [[[list(reversed(kinds)), value[0][1]]], [[[kinds[0]] * len(kinds), value[0][1]]]]
    if len(value) != count and value and tiny.holds_floats(config, name):
        return [[round(float(v) * (1.5 + 0.25 * n), 6) for n, v in enumerate(value)]]
    if len(value) != count and all(isinstance(v, int) for v in value):
        return [[], [1], [0, 2]]
    if not value or any(isinstance(v, list | dict) for v in value):
        return []
    if isinstance(value[0], str):
        return _kind_lists(config, value)
    if value == list(range(count)):
        return [[1, 3], [0]]
    if set(value) <= {0, 1}:
        return [[1] * count, [0] * count, [n % 2 for n in range(count)]]
    return [[v * (2 if n % 2 else 1) for n, v in enumerate(value)]]


def _kind_lists(config: PretrainedConfig, value: list[str]) -> list[list[str]]:
    """Return lists of one kind only and of each kind with each other, in turn."""
    known = FEED_FORWARD_TYPES
    if not set(value) & set(known):
        known = [k for k in dict.fromkeys((*LAYER_TYPES, *KNOWN_TYPES)) if k not in known]
    text = tiny.modeling_source(config) + tiny.config_source(config)
    kinds = [k for k in dict.fromkeys([*known, *value]) if k in value or f'"{k}"' in text]
    pure = [[k] * len(value) for k in kinds]
    mixed = [
        [pair[n % 2] for n in range(len(value))] for pair in itertools.permutations(kinds[:2], 2)
    ]
    return pure + mixed


def _ropes(config: PretrainedConfig, rope: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield other rope parameters: every kind of scaling, other bases, other rotated shares."""
    nested = [k for k, v in rope.items() if isinstance(v, dict)]
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    flat = rope[nested[0]] if nested else rope
    size = int(head * flat.get("partial_rotary_factor", 1.0))
    for change in _rope_changes(size):
        if not nested:
            yield _changed_rope(rope, change)
            continue
        yield {k: _changed_rope(v, change) if k in nested else v for k, v in rope.items()}
        if change.get("rope_type") == "linear" or "rope_theta" in change:
            for only in nested if len(nested) > 1 else ():
                yield {k: _changed_rope(v, change) if k == only else v for k, v in rope.items()}
    for only in nested if len(nested) > 1 else ():
        yield {k: None if k == only else v for k, v in rope.items()}


def _changed_rope(rope: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    kept = {"rope_theta", "partial_rotary_factor", "rope_type", "mrope_section"}
    # Parameters of one kind of scaling mean nothing to another.
    own = {k: v for k, v in rope.items() if k in kept} if "rope_type" in change else rope
    return {**own, **{k: v(rope) if callable(v) else v for k, v in change.items()}}


def _rope_changes(size: int) -> Iterator[dict[str, Any]]:
    original = {"original_max_position_embeddings": 16}
    short = [1.0 + 0.1 * n for n in range(size // 2)]
    long = [1.0 + 0.9 * n for n in range(size // 2)]
    yield {"rope_theta": lambda rope: 0.3 * rope.get("rope_theta", 1e4)}
    yield {"rope_type": "default"}
    yield {"rope_type": "linear", "factor": 4.0}
    yield {"rope_type": "dynamic", "factor": 4.0}
    yield {"rope_type": "yarn", "factor": 4.0, **original}
    mscales = {"mscale": 0.8, "mscale_all_dim": 0.5, "beta_fast": 8.0, "beta_slow": 0.5}
    yield {"rope_type": "yarn", "factor": 4.0, **original, **mscales}
    yield {"rope_type": "yarn", "factor": 4.0, **original, "attention_factor": 1.3}
    yield {"rope_type": "yarn", "factor": 4.0, **original, "truncate": False}
    factors = {"short_factor": short, "long_factor": long}
    yield {"rope_type": "longrope", "factor": 4.0, **original, **factors}
    bands = {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
    yield {
        "rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 32, **bands
    }  # fmt: skip
    yield {"partial_rotary_factor": 0.5}
    yield {"partial_rotary_factor": 0.25}
    # Some classes rotate a share under a scaling only.
    yield {"rope_type": "linear", "factor": 4.0, "partial_rotary_factor": 0.5}
    yield {"rope_type": "yarn", "factor": 4.0, **original, "partial_rotary_factor": 0.5}
    yield {"rope_type": "proportional", "partial_rotary_factor": 0.5}


def _rope_keys(config: PretrainedConfig, reads: Reads) -> Iterator[tuple[tuple[str, Any], ...]]:
    """Yield other values of keys of rotations that only this model asks for.

    Which kind of scaling a key belongs to is not known, so one that is left out is tried with each.
    """
    rope = getattr(config, "rope_parameters", None)
    if not isinstance(rope, dict) or any(isinstance(v, dict) for v in rope.values()):
        return
    changes = list(_rope_changes(2))
    usual = {"type", "rope_type", *(key for change in changes for key in change)}
    asked = {*reads.keys.get("rope_parameters", ()), *reads.lacking_keys.get("rope_parameters", ())}
    ropes = [r for r in _ropes(config, rope) if "rope_type" in r]
    kinds = {r["rope_type"]: r for r in reversed(ropes)}  # the first of each kind
    for key in sorted(asked - usual):
        field, value = f"rope_parameters.{key}", rope.get(key)
        if isinstance(value, int | float) and not isinstance(value, bool):
            yield ((field, 0.7 * value),)
        for kind in kinds.values() if value is None else ():
            yield ("rope_parameters", kind), (field, 1.7)


def _undeclared_values(config: PretrainedConfig, name: str, reads: Reads) -> list[Any]:
    """Return values for a field that no class declares, by its name or by what replaces it."""
    outer, _, key = name.rpartition(".")
    if outer and isinstance(tiny.read_field(config, outer), dict):
        return [] if "rope" in outer else [0.7]  # `_ropes` has those of rotations
    place = reads.lacking.get(name)
    default = None if place is None else stated_default(key, place)
    if default is None:
        default = tiny.read_field(config, name)  # of the class
    if isinstance(default, bool):
        return [not default]
    if isinstance(default, str):
        return [a for a in ACTIVATIONS[:2] if a != default] if "act" in key else []
    if isinstance(default, int | float):
        return _numbers(config, key, default)
    for pattern, values in NUMBERS:
        if re.fullmatch(pattern, key):
            return list(values)
    if "layer_types" in key:
        count = getattr(config, tiny.layer_count_field(config))
        return [[LAYER_TYPES[1 - n % 2] for n in range(count)]]
    if re.search(r"theta|base$", key):
        return [3e3]
    if re.search(r"bias|norm$|^(use|is|has)_|enable", key):
        return [True]
    if re.search(r"factor|scal|multiplier|cap|alpha|eps", key):
        return [0.5]
    return [True, 2, 0.7]


def _with_scaling(
    config: PretrainedConfig, added: list[tuple[str, Any]]
) -> Iterator[tuple[tuple[str, Any], ...]]:
    """Yield undeclared fields of rotations beside a scaling, without which nothing reads them."""
    rope = getattr(config, "rope_parameters", None)
    yarn = next((r for r in _ropes(config, rope) if "yarn" in str(r)), None) if rope else None
    for field, value in added if yarn is not None else ():
        if re.search(r"rope|rotary|original_max|head_dim", field):
            yield ("rope_parameters", yarn), (field, value)


def _in_new_parts(
    known: set[type], singles: list[Variation]
) -> Iterator[tuple[tuple[str, Any], ...]]:
    """Yield flips that show a part the config lacks, each with what the part's own source reads.

    Alone such a part shows every option at its default, which would pass for a constant.
    """
    for shown in singles:
        for part in sorted(shown.parts - known, key=lambda part: part.__name__):
            known.add(part)
            read = set(re.findall(r"config\.(\w+)", inspect.getsource(part)))
            firsts = {v.field: v.value for v in reversed(singles) if v.field in read}
            for field in sorted(firsts.keys() - {shown.field}):
                yield (shown.field, shown.value), (field, firsts[field])


def _odd_heads(config: PretrainedConfig) -> Iterator[tuple[tuple[str, Any], ...]]:
    """Yield six heads, which are no power of two, on a width that they divide."""
    names = tiny.field_names(config)
    wide = next((f for f in names if tiny.matches("hidden_size", config, f)), None)
    heads = next((f for f in names if tiny.matches("num_attention_heads", config, f)), None)
    if wide is not None and heads is not None:
        yield (wide, 48), (heads, 6)


def _pairs(singles: list[tuple[str, Any]]) -> Iterator[tuple[tuple[str, Any], ...]]:
    """Yield pairs of options that meet in one computation."""
    first: dict[str, tuple[str, Any]] = {}
    for field, value in singles:
        for role, pattern in _ROLES:
            if not re.fullmatch(pattern, field):
                continue
            if role == "scaling":  # the one that changes the most: frequencies and the factor
                inner = next((v for v in value.values() if isinstance(v, dict)), value)
                if inner.get("rope_type") != "yarn":
                    continue
            first.setdefault(role, (field, value))
    for left, right in _ROLE_PAIRS:
        if left in first and right in first and first[left][0] != first[right][0]:
            yield first[left], first[right]


_ROLES = (
    ("scaling", r"rope_parameters"),
    ("window", r"sliding_window|use_sliding_window|layer_types|no_rope_layers"),
    ("switch", r"use_sliding_window|sliding_window"),
    # Beside kinds that the default does not have, a window it leaves out is read.
    ("width", tiny.WINDOWS),
    ("mix", r"layer_types"),
    ("tie", r"tie_word_embeddings"),
    ("bias", r".*bias.*"),
    ("heads", r"num_key_value_heads|num_kv_heads|(.*\.)?kv_n_heads|multi_query"),
    ("size", r"head_dim"),
    ("top", r"norm_topk_prob|num_experts_per_tok|.*top_?k"),
    ("scale", r".*(scal|multiplier).*"),
    ("norm", r".*(qk|q_k).*norm.*|.*norm_before"),
    ("parallel", r".*parallel.*|new_decoder_architecture"),
)
_ROLE_PAIRS = (
    ("scaling", "window"),
    ("switch", "mix"),
    ("width", "mix"),
    ("tie", "scale"),
    ("tie", "bias"),
    ("heads", "size"),
    ("heads", "norm"),
    ("top", "scale"),
    ("parallel", "heads"),
)
