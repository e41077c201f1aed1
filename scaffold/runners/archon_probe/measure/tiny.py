"""Tiny configs of any decoder: every option of the default kept, every size small enough for a CPU.

The rules look at a field's name, annotation and value, never at the family that has it.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
import math
import re
import types
import typing
from collections.abc import Sequence
from typing import Any

from transformers import CONFIG_MAPPING, PretrainedConfig, configuration_utils

# Sizes of tiny models; the proof's longest sequence passes trained lengths of 32 positions.
HIDDEN, HEADS, KV_HEADS, HEAD_DIM, VOCAB = 64, 4, 2, 16, 96
ROPE_POSITIONS, TABLE_POSITIONS, ORIGINAL_POSITIONS = 32, 64, 32
EXPERTS, TOP_K, LAYERS, MOST_LAYERS = 8, 3, 4, 8

# The first pattern that matches the canonical name gives the size. A size is only ever made
# smaller, except for the counts in FILLED. Sizes that could be mixed up differ from each other.
SIZES: tuple[tuple[str, int], ...] = (
    (r"hidden_size|d_model|n_embd|word_embed_proj_dim", HIDDEN),
    (r"(input_)?embedding_size", 48),
    (r"(.*_)?num_attention_heads|num_heads|n_heads?", HEADS),
    (r"(.*_)?vocab_size(_per_.*)?", VOCAB),
    (r"q_lora_rank", 24),
    (r"kv_lora_rank", 20),
    (r"qk_rope_head_dim", 8),
    (r"qk_nope_head_dim", 12),
    (r"v_head_dim", 8),
    (r"rotary_dim", 8),
    (r"query_pre_attn_scalar", 24),
    (r"(moe|expert)_.*(intermediate|hidden)_size", 24),
    (r"shared_.*intermediate_size", 40),
    (r"prefix_.*intermediate_size", 72),
    (r"intermediate_size_mlp", 56),
    (r"hidden_size_per_.*", 8),
    (r"intermediate_size|(ffn|inner|mlp)_(dim|hidden_size)|n_inner|dff|dim_ff", 80),
    (r"(num|n)_experts|(num|n)_(local|routed)_experts|moe_num_experts", EXPERTS),
    (r"num_experts_per_tok|moe_top_?k|moe_k|top_k", TOP_K),
    (r"zero_expert_num", 3),
    # A multiple that sizes are rounded up to would hide what is rounded.
    (r".*multiple_of", 8),
    (r"n_group|num_expert_groups?", 4),
    (r"topk_group|num_limited_groups?", 2),
    (r"floor_scale", 6),
    # Of state spaces and linear attention; a chunk is shorter than the sequences of the proof.
    (r"(mamba|linear)_(n|num)_(value_)?heads", 8),
    (r"linear_num_key_heads", 4),
    (r"(mamba|linear)_(key_|value_)?head_dim", HEAD_DIM),
    (r"mamba_d_ssm", 2 * HIDDEN),
    (r"((mamba|ssm)_)?(d_state|state_size)", 12),
    (r"(mamba_)?chunk_size", 8),
    # Of some layers, beside a field for the others.
    (r"swa_head_dim", HEAD_DIM),
)
# What two processes divide by matrices, so that it is even.
SPLIT = r"(.*_)?num_attention_heads|num_heads|n_heads?|.*intermediate_size|n_inner|dff|dim_ff"
# A key of a mapping inside a config has no default to tell what it is of.
NESTED_SIZES = (*SIZES, (r"head_dim", HEAD_DIM))
WINDOWS = r"sliding_window|window_size|attention_chunk_size"
HALVED_WINDOWS = r"local_attention"
POSITIONS = r"max_position_embeddings|n_positions|max_seq(uence)?_len(gth)?|n_ctx"
LAYER_COUNTS = r"num_hidden_layers|num_layers|n_layers?"
KEY_VALUE_HEADS = r"num_key_value_heads|num_kv_heads|(kv_)?n_(kv_)?heads|kv_n_heads"
FILLED: tuple[tuple[str, int], ...] = (
    (r"(num|n|moe_num)_((local|routed)_)?experts", EXPERTS),
    (r"num_experts_per_tok|moe_top_?k|moe_k|top_k", TOP_K - 1),
)
ABSENT: tuple[tuple[str, int], ...] = ((r"n_shared_experts", 1), (r"head_dim", HEAD_DIM))
# Parts that a default leaves out: without them, what shapes them would pass for a constant.
LEFT_OUT: tuple[tuple[str, int], ...] = ((r"(moe_)?(num|n)_shared_experts", 2),)
DROPOUTS = r".*(dropout|pdrop|drop_rate|layerdrop).*"


def tiny_config(model_type_or_config: str | PretrainedConfig, seed: int = 0) -> PretrainedConfig:
    """Return a tiny config that shows every layer pattern of the default.

    Args:
        model_type_or_config: A model type of transformers, or a config to shrink.
        seed: Shifts the special tokens, so that two tiny configs of one type can differ.

    Returns:
        A new config of the same class; of a composite one, its text part.
    """
    source = model_type_or_config
    if isinstance(source, str):
        source = CONFIG_MAPPING[source]()
    return _shrink(source.get_text_config(decoder=True), seed)


def _shrink(source: PretrainedConfig, seed: int) -> PretrainedConfig:
    sizes = {name: _small_value(source, name) for name in field_names(source)}
    values = {name: size for name, size in sizes.items() if size is not None}
    values |= _head_sizes(source) | _nested(source) | _rope(source)
    values = fit_rotary_factors(source, values) | _special_tokens(source, VOCAB, seed)
    kinds = _layer_kinds(source)
    name = layer_count_field(source)
    # Four layers, or two where the class counts each as two.
    count = getattr(source, name)
    canonical_count = getattr(source, "num_hidden_layers", count)
    fewest = LAYERS if canonical_count == count else max(2, LAYERS * count // canonical_count)
    for layers in range(fewest, MOST_LAYERS + 1):
        numbers = {name: layers} | _layer_numbers(source, layers) | _stated_kinds(source, layers)
        try:
            made = _build(source, values | numbers)
        # A class may derive lists for its usual number of layers alone, and refuse others.
        except Exception:
            continue
        if getattr(made, name) == layers and _layer_kinds(made) >= kinds:
            return made  # the fewest layers that show every kind
    numbers = _chosen_layers(source, LAYERS) | _layer_numbers(source, LAYERS)
    return _build(source, values | {name: LAYERS} | numbers)


def _build(source: PretrainedConfig, values: dict[str, Any]) -> PretrainedConfig:
    """Build a config, keeping what the source sets itself beyond its class's defaults."""
    kept = {k: v for k, v in explicit_values(source).items() if k not in values}
    return type(source)(**kept, **values)


