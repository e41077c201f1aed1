"""Datasets: one small module each, named in one table; a loader in it for each kind of training."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from areal.api.errors import UnknownNameError
from areal.api.registry import nearest_names

DATASETS: dict[str, str] = {
    # "name": "my_rl.dataset.name", sorted, one per line
    "joined": "my_rl.dataset.joined",
    "only_dpo": "my_rl.dataset.only_dpo",
    "only_rl": "my_rl.dataset.only_rl",
    "only_rw": "my_rl.dataset.only_rw",
    "only_sft": "my_rl.dataset.only_sft",
    "plain_pairs": "my_rl.dataset.plain_pairs",
    "plain_rows": "my_rl.dataset.plain_rows",
    "turns": "my_rl.dataset.turns",
}


def get_loader(name: str, type: str) -> Callable[..., Any]:
    """Returns the loader ``get_<name>_<type>_dataset`` of a dataset.

    Args:
        name: A key of the table.
        type: The kind of training: "sft", "rl", "rw" or "dpo".

    Raises:
        UnknownNameError: There is no such dataset, or it has no loader of this type.
    """
    if name not in DATASETS:
        raise UnknownNameError(f"unknown dataset {name!r}{nearest_names(name, DATASETS)}")
    loader = getattr(importlib.import_module(DATASETS[name]), f"get_{name}_{type}_dataset", None)
    if loader is None:
        raise UnknownNameError(f"the dataset {name!r} has no loader of type {type!r}")
    return loader
