"""Of which kind the value of a key is, and how a text is read as it.

Source:
    The types of the configuration classes of the installed package 0.6.0; a test compares them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from areal.trainer.trinity.keys import IGNORED, KEYS, REFUSED, is_free

# By the last name of a key, which means the same wherever it is; all others are texts.
_NAMES: dict[type, str] = {
    bool: "bypass_old_logprobs continue_from_checkpoint enable_thinking eval_on_startup",
    dict: "advantage_fn_args data_selector experience_buffer kl_loss_fn_args kl_penalty_fn_args "
    "policy_loss_fn_args reward_fn_args rollout_args rollout_model task_selector taskset "
    "workflow_args",
    float: "clip_grad grad_clip lr lr_warmup_steps_ratio min_lr_ratio temperature top_p "
    "weight_decay",
    int: "batch_size eval_interval lr_warmup_steps max_model_len max_prompt_tokens "
    "max_response_tokens max_timeout max_token_len_per_gpu max_tokens min_response_tokens "
    "repeat_times save_interval seed sync_offset top_k total_epochs total_steps train_batch_size",
    list: "auxiliary_models betas eval_tasksets tasksets",
}
_KINDS = {name: kind for kind, names in _NAMES.items() for name in names.split()}
_WORDS = {
    bool: "true or false",
    dict: "keys and values",
    float: "a number",
    int: "a whole number",
    list: "a list",
    str: "a text",
}
_FLAGS = {"true": True, "false": False}


def kind_of(key: str) -> type:
    """Return the type of a mapped key's value."""
    return _KINDS.get(key.rpartition(".")[2], str)


def typed(value: Any, key: str, problems: list[str]) -> Any:
    """Return a value with its texts read as numbers and flags where its key wants them.

    An interpolation of the environment is always a text.

    Args:
        value: What is at the key, or the whole file at "".
        key: Dotted; entries of lists are ``name[]``.
        problems: Gets a line for each value of another kind.
    """
    entry = KEYS.get(key)
    if value is None or (is_free(key) and isinstance(value, Mapping)):
        return value
    if entry is not None and entry.use in (IGNORED, REFUSED) and not isinstance(value, Mapping):
        return value
    if isinstance(value, Mapping):
        if entry is not None and kind_of(key) is not dict and not _has_below(key):
            problems.append(_problem(key, value, kind_of(key)))
        return {
            name: typed(each, f"{key}.{name}" if key else str(name), problems)
            for name, each in value.items()
        }
    if entry is None and not _has_below(key):
        return value  # an unknown key, which is refused as such
    kind = dict if entry is None else kind_of(key)
    found = _read(value, kind)
    if found is None:
        problems.append(_problem(key, value, kind))
    elif kind is list and _has_below(f"{key}[]"):
        entries = [each for each in found if isinstance(each, Mapping)]
        strange = [each for each in found if each not in entries]
        problems += [_problem(f"{key}[]", each, dict) for each in strange]
        return [typed(each, f"{key}[]", problems) for each in entries]
    return found


def _read(value: Any, kind: type) -> Any:
    """Return a value as what a key wants; None where it is nothing of the kind."""
    if kind is str:
        return None if isinstance(value, list) else str(value)
    if kind is bool:
        return _FLAGS.get(str(value).lower())
    if kind in (dict, list):
        return value if isinstance(value, kind) else None
    if isinstance(value, bool | list):
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    if not math.isfinite(number) or (kind is int and number != int(number)):
        return None
    return kind(number) if isinstance(value, str | float) else value


def _has_below(key: str) -> bool:
    return not key or any(each.startswith(f"{key}.") for each in KEYS)


def _problem(key: str, value: Any, kind: type) -> str:
    return f"{key} is {value!r}, expected {_WORDS[kind]}"
