"""Datasets: one small file each, named in one table; ``get_custom_dataset`` finds the loader.

A loader is a function ``get_<name>_<type>_dataset(path, split, tokenizer, max_length=None, ...)``
(``processor`` instead of ``tokenizer`` for images) in the module that the table names, where the
type is ``sft``, ``rl``, ``rw`` or ``dpo``. It returns rows: a sized, indexable collection of dicts.
"""

from __future__ import annotations

import importlib
import inspect
import os
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from areal.api.errors import DatasetError, UnknownNameError
from areal.api.registry import import_from_string, nearest_names

if TYPE_CHECKING:
    from areal.api.cli_args import _DatasetConfig

DATASETS: dict[str, str] = {
    "arithmetic": "areal.dataset.arithmetic",
    "clevr_count_70k": "areal.dataset.clevr_count_70k",
    "geometry3k": "areal.dataset.geometry3k",
    "gsm8k": "areal.dataset.gsm8k",
    "hh_rlhf": "areal.dataset.hh_rlhf",
    "shapes": "areal.dataset.shapes",
    "torl_data": "areal.dataset.torl_data",
}

VALID_DATASETS: list[str] = list(DATASETS)
DATASET_TYPES: tuple[str, ...] = ("sft", "rl", "rw", "dpo")

__all__ = [
    "DATASETS",
    "DATASET_TYPES",
    "VALID_DATASETS",
    "get_custom_dataset",
    "get_loader",
    "takes_processor",
]

_LOADER_NAME = re.compile(rf"get_(\w+)_({'|'.join(DATASET_TYPES)})_dataset")
_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*[.:][A-Za-z_]\w*")
_FILE_SUFFIX = re.compile(r"\.(jsonl|json|parquet|csv)$", re.IGNORECASE)


def get_custom_dataset(
    split: str | None = None,
    dataset_config: _DatasetConfig | None = None,
    tokenizer: Any = None,
    processor: Any = None,
    **kwargs: Any,
) -> Any:
    """Load the dataset that a configuration names.

    Args:
        split: Which part; None takes the configuration's.
        dataset_config: Gives ``path``, ``type``, ``split``, ``max_length`` and ``dataset_kwargs``.
        tokenizer: For loaders of text.
        processor: For loaders of images.
        **kwargs: Options of the loader, over ``dataset_kwargs``; also ``path``, ``type`` and
            ``max_length`` where there is no configuration.

    Returns:
        Rows; their columns are in the loader's docstring.

    Raises:
        UnknownNameError: No registered dataset and no dotted path is named.
        DatasetError: The dataset has no such type or option, or cannot be read.
    """
    options: dict[str, Any] = {}
    if dataset_config is not None:
        options = {
            "path": dataset_config.path,
            "type": dataset_config.type,
            "max_length": dataset_config.max_length,
            **dataset_config.dataset_kwargs,
        }
        split = split if split is not None else dataset_config.split
    options.update(kwargs)
    if not options.get("path"):
        raise DatasetError("no dataset is named: set train_dataset.path, or pass path=")
    return _get_custom_dataset(split=split, tokenizer=tokenizer, processor=processor, **options)


def _get_custom_dataset(
    path: str,
    type: str = "sft",
    split: str | None = None,
    max_length: int | None = None,
    tokenizer: Any = None,
    processor: Any = None,
    name: str | None = None,
    **kwargs: Any,
) -> Any:
    if name is None and _is_saved_dataset(path):
        from areal.dataset.sources import load_saved_dataset

        if options := [*(["max_length"] if max_length is not None else []), *kwargs]:
            raise DatasetError(
                f"{path!r} was written by save_to_disk and is taken as it is: {options[0]} has no "
                "effect; leave it out, or set dataset_kwargs.name to a loader's"
            )
        return load_saved_dataset(path, split)
    loader = _find_loader(path, type, name)
    given = {"path": path, "split": split, "tokenizer": tokenizer, "processor": processor}
    return _call(loader, {**given, "max_length": max_length}, kwargs)


def takes_processor(dataset_config: _DatasetConfig) -> bool:
    """Return whether the loader that a configuration names takes a processor of images."""
    path, name = dataset_config.path, dataset_config.dataset_kwargs.get("name")
    if not path or (name is None and _is_saved_dataset(path)):
        return False
    return (
        "processor" in inspect.signature(_find_loader(path, dataset_config.type, name)).parameters
    )


def _find_loader(path: str, type: str, name: str | None) -> Callable[..., Any]:
    """Return the loader, once it is known that a path with the suffix of a data file exists."""
    if _FILE_SUFFIX.search(path) and "://" not in path and not os.path.exists(path):
        raise DatasetError(f"there is no data file {path!r}")
    return get_loader(path, type, name)


