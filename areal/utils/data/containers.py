"""Trajectory dicts: padding, concatenation, collation and moves between devices.

Shapes: B rows (sequences), L columns (padded length). A trajectory is a dict of right-padded
tensors [B, L, ...] and [B], plus lists and plain values that ride along.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch

TensorDict = dict[str, Any]

# Per-sequence lists of dicts that vision processors make; never padded, only strung together.
MULTI_MODAL_PREFIX = "multi_modal_input"


def tensor_container_to(container: Any, *args: Any, **kwargs: Any) -> Any:
    """Call ``Tensor.to(*args, **kwargs)`` on every tensor in nested dicts, lists and tuples."""
    if torch.is_tensor(container):
        return container.to(*args, **kwargs)
    if isinstance(container, Mapping):
        return {k: tensor_container_to(v, *args, **kwargs) for k, v in container.items()}
    if isinstance(container, list | tuple):
        return type(container)([tensor_container_to(v, *args, **kwargs) for v in container])
    return container


# Files of tokens hold these, and torch can do next to nothing with them.
_UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)

# As prompts have it: no weights sampled these tokens, and they are of no turn.
_PADDING = {"attention_mask": 0.0, "versions": -1.0, "turn_ids": -1.0}


def concat_padded_tensors(dicts: Sequence[TensorDict], pad_value: float = 0.0) -> TensorDict:
    """String trajectory dicts together along the batch, right-padding what is shorter.

    Tensors are padded on every dimension but the first with ``pad_value`` (``attention_mask``
    always with 0, ``versions`` and ``turn_ids`` with -1) and concatenated. Lists are concatenated
    flat, ``multi_modal_input*`` among them; of any other value the first one is kept.

    Args:
        dicts: Dicts with equal keys. None at all give ``{}``, one gives a shallow copy.
        pad_value: What fills the padded places.

    Raises:
        ValueError: Keys differ, or a tensor has no batch dimension.
    """
    if not dicts:
        return {}
    if len(dicts) == 1:
        return dict(dicts[0])
    _check_same_keys(dicts)
    layouts: dict[Any, _Layout] = {}
    return {
        key: _concat_values(key, [d[key] for d in dicts], _PADDING.get(key, pad_value), layouts)
        for key in dicts[0]
    }


class _Layout:
    """Where the rows of padded tensors are in the one that they are put together to.

    Args:
        sizes: Rows and columns of each tensor.
        device: Where the tensors are.
    """

    def __init__(self, sizes: Sequence[tuple[int, int]], device: torch.device) -> None:
        rows, widths = torch.tensor(sizes).unbind(1)
        lens = widths.repeat_interleave(rows)
        self.num_rows, self.num_columns = len(lens), int(widths.max())
        is_real_BL = torch.arange(self.num_columns) < lens[:, None]
        self.places = is_real_BL.flatten().nonzero()[:, 0].to(device)


def _check_same_keys(dicts: Sequence[TensorDict]) -> None:
    expected = dicts[0].keys()
    for i, found in enumerate(dicts):
        if found.keys() != expected:
            differing = sorted(found.keys() ^ expected)
            raise ValueError(f"dict {i} and dict 0 differ in keys {differing}; make them equal")


def _concat_values(
    key: str, values: list[Any], pad_value: float, layouts: dict[Any, _Layout]
) -> Any:
    first = values[0]
    if torch.is_tensor(first):
        if any(t.ndim == 0 for t in values):
            raise ValueError(f"{key!r} is a 0-dim tensor; give it a batch dimension")
        return _concat_tensors(values, pad_value, layouts)
    if isinstance(first, list):
        return list(itertools.chain.from_iterable(values))
    return first


def _concat_tensors(
    tensors: list[torch.Tensor], pad_value: float, layouts: dict[Any, _Layout]
) -> torch.Tensor:
    tails = {t.shape[1:] for t in tensors}
    if len(tails) == 1:
        return torch.cat(tensors)
    if len({t.ndim for t in tensors}) != 1:
        raise ValueError(f"cannot pad tensors of unequal rank: shapes {[*map(tuple, tails)]}")
    if len({tail[1:] for tail in tails}) == 1:
        return _concat_ragged_columns(tensors, pad_value, layouts)
    return _concat_ragged(tensors, pad_value)


def _concat_ragged_columns(
    tensors: list[torch.Tensor], pad_value: float, layouts: dict[Any, _Layout]
) -> torch.Tensor:
    """Pad dimension 1 only, by one flat concatenation and one copy for any number of rows."""
    sizes = tuple((t.shape[0], t.shape[1]) for t in tensors)
    key = sizes, tensors[0].device
    # Nearly all tensors of trajectories have the shape of their tokens.
    if key not in layouts:
        layouts[key] = _Layout(*key)
    layout = layouts[key]
    flat = torch.cat([t.flatten(0, 1) for t in tensors])
    out = flat.new_full((layout.num_rows * layout.num_columns, *flat.shape[1:]), pad_value)
    out.index_copy_(0, layout.places, flat)
    return out.unflatten(0, (layout.num_rows, layout.num_columns))


def _concat_ragged(tensors: list[torch.Tensor], pad_value: float) -> torch.Tensor:
    tail = [max(sizes) for sizes in zip(*(t.shape[1:] for t in tensors), strict=True)]
    dtype = functools.reduce(torch.promote_types, (t.dtype for t in tensors))
    num_rows = sum(t.shape[0] for t in tensors)
    out = tensors[0].new_full((num_rows, *tail), pad_value, dtype=dtype)
    start = 0
    for t in tensors:
        out[(slice(start, start + t.shape[0]), *(slice(0, n) for n in t.shape[1:]))] = t
        start += t.shape[0]
    return out


def collate_samples_to_list(samples: Iterable[Mapping[str, Any]]) -> list[TensorDict]:
    """Turn dataset rows into trajectory dicts of one sequence each.

    A sequence of numbers becomes a tensor [1, L], a number a tensor [1], anything else a list of
    one (``multi_modal_input*`` stay lists). ``attention_mask`` is bool [1, L], all True, where L
    is the length of ``input_ids``, or of the first sequence where that is missing.

    Raises:
        ValueError: A row holds no sequence.
    """
    return [_sample_to_row(sample) for sample in samples]


def _sample_to_row(sample: Mapping[str, Any]) -> TensorDict:
    row = {key: _value_to_row(key, value) for key, value in sample.items()}
    sequences = {k: v for k, v in row.items() if torch.is_tensor(v) and v.ndim >= 2}
    if not sequences:
        raise ValueError(f"a sample needs a sequence such as 'input_ids'; found keys {sorted(row)}")
    ids = sequences.get("input_ids", next(iter(sequences.values())))
    row["attention_mask"] = torch.ones((1, ids.shape[1]), dtype=torch.bool)
    return row


def values_to_tensor(values: Any) -> torch.Tensor:
    """Return numbers of a row as a tensor, of a type that torch computes with.

    Raises:
        TypeError, ValueError, RuntimeError: They are no numbers, or ragged.
    """
    tensor = torch.as_tensor(values)
    return tensor.long() if tensor.dtype in _UNSIGNED else tensor


def _value_to_row(key: str, value: Any) -> Any:
    if key.startswith(MULTI_MODAL_PREFIX):
        return value if isinstance(value, list) else [value]
    if isinstance(value, bool | int | float):
        return torch.tensor([value])
    try:
        return values_to_tensor(value).unsqueeze(0)
    except (TypeError, ValueError, RuntimeError):
        return [value]  # text and the like: carried, not trained on


def pad_sequences_to_tensors(
    samples: Sequence[Mapping[str, Any]], pad_value: float = 0.0
) -> TensorDict:
    """Turn dataset rows into one right-padded batch [B, L] with a bool ``attention_mask``."""
    return concat_padded_tensors(collate_samples_to_list(samples), pad_value=pad_value)


def reorder_list(xs: Sequence[Any], indices: Sequence[int]) -> list[Any]:
    """Return ``[xs[i] for i in indices]``.

    Raises:
        ValueError: The indices are no permutation of ``range(len(xs))``.
    """
    if sorted(indices) != list(range(len(xs))):
        raise ValueError(
            f"indices must be a permutation of range({len(xs)}), found {list(indices)}"
        )
    return [xs[i] for i in indices]


def pad_and_stack_tensors_along_first_dim(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """Right-pads dimension 0 with 0 to the longest tensor and stacks along a new first dimension.

    Raises:
        ValueError: There is no tensor, or their numbers of dimensions differ.
    """
    if len({t.ndim for t in tensors}) != 1:
        shapes = [tuple(t.shape) for t in tensors]
        raise ValueError(f"need tensors with equal numbers of dimensions, found shapes {shapes}")
    return torch.nn.utils.rnn.pad_sequence(list(tensors), batch_first=True)


def cycle_dataloader(dataloader: Iterable[Any], num_cycles: int = -1) -> Iterator[Any]:
    """Yield the batches of a dataloader again and again.

    A sampler with ``set_epoch`` is told the number of the cycle, so that each cycle has its order.

    Args:
        dataloader: Anything that can be iterated over more than once.
        num_cycles: How often; -1 for ever.

    Raises:
        ValueError: A whole cycle yields nothing, which would spin for ever.
    """
    set_epoch: Callable[[int], None] | None = getattr(
        getattr(dataloader, "sampler", None), "set_epoch", None
    )
    for cycle in itertools.count():
        if cycle == num_cycles:
            return
        if set_epoch is not None:
            set_epoch(cycle)
        is_empty = True
        for batch in dataloader:
            is_empty = False
            yield batch
        if is_empty:
            raise ValueError(
                "the dataloader yields no batch: fewer rows than one batch, drop_last?"
            )
