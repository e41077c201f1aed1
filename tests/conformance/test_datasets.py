"""Does every registered dataset obey its kind?"""

from __future__ import annotations

import importlib
import inspect
import re

import pytest

from areal.dataset import DATASET_TYPES, DATASETS, VALID_DATASETS, get_loader
from tests.conformance.registries import (
    check_arguments_are_documented,
    check_docstring,
    check_table,
    check_unit,
)

COLUMNS = {
    "sft": ("input_ids", "loss_mask"),
    "rl": ("messages", "answer"),
    "rw": ("chosen_ids", "rejected_ids"),
    "dpo": ("chosen_ids", "rejected_ids", "chosen_loss_mask", "rejected_loss_mask"),
}


def types_of(name: str) -> list[str]:
    module = importlib.import_module(DATASETS[name])
    return [t for t in DATASET_TYPES if hasattr(module, f"get_{name}_{t}_dataset")]


LOADERS = [(name, type_) for name in DATASETS for type_ in types_of(name)]


def test_the_table_is_one_sorted_literal() -> None:
    check_table("areal.dataset", "DATASETS")
    assert list(DATASETS) == VALID_DATASETS


@pytest.mark.parametrize("name", DATASETS)
def test_a_dataset_is_a_unit_of_its_own(name: str) -> None:
    assert check_unit("dataset", name, DATASETS[name])
    assert types_of(name), f"no function get_{name}_<{'|'.join(DATASET_TYPES)}>_dataset"


@pytest.mark.parametrize(("name", "type_"), LOADERS)
def test_a_loader_takes_the_standard_arguments(name: str, type_: str) -> None:
    loader = get_loader(name, type_)
    parameters = inspect.signature(loader).parameters
    names = list(parameters)
    assert names[:2] == ["path", "split"]
    assert names[2] in ("tokenizer", "processor")
    assert names[3] == "max_length"
    assert parameters["max_length"].default is None
    for option in names[4:]:
        has_default = parameters[option].default is not inspect.Parameter.empty
        is_open = parameters[option].kind is inspect.Parameter.VAR_KEYWORD
        assert has_default or is_open, f"option {option} of {loader.__name__} needs a default"


@pytest.mark.parametrize(("name", "type_"), LOADERS)
def test_a_loader_documents_its_columns(name: str, type_: str) -> None:
    loader = get_loader(name, type_)
    check_docstring(loader, "Args", "Returns")
    docstring = loader.__doc__ or ""
    check_arguments_are_documented(loader, docstring)
    returns = docstring.partition("Returns:")[2].partition("Raises:")[0]
    assert all(re.search(rf"\b{column}\b", returns) for column in COLUMNS[type_])