def explicit_values(config: PretrainedConfig) -> dict[str, Any]:
    """Return the fields that differ from a config of the class's defaults.

    What the class derives (lists per layer, a head's size) is the same in both and is left out,
    so that it is derived again from the new sizes.
    """
    plain = type(config)()
    names = [
        f for f in field_names(config) if not same(getattr(config, f), getattr(plain, f, None))
    ]
    return {f: getattr(config, f) for f in names}


def field_names(config: PretrainedConfig) -> list[str]:
    """Return the config's own fields: those that its class, not every config, declares."""
    general = set(declared_fields(PretrainedConfig))
    general -= {"tie_word_embeddings", "chunk_size_feed_forward"}  # some models read these
    declared = [name for name in declared_fields(type(config)) if name not in general]
    extra = [k for k in config.to_dict() if k not in declared and k not in general]
    ignored = {"model_type", "transformers_version", "architectures"}
    return declared + [k for k in extra if k not in ignored and not k.startswith("_")]


def declared_fields(config_class: type) -> dict[str, Any]:
    """Return what a class of configurations declares, to the defaults; None where it has none.

    Classes are dataclasses from transformers 5.4 on; before, their constructors declare.
    """
    if dataclasses.is_dataclass(config_class):
        return {field.name: _default(field) for field in dataclasses.fields(config_class)}
    found: dict[str, Any] = {}
    for owner in reversed(config_class.__mro__):
        if "__init__" in vars(owner) and owner is not object:
            for name, each in list(inspect.signature(owner.__init__).parameters.items())[1:]:
                if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY):
                    found[name] = None if each.default is each.empty else each.default
    return found


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default is not dataclasses.MISSING:
        return field.default
    made = field.default_factory
    return None if made is dataclasses.MISSING else made()


