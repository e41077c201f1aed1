"""Rules that say how a tensor on the Hub holds Archon parameters.

A rule never copies: it gives, for one tensor on the Hub, pairs of views of equal shape, one into
that tensor and one into a parameter. Loading copies each pair one way, saving the other, so the two
are inverse by construction and keep every bit.

In names ``{}`` is the layer number and ``{e}`` the expert number. A pattern that fits
no parameter of a model is not used: dense and sparse layers can have rules side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from areal.api.errors import ConfigError
from areal.experimental.models.archon.state_dict.sizes import size_of

LAYER = "{}"
EXPERT = "{e}"
# As a number of groups: as many as the first part has rows, so that rows of the parts alternate.
EVERY_ROW = "rows"

Shape = tuple[int, ...]
View = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Piece:
    """Pairs what a tensor on the Hub and a parameter have in common.

    Args:
        archon: The parameter's name.
        hub_view: From the whole tensor on the Hub to the piece.
        part_view: From the parameter, or its entry, to the piece: it covers all of it.
        is_same: Neither view changes anything.
        index: The entry of the parameter's first dimension that the piece fills; None for all of
            it.
        rows: The rows of the parameter that it fills, from the first to before the second number;
            None for all.
    """

    archon: str
    hub_view: View
    part_view: View
    is_same: bool = False
    index: int | None = None
    rows: tuple[int, int] | None = None

    @property
    def is_whole(self) -> bool:
        """Whether parameter and tensor are the same, in the same order."""
        return self.is_same and self.index is None and self.rows is None

    def archon_view(self, parameter: Tensor) -> Tensor:
        """Return the piece's place in the whole parameter."""
        if self.rows is not None:
            parameter = parameter[slice(*self.rows)]
        return self.part_view(parameter if self.index is None else parameter[self.index])


@dataclass(frozen=True)
class HubTensor:
    """What one tensor on the Hub looks like and which parameters it holds.

    Args:
        name: On the Hub.
        shape: Of all of it.
        pieces: One for each parameter in it.
        beside: Of a tensor that holds none: the parameter with which it is saved, as zeros.
    """

    name: str
    shape: Shape
    pieces: tuple[Piece, ...]
    beside: str | None = None

    @property
    def parameters(self) -> tuple[str, ...]:
        """Name of the parameters from which it is made."""
        return tuple(dict.fromkeys(p.archon for p in self.pieces)) or (str(self.beside),)


@dataclass(frozen=True)
class Rule:
    """The base of all rules.

    Args:
        hub: Name on the Hub, with placeholders; of a split, that of each tensor.
        archon: Name of the parameter, or of each one that the tensor holds, in its order.
        when: A condition on the model's arguments, see ``sizes.applies``; None for always.
    """

    hub: str | tuple[str, ...]
    archon: str | tuple[str, ...]

    @property
    def hubs(self) -> tuple[str, ...]:
        return (self.hub,) if isinstance(self.hub, str) else self.hub

    @property
    def parts(self) -> tuple[str, ...]:
        return (self.archon,) if isinstance(self.archon, str) else self.archon

    @property
    def is_stacked(self) -> bool:
        """Whether each tensor on the Hub is one entry of a parameter's first dimension."""
        return EXPERT in self.hubs[0] and EXPERT not in self.parts[0]

    def bind(
        self, layer: int | None, names: Sequence[str], shapes: Sequence[Shape], args: Any
    ) -> Iterator[HubTensor]:
        """Yield the tensors on the Hub that hold these parameters.

        Args:
            layer: The value of the placeholder, None without one.
            names: The parameters' names, one for each part.
            shapes: Their shapes.
            args: The model's arguments, for sizes that shapes do not tell.

        Raises:
            ConfigError: The shapes do not divide as the rule requires.
        """
        hub = _at(self.hubs[0], layer)
        if not self.is_stacked:
            yield self._tensor(hub, names, self._layout(shapes, layer, args), None)
            return
        counts = {shape[0] for shape in shapes}
        if len(counts) != 1:
            raise ConfigError(f"{hub}: parameters {list(names)} count different experts: {shapes}")
        layout = self._layout([shape[1:] for shape in shapes], layer, args)
        for index in range(counts.pop()):
            yield self._tensor(hub.replace(EXPERT, str(index)), names, layout, index)

    def _tensor(
        self, hub: str, names: Sequence[str], layout: Layout, index: int | None
    ) -> HubTensor:
        pieces = tuple(
            Piece(name, hub_view, part_view, hub_view is _same and part_view is _same, index)
            for name, (hub_view, part_view) in zip(names, layout.views, strict=True)
        )
        return HubTensor(hub, layout.shape, pieces)

    def _layout(self, shapes: Sequence[Shape], layer: int | None, args: Any) -> Layout:
        raise NotImplementedError