def get_loader(path: str, type: str, name: str | None = None) -> Callable[..., Any]:
    """Return the loader function that a path and a type select.

    The path may be:

    - a registered name ("gsm8k"), or a hub id or local folder whose last component is one, case
      folded and ``-`` read as ``_`` ("openai/gsm8k", "/home/user/HH-RLHF");
    - a data file that is named so or is in a folder that is ("/home/user/gsm8k/train.jsonl");
    - a dotted path to a loader ("my_rl.dataset.word_sums.get_word_sums_rl_dataset") or to its
      module ("my_rl.dataset.word_sums").

    Any other path is fine together with a ``name`` that is one of these.

    Args:
        path: Where the data is, or what it is.
        type: ``sft``, ``rl``, ``rw`` or ``dpo``.
        name: Overrides the name in the path.

    Raises:
        UnknownNameError: The dataset is neither registered nor importable.
        DatasetError: It has no loader of this type; the message lists those that it has.
    """
    wanted = name or path
    for candidate in _registered_candidates(wanted):
        if candidate in DATASETS:
            return _loader_in(importlib.import_module(DATASETS[candidate]), candidate, type)
    # A file in the working folder may look dotted ("train.jsonl"); a path that exists is no module.
    if _DOTTED.fullmatch(wanted) and not os.path.exists(wanted):
        return _dotted_loader(wanted, type)
    label = "dataset" if name else "dataset path"
    raise UnknownNameError(
        f"unknown {label} {wanted!r}{nearest_names(_registered_candidates(wanted)[0], DATASETS)}; "
        "name a folder after its dataset, set dataset_kwargs.name, or give a dotted loader path"
    )


def _registered_candidates(path: str) -> list[str]:
    """Return the registered names that a path can mean, the likeliest first."""
    parts = [part for part in re.split(r"[/\\]", path) if part]
    last = parts[-1] if parts else ""
    names = [last]
    if _FILE_SUFFIX.search(last):
        names = [_FILE_SUFFIX.sub("", last), *parts[-2:-1]]
    return [name.lower().replace("-", "_") for name in names]


def _dotted_loader(path: str, type: str) -> Callable[..., Any]:
    try:
        found = _import_dotted(path)
    except (ImportError, AttributeError, ValueError) as error:
        raise UnknownNameError(f"cannot import dataset {path!r}: {error}") from error
    if inspect.ismodule(found):
        return _loader_in(found, found.__name__.rpartition(".")[2], type)
    match = _LOADER_NAME.fullmatch(getattr(found, "__name__", ""))
    if match and match[2] != type:
        raise DatasetError(f"{path!r} loads type {match[2]!r}, but type {type!r} is asked for")
    return found


def _import_dotted(path: str) -> Any:
    try:
        return import_from_string(path)
    except AttributeError as error:
        if ":" in path:
            raise
        # A module is an attribute of its package only once somebody has imported it.
        try:
            return importlib.import_module(path)
        except ModuleNotFoundError as missing:
            if missing.name == path:
                raise error from None
            raise


def _loader_in(module: Any, name: str, type: str) -> Callable[..., Any]:
    loader = getattr(module, f"get_{name}_{type}_dataset", None)
    if loader is not None:
        return loader
    names = (_LOADER_NAME.fullmatch(attribute) for attribute in vars(module))
    types = sorted({match[2] for match in names if match and match[1] == name})
    known = f"it has: {', '.join(types)}" if types else f"{module.__name__} defines no loader"
    raise DatasetError(f"dataset {name!r} has no type {type!r}; {known}")


def _call(loader: Callable[..., Any], given: dict[str, Any], options: dict[str, Any]) -> Any:
    """Call a loader with what it takes of the standard arguments, and with all options."""
    parameters = inspect.signature(loader).parameters
    takes_any = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
    unknown = [option for option in options if option not in parameters and not takes_any]
    if unknown:
        known = [p for p in parameters if p not in given]
        raise DatasetError(
            f"{loader.__name__} takes no option {unknown[0]!r}"
            f"{nearest_names(unknown[0], known) if known else '; it has no options'}"
        )
    if given["max_length"] is not None and not takes_any and "max_length" not in parameters:
        raise DatasetError(
            f"{loader.__name__} takes no max_length, so that longer rows would stay; leave it out, "
            "or have the loader drop them"
        )
    standard = {key: value for key, value in given.items() if takes_any or key in parameters}
    for needed in ("tokenizer", "processor"):
        parameter = parameters.get(needed)
        is_required = parameter is not None and parameter.default is inspect.Parameter.empty
        if is_required and given[needed] is None:
            advice = "set tokenizer_path"
            if needed == "processor":
                advice = "name an image model in actor.path, or describe one in run.model.vision"
            raise DatasetError(f"{loader.__name__} needs a {needed}; {advice}")
    return loader(**standard, **options)


def _is_saved_dataset(path: str) -> bool:
    """Return whether ``datasets.Dataset.save_to_disk`` wrote this folder: its columns are ready."""
    return any(os.path.isfile(os.path.join(path, f)) for f in ("dataset_dict.json", "state.json"))