def undeclared_fields(config: PretrainedConfig) -> list[str]:
    """Return the fields that a config has and its class neither declares nor sets."""
    plain = type(config)()
    return [name for name in vars(config) if not name.startswith("_") and not hasattr(plain, name)]


def read_field(config: Any, name: str) -> Any:
    """Return a field of a config, or of one inside it by a dotted name; None without one."""
    for part in name.split("."):
        config = getattr(config, part, None)
    return config


def same(left: Any, right: Any) -> bool:
    """Return whether two config values are equal, also when they are configs."""
    if isinstance(left, PretrainedConfig) and isinstance(right, PretrainedConfig):
        return left.to_dict() == right.to_dict()
    return type(left) is type(right) and left == right


def canonical(config: PretrainedConfig, name: str) -> str:
    """Return the name that transformers' attribute map gives a field, or the field's own."""
    return next((k for k, v in config.attribute_map.items() if v == name), name)


def matches(pattern: str, config: PretrainedConfig, name: str) -> bool:
    """Return whether the pattern matches a field's own name or its canonical one whole."""
    return any(re.fullmatch(pattern, n) for n in {name, canonical(config, name)})


def entry_of(table: Sequence[tuple[str, Any]], config: PretrainedConfig, name: str) -> Any:
    """Return what the first pattern of a table that matches a field gives; None without one."""
    return next((entry for pattern, entry in table if matches(pattern, config, name)), None)


def layer_count_field(config: PretrainedConfig) -> str:
    """Return the field that holds the number of layers, or the property that counts them."""
    found = (f for f in field_names(config) if matches(LAYER_COUNTS, config, f))
    return next(found, "num_hidden_layers")


def class_default(config: PretrainedConfig, name: str) -> Any:
    """Return the default that the class declares; None where it derives the value."""
    return declared_fields(type(config)).get(name)


def _annotation(config: PretrainedConfig, name: str) -> Any:
    for owner in type(config).__mro__:
        note = inspect.get_annotations(owner).get(name)
        if note is not None and not isinstance(note, str):
            return note
    return None


def allowed_types(config: PretrainedConfig, name: str) -> set[Any]:
    """Return the plain types that a field's annotation allows, NoneType among them."""
    return {typing.get_origin(t) or t for t in _alternatives(_annotation(config, name))}


def holds_floats(config: PretrainedConfig, name: str) -> bool:
    """Return whether a field is a list of numbers that need not be whole."""
    notes = [t for t in _alternatives(_annotation(config, name)) if typing.get_origin(t) is list]
    stated = getattr(config, name, None) or []
    return any(float in typing.get_args(t) for t in notes) or (
        all(isinstance(v, int | float) for v in stated) and any(type(v) is float for v in stated)
    )


def literals(config: PretrainedConfig, name: str) -> list[str]:
    """Return the strings that a field's annotation lists."""
    notes = _alternatives(_annotation(config, name))
    found = [typing.get_args(t) for t in notes if typing.get_origin(t) is typing.Literal]
    return [value for values in found for value in values if isinstance(value, str)]


def _alternatives(note: Any) -> tuple[Any, ...]:
    if typing.get_origin(note) in (typing.Union, types.UnionType):
        return typing.get_args(note)
    return () if note is None else (note,)