@dataclass(frozen=True)
class Layout:
    """The shape of a tensor on the Hub and a pair of views for each part."""

    shape: Shape
    views: tuple[tuple[View, View], ...]


def _at(name: str, layer: int | None) -> str:
    return name if layer is None else name.replace(LAYER, str(layer))


def _same(tensor: Tensor) -> Tensor:
    return tensor


def _transpose(tensor: Tensor) -> Tensor:
    return tensor.transpose(-2, -1)


def _swapped(shape: Shape) -> Shape:
    return (*shape[:-2], shape[-1], shape[-2])


@dataclass(frozen=True)
class Rename(Rule):
    """Maps a tensor to a parameter as it is; with ``{e}`` only on the Hub, to one entry of it."""

    when: str | None = None

    def _layout(self, shapes: Sequence[Shape], layer: int | None, args: Any) -> Layout:
        return Layout(shapes[0], ((_same, _same),))


class Stacked(Rename):
    """Maps matrices of single experts to a parameter [experts, out, in]."""


@dataclass(frozen=True)
class Transposed(Rule):
    """Maps a tensor whose last two dimensions change places: [in, out], as Conv1D has them."""

    when: str | None = None

    def _layout(self, shapes: Sequence[Shape], layer: int | None, args: Any) -> Layout:
        return Layout(_swapped(shapes[0]), ((_transpose, _same),))


@dataclass(frozen=True)
class Unsqueezed(Rule):
    """Maps a tensor that has one more dimension, of size one, than the parameter.

    Args:
        axis: Which dimension of the tensor that is.
    """

    axis: int = 0
    when: str | None = None

    def _layout(self, shapes: Sequence[Shape], layer: int | None, args: Any) -> Layout:
        shape = (*shapes[0][: self.axis], 1, *shapes[0][self.axis :])
        return Layout(shape, ((lambda tensor: tensor.squeeze(self.axis), _same),))


@dataclass(frozen=True)
class Fused(Rule):
    """Maps a tensor whose rows hold several parameters.

    The rows are ``groups`` equal blocks, and every block holds an equal share of each part, in
    order: 1 for [q | k | v], ``"n_heads"`` for (q, k, v) of one head after the other,
    ``"n_kv_heads"`` for the queries of a group with their key and value, ``"rows"`` for parts whose
    rows alternate.

    Args:
        groups: Number of blocks, or a field of the model's arguments.
        axis: Which dimension of the parameters the rows are.
        transposed: The tensor on the Hub has its last two dimensions the other way round.
    """

    groups: int | str = 1
    axis: int = 0
    transposed: bool = False
    when: str | None = None

    def _layout(self, shapes: Sequence[Shape], layer: int | None, args: Any) -> Layout:
        rows = [shape[self.axis] for shape in shapes]
        groups = rows[0] if self.groups == EVERY_ROW else size_of(self.groups, args, layer)
        if groups < 1 or any(count % groups for count in rows):
            raise ConfigError(
                f"{self.hub}: parts of {rows} rows do not divide into {groups} groups"
            )
        shape = (*shapes[0][: self.axis], sum(rows), *shapes[0][self.axis + 1 :])
        width = sum(rows) // groups
        views, start = [], 0
        for count in rows:
            share = count // groups
            views.append((self._in_hub(groups, width, start, share), self._in_part(groups, share)))
            start += share
        return Layout(_swapped(shape) if self.transposed else shape, tuple(views))

    def _in_hub(self, groups: int, width: int, start: int, share: int) -> View:
        axis = self.axis

        def view(tensor: Tensor) -> Tensor:
            upright = _transpose(tensor) if self.transposed else tensor
            return upright.unflatten(axis, (groups, width)).narrow(axis + 1, start, share)

        return view

    def _in_part(self, groups: int, share: int) -> View:
        return lambda tensor: tensor.unflatten(self.axis, (groups, share))


