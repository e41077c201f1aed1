"""One unit's entries of several shapes in one file: in any order in, in any order out."""

from __future__ import annotations

import itertools
import sys
import types

import pytest

from scaffold.edit.entry import Entry
from scaffold.edit.shapes import add_entry, has_entry, remove_entry

REWARDS = "areal/reward/__init__.py"
DATASETS = "areal/dataset/__init__.py"
ARCHON = "areal/experimental/models/archon/__init__.py"

OLD_REWARDS = b'''"""Rewards by name."""

from .clevr_count_70k import clevr_count_70k_reward_fn
from .gsm8k import gsm8k_reward_fn

VALID_REWARD_FN = ["clevr_count_70k", "gsm8k"]

__all__ = [
    "VALID_REWARD_FN",
    "clevr_count_70k_reward_fn",
    "get_reward_fn",
    "gsm8k_reward_fn",
]


def get_reward_fn(name, **kwargs):
    if name == "clevr_count_70k":
        return clevr_count_70k_reward_fn
    elif name == "gsm8k":
        return gsm8k_reward_fn
    else:
        raise ValueError(f"unknown reward {name}, known: {VALID_REWARD_FN}")
'''
OLD_ENTRIES = [
    Entry(REWARDS, "", "import", "digits_reward_fn", ".digits"),
    Entry(REWARDS, "VALID_REWARD_FN", "list", "digits", ""),
    Entry(REWARDS, "__all__", "list", "digits_reward_fn", ""),
    Entry(REWARDS, "get_reward_fn", "branch", 'name == "digits"', "return digits_reward_fn"),
]

LAZY_REWARDS = b'''"""Rewards, each loaded on first use."""

from typing import TYPE_CHECKING

from areal.reward.math_parser import MathVerifyWorker, get_math_verify_worker

if TYPE_CHECKING:
    from areal.reward.clevr_count_70k import clevr_count_70k_reward_fn
    from areal.reward.gsm8k import gsm8k_reward_fn

__all__ = [
    "MathVerifyWorker",
    "get_math_verify_worker",
    "gsm8k_reward_fn",
    "clevr_count_70k_reward_fn",
]

_LAZY_IMPORTS = {
    "gsm8k_reward_fn": "areal.reward.gsm8k",
    "clevr_count_70k_reward_fn": "areal.reward.clevr_count_70k",
}
'''
LAZY_ENTRIES = [
    Entry(REWARDS, "TYPE_CHECKING", "import", "digits_reward_fn", "areal.reward.digits"),
    Entry(REWARDS, "__all__", "list", "digits_reward_fn", ""),
    Entry(REWARDS, "_LAZY_IMPORTS", "dict", "digits_reward_fn", "areal.reward.digits"),
]


def loader(kind: str) -> Entry:
    value = (
        f"from .digits import get_digits_{kind}_dataset\n\n"
        f"return get_digits_{kind}_dataset(\n"
        "    path=path, split=split, tokenizer=tokenizer, max_length=max_length, **kwargs\n)\n"
    )
    key = f'"digits" in path and type == "{kind}"'
    return Entry(DATASETS, "_get_custom_dataset", "branch", key, value)


CHAIN = b"""VALID_DATASETS = ["gsm8k", "clevr_count_70k", "hh-rlhf"]


def _get_custom_dataset(
    path: str,
    type: str = "sft",
    split: str | None = None,
    max_length: int | None = None,
    tokenizer=None,
    processor=None,
    **kwargs,
):
    if "gsm8k" in path and type == "sft":
        from .gsm8k import get_gsm8k_sft_dataset

        return get_gsm8k_sft_dataset(path=path, split=split, tokenizer=tokenizer, **kwargs)
    elif "hh-rlhf" in path and type == "rw":
        from .hhrlhf import get_hhrlhf_rw_dataset

        return get_hhrlhf_rw_dataset(path=path, split=split, tokenizer=tokenizer, **kwargs)
    else:
        from datasets import load_from_disk

        return load_from_disk(path)
"""
CHAIN_ENTRIES = [
    Entry(DATASETS, "VALID_DATASETS", "list", "digits", ""),
    loader("sft"),
    loader("rl"),
    loader("dpo"),
]

SPECS = b"""import areal.experimental.models.archon.qwen2.spec  # noqa: F401
import areal.experimental.models.archon.qwen3.spec  # noqa: F401
from areal.experimental.models.archon.model_spec import ModelSpec, get_model_spec
"""
SPEC_ENTRIES = [
    Entry(ARCHON, "", "import", f"areal.experimental.models.archon.{name}.spec", "")
    for name in ("llama", "qwen3_moe", "smollm3")
]

UNITS = {
    "eager rewards": (OLD_REWARDS, OLD_ENTRIES),
    "lazy rewards": (LAZY_REWARDS, LAZY_ENTRIES),
    "datasets by path and type": (CHAIN, CHAIN_ENTRIES),
    "archon models": (SPECS, SPEC_ENTRIES),
}


@pytest.mark.parametrize("newline", [b"\n", b"\r\n"], ids=["LF", "CRLF"])
@pytest.mark.parametrize("unit", UNITS.values(), ids=UNITS)
def test_entries_go_in_and_out_in_any_order(unit: tuple[bytes, list[Entry]], newline: bytes):
    before, entries = unit[0].replace(b"\n", newline), unit[1]
    for order in itertools.permutations(entries):
        data = before
        for entry in order:
            data = add_entry(data, entry).data
            assert has_entry(data, entry)
        compile(data, "registry.py", "exec")
        for entry in entries:
            data = remove_entry(data, entry)
        assert data == before


def test_a_dispatch_takes_what_was_added():
    data = CHAIN
    for entry in CHAIN_ENTRIES:
        data = add_entry(data, entry).data
    calls: list[str] = []
    source = data.decode().replace("from .digits import", "from digits import")
    scope: dict[str, object] = {}
    exec(compile(source, "registry.py", "exec"), scope)
    get = scope["_get_custom_dataset"]
    assert callable(get)
    with pytest.MonkeyPatch.context() as patch:
        module = types.ModuleType("digits")
        for kind in ("sft", "rl", "dpo"):
            name = f"get_digits_{kind}_dataset"
            setattr(module, name, lambda name=name, **kwargs: calls.append(name) or kwargs)
        patch.setitem(sys.modules, "digits", module)
        kwargs = get("data/digits", "rl", split="train", tokenizer="t")
    assert calls == ["get_digits_rl_dataset"]
    assert kwargs == {
        "path": "data/digits",
        "split": "train",
        "tokenizer": "t",
        "max_length": None,
    }