def _small_value(source: PretrainedConfig, name: str) -> Any:
    default, value = class_default(source, name), getattr(source, name)
    number = isinstance(value, int) and not isinstance(value, bool)
    if matches(DROPOUTS, source, name) and isinstance(value, int | float):
        return type(value)(0)
    for table, counts in (
        (FILLED, value in (None, 1) and default in (None, 1)),
        (LEFT_OUT, number and value == 0),
        (ABSENT, value is None),
    ):
        if counts and (size := entry_of(table, source, name)) is not None:
            return size
    if matches(POSITIONS, source, name) and number:
        # A length that sequences can pass where positions are computed, not looked up.
        rope, key = getattr(source, "rope_parameters", None), "original_max_position_embeddings"
        is_looked_up = not isinstance(rope, dict) or _has_key(rope, key) or hasattr(source, key)
        return TABLE_POSITIONS if is_looked_up else ROPE_POSITIONS
    if matches(HALVED_WINDOWS, source, name) and number:
        return 8 + value % 2
    if matches(WINDOWS, source, name) and (value or default):
        return 4 + (value or default) % 2
    if matches(KEY_VALUE_HEADS, source, name) and not matches("num_attention_heads", source, name):
        if value == 1:
            return 1
        stated = getattr(source, "num_attention_heads", HEADS)
        # As many heads as `SIZES` leaves; a latent gives all of them, others share two keys.
        heads = min(stated - (stated > 1 and stated % 2), HEADS) if type(stated) is int else HEADS
        return heads if hasattr(source, "kv_lora_rank") else min(KV_HEADS, heads)
    if not number:
        return None
    size = entry_of(SIZES, source, name)
    if size is None or default is None:
        return None
    if size < value:
        return size
    return value - 1 if value > 1 and value % 2 and matches(SPLIT, source, name) else None


def _has_key(tree: dict[str, Any], key: str) -> bool:
    return key in tree or any(isinstance(v, dict) and _has_key(v, key) for v in tree.values())


def _head_sizes(source: PretrainedConfig) -> dict[str, Any]:
    """Return a head size other than hidden / heads where the default's differs from it."""
    head, value_head = class_default(source, "head_dim"), getattr(source, "v_head_dim", None)
    if head is None and "head_dim" in undeclared_fields(source):
        return {"head_dim": 24}
    if head is None:
        stated, plain = getattr(source, "head_dim", None), getattr(type(source)(), "head_dim", None)
        is_declared = "head_dim" in declared_fields(type(source))
        if not stated or not is_declared or hasattr(source, "kv_lora_rank"):
            return {}
        if stated * source.num_attention_heads != source.hidden_size:
            return {"head_dim": 24}
        # What equals the derived size is derived again, where the class does so.
        return {"head_dim": HEAD_DIM if plain is None else None}
    if hasattr(source, "kv_lora_rank"):
        return {"head_dim": 8}  # the rotated part of a head
    fractions = _partial_factors(getattr(source, "rope_parameters", None) or {})
    usual = head * source.num_attention_heads == source.hidden_size
    wanted = (HEAD_DIM, 12, 24) if usual else (12, 24, 8, 32)
    # Rotations pair dimensions, so every rotated share of a head is even, and not tiny.
    even = [d for d in wanted if all(int(d * f) % 2 == 0 and int(d * f) >= 4 for f in fractions)]
    size = even[0] if even else HEAD_DIM
    return {"head_dim": size} | ({"v_head_dim": 8} if value_head not in (None, head) else {})


def _partial_factors(rope: dict[str, Any]) -> list[float]:
    own = [rope["partial_rotary_factor"]] if "partial_rotary_factor" in rope else []
    return own + [f for v in rope.values() if isinstance(v, dict) for f in _partial_factors(v)]


def fit_rotary_factors(source: PretrainedConfig, values: dict[str, Any]) -> dict[str, Any]:
    """Return values whose lists of rotary factors have one for each pair that a head rotates.

    Args:
        source: A config.
        values: What fields of it are to be instead; the lists fit the config's own size of a head.
    """
    rope = values.get("rope_parameters", getattr(source, "rope_parameters", None))
    if not isinstance(rope, dict):
        return values
    fitted = _fitted(rope, _rotated_size(source, values) / _rotated_size(source, {}))
    return values if fitted == rope else values | {"rope_parameters": fitted}