@dataclass(frozen=True)
class Split(Rule):
    """Maps several tensors to one parameter that has their rows below each other.

    A checkpoint may divide the rows in any way, see ``CheckpointPlan.divided_as``. Without one they
    are divided evenly, as transformers saves them, the last tensor getting what is left.
    """

    when: str | None = None

    def bind(
        self, layer: int | None, names: Sequence[str], shapes: Sequence[Shape], args: Any
    ) -> Iterator[HubTensor]:
        hubs = [_at(hub, layer) for hub in self.hubs]
        rows = shapes[0][0]
        share = -(-rows // len(hubs))
        counts = [min(share, max(rows - share * place, 0)) for place in range(len(hubs))]
        yield from row_tensors(hubs, counts, names[0], shapes[0])


def row_tensors(
    hubs: Sequence[str], counts: Sequence[int], parameter: str, shape: Shape
) -> Iterator[HubTensor]:
    """Yield tensors on the Hub that each have some rows of a parameter, one behind the other.

    Args:
        hubs: Their names.
        counts: Rows of each.
        parameter: Its name.
        shape: Of the parameter.
    """
    start = 0
    for hub, count in zip(hubs, counts, strict=True):
        piece = Piece(parameter, _same, _same, is_same=True, rows=(start, start + count))
        yield HubTensor(hub, (count, *shape[1:]), (piece,))
        start += count


@dataclass(frozen=True)
class Flattened(Rule):
    """Maps a matrix [experts * rows, columns] to a parameter [experts, rows, columns].

    Args:
        transposed: The parameter is [experts, columns, rows] instead.
    """

    transposed: bool = False
    when: str | None = None

    def _layout(self, shapes: Sequence[Shape], layer: int | None, args: Any) -> Layout:
        experts, rows, columns = _swapped(shapes[0]) if self.transposed else shapes[0]

        def hub_view(tensor: Tensor) -> Tensor:
            return tensor.unflatten(0, (experts, rows))

        return Layout((experts * rows, columns), ((hub_view, self._part_view()),))

    def _part_view(self) -> View:
        return _transpose if self.transposed else _same


@dataclass(frozen=True)
class Reordered(Rule):
    """Maps a tensor whose rows are the parameter's in another order.

    Args:
        shape: What the rows on the Hub are, from the outermost: numbers or fields of the arguments.
        order: The same axes in the order in which the parameter has them.
    """

    shape: tuple[int | str, ...] = ()
    order: tuple[int, ...] = ()
    when: str | None = None

    def _layout(self, shapes: Sequence[Shape], layer: int | None, args: Any) -> Layout:
        sizes = [size_of(size, args, layer) for size in self.shape]
        in_part = [sizes[axis] for axis in self.order]
        rest = [len(sizes) + axis for axis in range(len(shapes[0]) - 1)]

        def hub_view(tensor: Tensor) -> Tensor:
            return tensor.unflatten(0, sizes).permute(*self.order, *rest)

        return Layout(shapes[0], ((hub_view, lambda tensor: tensor.unflatten(0, in_part)),))


@dataclass(frozen=True)
class Unused(Rule):
    """Tensors of experts that compute nothing, which a checkpoint has all the same.

    They are the last ones, after those of the parameter. Loading does not need them, saving writes
    zeros.

    Args:
        archon: The parameter of the experts before them, then one with an entry for every expert.
    """

    when: str | None = None

    def bind(
        self, layer: int | None, names: Sequence[str], shapes: Sequence[Shape], args: Any
    ) -> Iterator[HubTensor]:
        hub = _at(self.hubs[0], layer)
        for index in range(shapes[0][0], shapes[1][0]):
            name = hub.replace(EXPERT, str(index))
            yield HubTensor(name, shapes[0][1:], (), beside=names[0])


@dataclass(frozen=True)
class Ignored:
    """Tensors on the Hub that no parameter needs, such as buffers that are computed again."""

    hub: str
    when: str | None = None


@dataclass(frozen=True)
class Tied:
    """A tensor that need not be on the Hub because another one is the same.

    Args:
        hub: The tensor that is left out.
        source: The one in place of both.
    """

    hub: str
    source: str
    when: str | None = "enable_weight_tying"


AnyRule = Rule | Ignored | Tied