def _fitted(rope: dict[str, Any], share: float) -> dict[str, Any]:
    fitted = {k: _fitted(v, share) if isinstance(v, dict) else v for k, v in rope.items()}
    for name, factors in rope.items():
        if isinstance(factors, list) and name.endswith("_factor"):
            count = max(1, round(share * len(factors)))
            fitted[name] = [factors[n * len(factors) // count] for n in range(count)]
    return fitted


def _rotated_size(source: PretrainedConfig, values: dict[str, Any]) -> float:
    """Return the size of what a head rotates; 1 where nothing gives it."""

    def read(name: str) -> Any:
        return values.get(name, getattr(source, name, None))

    heads, width = read("num_attention_heads"), read("hidden_size")
    derived = width // heads if heads and width else 0
    parts = _partial_factors(read("rope_parameters") or {})
    return (read("qk_rope_head_dim") or read("head_dim") or derived or 1) * (parts or [1.0])[0]


def _rope(source: PretrainedConfig) -> dict[str, Any]:
    """Return rope parameters whose trained length the proof's longest sequence passes."""
    made: dict[str, Any] = {}
    if isinstance(class_default(source, "original_max_position_embeddings"), int):
        made["original_max_position_embeddings"] = ORIGINAL_POSITIONS
    rope = getattr(source, "rope_parameters", None)
    if rope == {}:
        kinds = dict.fromkeys(getattr(source, "layer_types", ()))
        made["rope_parameters"] = {k: {"rope_type": "default", "rope_theta": 1e4} for k in kinds}
    if isinstance(rope, dict) and _has_key(rope, "original_max_position_embeddings"):
        made["rope_parameters"] = _shorter(rope)
    return made


def _shorter(rope: dict[str, Any]) -> dict[str, Any]:
    shrunk = {k: _shorter(v) if isinstance(v, dict) else v for k, v in rope.items()}
    lengths = {
        "original_max_position_embeddings": ORIGINAL_POSITIONS,
        "max_position_embeddings": TABLE_POSITIONS,
    }
    shrunk |= {k: v for k, v in lengths.items() if k in shrunk}
    return shrunk


def _nested(source: PretrainedConfig) -> dict[str, Any]:
    """Return the small values of configs inside this one."""
    made: dict[str, Any] = {}
    for name in source.sub_configs:
        inner = getattr(source, name, None)  # a part such as attention's, not a text config
        if isinstance(inner, PretrainedConfig):
            values = {f: _small_value(inner, f) for f in field_names(inner)}
            kept = {f: v for f, v in values.items() if v is not None and f != "hidden_size"}
            kept |= {f: KV_HEADS for f in values if re.fullmatch(r"kv_n_heads|n_kv_heads", f)}
            plain = {f: getattr(inner, f) for f in field_names(inner) if not f.startswith("_")}
            made[name] = {**plain, **_needed(source, name, inner), **kept}
    return made


def _needed(source: PretrainedConfig, name: str, inner: PretrainedConfig) -> dict[str, float]:
    """Return what the model needs of an inner config and its defaults leave out.

    A rope base that the class does not declare, and a clip that is applied without an `if`.
    """
    text, made = modeling_source(source), {}
    if re.search(rf"\b{name}\.rope_theta\b", text) and not hasattr(inner, "rope_theta"):
        made["rope_theta"] = 1e4
    guarded = re.search(r"(?m)^\s*if\b.*\bclip_qkv\b", text)
    if getattr(inner, "clip_qkv", 0) is None and "clip_qkv" in text and not guarded:
        made["clip_qkv"] = 1.0
    return made


def modeling_source(config: PretrainedConfig) -> str:
    """Return the source text of the modeling module beside the config's module."""
    package, _, module = type(config).__module__.rpartition(".")
    return _module_source(f"{package}.{module.replace('configuration_', 'modeling_')}")


@functools.cache  # asked once for every field that is flipped
def _module_source(module: str) -> str:
    return inspect.getsource(importlib.import_module(module))


def config_source(config: PretrainedConfig) -> str:
    """Return the source text of the config's class."""
    return inspect.getsource(type(config))


def _special_tokens(source: PretrainedConfig, vocab: int, seed: int) -> dict[str, Any]:
    """Return token numbers inside the vocabulary, different from one another."""
    made: dict[str, Any] = {}
    names = [f for f in field_names(source) if re.fullmatch(r".*_token_(id|index)", f)]
    names += [f for f in ("pad_token_id", "bos_token_id", "eos_token_id") if f not in names]
    for place, name in enumerate(names):
        value = getattr(source, name, None)
        if isinstance(value, list) and any(t >= vocab for t in value):
            made[name] = [vocab - 2 - t for t in range(len(value))]
        elif isinstance(value, int) and (value >= vocab or seed):
            made[name] = (vocab - 8 - place - seed) % vocab
    return made


def _layer_numbers(source: PretrainedConfig, layers: int) -> dict[str, Any]:
    """Return fields that name or count layers, scaled to fewer of them."""
    total = getattr(source, layer_count_field(source))
    made: dict[str, Any] = {}
    for name in field_names(source):
        value = getattr(source, name)
        if matches(LAYER_COUNTS, source, name):
            continue
        is_number = isinstance(value, int) and not isinstance(value, bool) and value > 1
        # A period, such as every fourth layer, stays as it is.
        is_period = re.search(r"step|interval|every|pattern|period|offset", name)
        is_other = is_period or re.search(r"size", name)
        is_of_layers = re.search(r"(^|_)layers?(_|$)|first_k_dense", name) and not is_other
        if is_number and is_of_layers and class_default(source, name) is not None:
            last = re.search(r"end_index", name) is not None
            made[name] = layers - 1 if last else max(1, math.ceil(value * layers / total) - 1)
        if isinstance(value, dict) and (inner := _small_mapping(value, layers, total)) != value:
            made[name] = inner
        if is_counted_pattern(value):
            made[name] = [[kinds, layers // len(kinds)] for kinds, _ in value]
        if small := _small_list(source, name, value, total):
            made[name] = [small] * layers
        if _numbers_layers(name, value, total):
            made[name] = sorted({number * layers // total for number in value})
        elif value is None and _is_read_for_kinds(source, name):
            made[name] = [1]
    return made


def _small_mapping(mapping: dict[str, Any], layers: int, total: int) -> dict[str, Any]:
    """Return a mapping inside a config with small sizes, and with the numbers of fewer layers.

    Args:
        mapping: By keys such as those of a config.
        layers: How many are left.
        total: How many there were.
    """
    made: dict[str, Any] = {}
    lists = [value for value in mapping.values() if isinstance(value, list)]
    first = int(any(total in numbers for numbers in lists))  # some count layers from one
    for name, value in mapping.items():
        made[name] = value
        if isinstance(value, dict):
            made[name] = _small_mapping(value, layers, total)
        elif type(value) is int:
            sizes = (size for pattern, size in NESTED_SIZES if re.fullmatch(pattern, name))
            made[name] = min(value, next(sizes, value))
        elif _numbers_layers(name, value, total, first):
            made[name] = [number for number in value if number < layers + first]
    return made


def _small_list(source: PretrainedConfig, name: str, value: Any, total: int) -> int | None:
    """Return the small size of a list that has one large size for each layer."""
    if not isinstance(value, list) or len(value) != total or not all(type(v) is int for v in value):
        return None
    size = entry_of(SIZES, source, name)
    return size if size is not None and total and size < min(value) else None


def _numbers_layers(name: str, value: Any, total: int, first: int = 0) -> bool:
    """Return whether a field lists the numbers of some layers, in order.

    Args:
        name: The field's.
        value: Its value.
        total: How many layers there are.
        first: Number of the first one.
    """
    if "layer" not in name or not isinstance(value, list) or not 0 < len(value) < total:
        return False
    numbers = range(first, total + first)
    return all(type(v) is int and v in numbers for v in value) and value == sorted({*value})


def _is_read_for_kinds(source: PretrainedConfig, name: str) -> bool:
    """Return whether a list that a default leaves out would make layers of another kind."""
    if "layer" not in name or list not in allowed_types(source, name):
        return False
    kinds = [n for n, values in _derived_kinds(source).items() if len(set(values)) == 1]
    getters = [getattr(type(source), kind).fget for kind in kinds]
    return any(f"self.{name}" in inspect.getsource(getter) for getter in getters)


def _stated_kinds(source: PretrainedConfig, layers: int) -> dict[str, Any]:
    """Return a list of the kinds of layers where a model reads one that its class leaves out."""
    if getattr(source, "layer_types", "") is not None:
        return {}
    text = modeling_source(source)
    if "config.layer_types[" not in text:
        return {}
    # transformers before 5.4 has no such list.
    known = getattr(configuration_utils, "ALLOWED_ATTN_LAYER_TYPES", ())
    kinds = [kind for kind in known if f'"{kind}"' in text]
    return {"layer_types": [kinds[n % len(kinds)] for n in range(layers)]} if kinds else {}


def is_counted_pattern(value: Any) -> bool:
    """Return whether a value is a list of [kinds, repetitions]."""
    if not isinstance(value, list) or not value:
        return False
    return all(
        isinstance(v, list) and len(v) == 2 and isinstance(v[0], list) and isinstance(v[1], int)
        for v in value
    )


def layer_lists(config: PretrainedConfig) -> dict[str, list[Any]]:
    """Return the fields that hold one value per layer."""
    count = getattr(config, layer_count_field(config))
    lists = {f: getattr(config, f) for f in field_names(config)}
    return {f: v for f, v in lists.items() if isinstance(v, list) and len(v) == count > 0}


def _layer_kinds(config: PretrainedConfig) -> set[tuple[Any, ...]]:
    """Return the different kinds of layers: the values that lists give one layer, together."""
    lists = {f: v for f, v in layer_lists(config).items() if not _is_size_list(v)}
    lists |= _derived_kinds(config)
    if not lists:
        return set()
    rows = zip(*(lists[f] for f in sorted(lists)), strict=True)
    return {tuple(map(str, row)) for row in rows}


def _derived_kinds(config: PretrainedConfig) -> dict[str, list[str]]:
    """Return the lists of kinds, one for each layer, that a class computes from periods."""
    count = getattr(config, layer_count_field(config))
    names = [n for n in ("layer_types", "layers_block_type") if hasattr(type(config), n)]
    lists = {n: getattr(config, n) for n in names if isinstance(getattr(type(config), n), property)}
    return {n: v for n, v in lists.items() if isinstance(v, list) and len(v) == count > 0}


def _is_size_list(values: list[Any]) -> bool:
    """Return whether per-layer values are sizes or bases, all of them equal or each its own."""
    return len(set(map(str, values))) == 1 or all(
        isinstance(v, int | float) and not isinstance(v, bool) and v > 1 for v in values
    )


def _chosen_layers(source: PretrainedConfig, layers: int) -> dict[str, Any]:
    """Return per-layer lists that hold one layer of each kind of the default's."""
    stated = layer_lists(source)
    kinds = [v for v in stated.values() if not _is_size_list(v)]
    lists = {f: v for f, v in stated.items() if v in kinds or v.count(v[0]) == len(v)}
    total = getattr(source, layer_count_field(source))
    rows = [str([v[n] for v in kinds]) for n in range(total)]
    numbers = sorted({row: n for n, row in reversed(list(enumerate(rows)))}.values())[:layers]
    numbers += [n for n in range(total) if n not in numbers][: layers - len(numbers)]
    # A checkpoint of fewer layers repeats them.
    numbers = (sorted(numbers) * layers)[:layers]
    return {f: [v[n] for n in numbers] for f, v in lists.items()}
