"""A decode step as straight-line code: the tensor calls of a model's forward pass and no modules.

A small model spends most of a decode step between its tensor calls: modules call modules, and masks
are made that nobody reads. The calls themselves are the same at every step. They are recorded once,
at two numbers of rows, so that sizes which follow from the number of rows are known as such; what
the logits do not need is dropped; the rest is compiled to one Python function. It reads the
parameters where they are, so an update changes what it computes and nothing is copied.

Shape letters: R rows, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode, handle_torch_function, has_torch_function

from areal.engine.local.slots import DecodePlan, PrefillPlan, SlotCache
from areal.engine.model.attention import AttentionPlan
from areal.engine.model.causal_lm import CausalLM
from areal.engine.model.cpu_kernels import matmul_transposed

# A size that is k * R + c in both recordings is taken for that, and the proof tries other rows.
_RECORDED_ROWS = (5, 7)
_PROVEN_ROWS = (1, 12)
# Share of the logits' norm that may differ: the calls are the same, their grouping is not.
_TOLERANCE_FP32 = 1e-5
_TOLERANCE_16_BIT = 1e-2


class NotStraightError(Exception):
    """A forward pass cannot be written as straight-line code; the message is the reason."""


class TokenStep:
    """Computes the next logits of every row from its last token.

    Args:
        lm: The model.

    Raises:
        NotStraightError: Its forward pass depends on values of tensors, or on the number of rows
            otherwise than in sizes, or the code computes something else than the model.
    """

    def __init__(self, lm: CausalLM) -> None:
        self._lm = lm
        self._state = self._fingerprint()
        if any(map(_num_hooks, lm.module.modules())):
            raise NotStraightError("the code would not call the hooks of its modules")
        try:
            with torch.inference_mode(False), torch.no_grad():
                first, second = (_record(lm, rows) for rows in _RECORDED_ROWS)
                self._run = _compile(_merge_products(_unify_calls(first, second)))
                self._prove()
        # The code of any model runs here in a way that its author has not thought of.
        except Exception as error:
            if isinstance(error, NotStraightError):
                raise
            raise NotStraightError(f"{type(error).__name__}: {error}") from error

    def logits(self, tokens_R: Tensor, positions_R: Tensor, plan: AttentionPlan) -> Tensor:
        """Return the logits [R, V] that follow the last token of each row.

        Args:
            tokens_R: Ids, int64.
            positions_R: Of each token in its sequence.
            plan: Attends to what the rows have cached, and caches the tokens.
        """
        logits: Tensor = self._run(plan, tokens_R, positions_R)
        return logits

    def is_current(self) -> bool:
        """Return whether the model has the modules, hooks and parameters that were recorded."""
        return self._state == self._fingerprint()

    def _fingerprint(self) -> list[tuple[int, int]]:
        module = self._lm.module
        parts = [(id(each), _num_hooks(each)) for each in module.modules()]
        return parts + [(id(each), each.data_ptr()) for each in module.parameters()]

    def _prove(self) -> None:
        """Compare the code with the model on numbers of rows that were not recorded."""
        for num_rows in _PROVEN_ROWS:
            trials = [_Trial(self._lm, num_rows) for _ in range(2)]
            own = trials[0].run(self._lm)
            found = self.logits(trials[1].tokens_R, trials[1].positions_R, trials[1].plan)
            tolerance = _TOLERANCE_FP32 if own.dtype == torch.float32 else _TOLERANCE_16_BIT
            pairs = [(own, found), (trials[0].cache.data, trials[1].cache.data)]
            for ours, theirs in pairs:
                assert ours is not None
                assert theirs is not None
                if not (ours - theirs).norm() <= tolerance * ours.norm():
                    raise NotStraightError(f"its code computes something else for {num_rows} rows")


def _num_hooks(module: nn.Module) -> int:
    return len(module._forward_hooks) + len(module._forward_pre_hooks)


class _Trial:
    """Rows of a few cached tokens, and the token that each goes on with.

    Args:
        lm: Fills the cache.
        num_rows: How many.
    """

    def __init__(self, lm: CausalLM, num_rows: int) -> None:
        random = torch.Generator().manual_seed(num_rows)
        lengths = [2 + row % 3 for row in range(num_rows)]
        ids = torch.randint(lm.num_embeddings, (sum(lengths) + num_rows,), generator=random)
        ids = ids.to(lm.device)
        self.cache = SlotCache(lm.num_layers, lm.device)
        positions = torch.cat([torch.arange(length) for length in lengths]).to(lm.device)
        prefill = PrefillPlan(self.cache, lengths, range(num_rows), 0)
        lm.logits(ids[num_rows:], positions, lengths, prefill)
        self.cache.reserve(num_rows, max(lengths) + 1)
        self.tokens_R = ids[:num_rows]
        self.positions_R = torch.tensor(lengths, device=lm.device)
        self.plan = DecodePlan(self.cache, self.positions_R)

    def run(self, lm: CausalLM, plan: AttentionPlan | None = None) -> Tensor:
        """Return the logits [R, V] by the model's own forward pass."""
        ones = [1] * len(self.tokens_R)
        return lm.logits(self.tokens_R, self.positions_R, ones, plan or self.plan)


# --- recording


class _Var(NamedTuple):
    """The tensor that an earlier call returned, or an input, by its number."""

    number: int


class _Rows(NamedTuple):
    """The integer ``factor * R + offset``."""

    factor: int
    offset: int


@dataclass
class _Call:
    """One call.

    Args:
        function: What is called.
        args: Positional arguments, with a ``_Var`` in place of what was computed.
        kwargs: Keyword arguments, the same way.
        results: The tensors that it returns, in order.
        is_sequence: Whether it returns them in a tuple or list.
        is_kept: Whether it writes into an argument or a cache, and so is needed whoever reads it.
    """

    function: Callable[..., Any]
    args: Any
    kwargs: dict[str, Any]
    results: list[_Var]
    is_sequence: bool
    is_kept: bool


def _attend(plan: AttentionPlan, *args: Any) -> Tensor:
    if has_torch_function(args):
        return handle_torch_function(_attend, args, plan, *args)
    return plan.attend(*args)


class _RecordedPlan:
    """Makes the attention of a layer one call, whatever a plan does there."""

    def __init__(self, plan: AttentionPlan) -> None:
        self._plan = plan

    def attend(self, *args: Any) -> Tensor:
        return _attend(self._plan, *args)


class _Recorder(TorchFunctionMode):
    def __init__(self, inputs: Sequence[Tensor]) -> None:
        super().__init__()
        self.calls: list[_Call] = []
        # With the tensors, as the identity of one that is gone may come again.
        self._vars: dict[int, tuple[_Var, Tensor]] = {}
        self._num_vars = 0
        for each in inputs:
            self.new(each)

    def new(self, tensor: Tensor) -> _Var:
        """Name a tensor."""
        var = _Var(self._num_vars)
        self._num_vars += 1
        self._vars[id(tensor)] = (var, tensor)
        return var

    def name(self, value: Any) -> Any:
        """Return the name of a tensor that was computed; anything else is a constant."""
        return self._vars[id(value)][0] if id(value) in self._vars else value

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        taken = [each for each in _leaves((args, kwargs)) if isinstance(each, Tensor)]
        versions = _versions(taken)
        result = func(*args, **kwargs)
        is_sequence = isinstance(result, tuple | list)
        returned = list(result) if is_sequence else [result]
        is_kept = func is _attend or versions != _versions(taken)
        if func is _attend:
            args = args[1:]  # Every step has a plan of its own.
        if returned and all(isinstance(each, Tensor) for each in returned):
            named = _mapped((args, kwargs), self.name)
            results = [self.new(each) for each in returned]
            self.calls.append(_Call(func, *named, results, is_sequence, is_kept))
        elif is_kept:
            named = _mapped((args, kwargs), self.name)
            self.calls.append(_Call(func, *named, [], False, is_kept))
        else:
            _check_shape_only(func, args, kwargs, result)
        return result


def _versions(tensors: Sequence[Tensor]) -> list[int]:
    """Return numbers that grow when a tensor is written to, where it has one."""
    return [0 if each.is_inference() else each._version for each in tensors]


def _check_shape_only(func: Any, args: Any, kwargs: dict[str, Any], result: Any) -> None:
    """Refuse a number that follows from the values of tensors, as the code would keep it.

    It would be another one of tensors of the same shape that are all zeros, or all ones.
    """
    for value in (0, 1):

        def other(each: Any, value: int = value) -> Any:
            if not isinstance(each, Tensor):
                return each
            filled = torch.full_like(each, value)
            return filled.requires_grad_() if each.requires_grad else filled

        same_shape = _mapped((args, kwargs), other)
        try:
            found = func(*same_shape[0], **same_shape[1])
        except RuntimeError as error:
            raise NotStraightError(f"{_name(func)} reads values of tensors") from error
        if type(found) is not type(result) or found != result:
            raise NotStraightError(f"{_name(func)} reads values of tensors")


def _record(lm: CausalLM, num_rows: int) -> list[_Call]:
    """Return the calls that the logits [R, V] of a decode step need."""
    trial = _Trial(lm, num_rows)
    recorder = _Recorder([trial.tokens_R, trial.positions_R])
    with recorder:
        logits = trial.run(lm, _RecordedPlan(trial.plan))
    wanted = {recorder.name(logits)}
    needed: list[_Call] = []
    for call in reversed(recorder.calls):
        if call.is_kept or wanted & set(call.results):
            needed.append(call)
            wanted |= _used(call)
    # The last call returns the logits, so that the code knows what to return.
    needed.reverse()
    if recorder.name(logits) not in needed[-1].results[:1] or needed[-1].is_sequence:
        raise NotStraightError("the logits are not the result of its last call")
    return needed


def _used(call: _Call) -> set[_Var]:
    return {each for each in _leaves((call.args, call.kwargs)) if isinstance(each, _Var)}


def _name(func: Any) -> str:
    return getattr(func, "__name__", str(func))


# --- nested arguments

_LEAVES = (_Var, _Rows)


def _mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return nested arguments with every leaf changed."""
    if isinstance(value, _LEAVES):
        return change(value)
    if isinstance(value, tuple | list):
        parts = [_mapped(each, change) for each in value]
        return parts if isinstance(value, list) else tuple(parts)
    if isinstance(value, dict):
        return {key: _mapped(each, change) for key, each in value.items()}
    if isinstance(value, slice):
        return slice(*(_mapped(each, change) for each in (value.start, value.stop, value.step)))
    return change(value)


def _leaves(value: Any) -> Iterator[Any]:
    found: list[Any] = []
    _mapped(value, found.append)
    return iter(found)


# --- two recordings as one


def _unify_calls(first: Sequence[_Call], second: Sequence[_Call]) -> list[_Call]:
    """Return the calls of both with the sizes that follow from the number of rows.

    Raises:
        NotStraightError: They differ in more than that.
    """
    if [each.function for each in first] != [each.function for each in second]:
        raise NotStraightError("it makes other calls for another number of rows")
    numbers: dict[_Var, _Var] = {_Var(0): _Var(0), _Var(1): _Var(1)}
    unified = []
    for a, b in zip(first, second, strict=True):
        args, kwargs = _unify((a.args, a.kwargs), (b.args, b.kwargs), numbers)
        if len(a.results) != len(b.results):
            raise NotStraightError(f"{_name(a.function)} returns a tensor for each row")
        numbers.update(zip(b.results, a.results, strict=True))
        unified.append(_Call(a.function, args, kwargs, a.results, a.is_sequence, a.is_kept))
    return unified


def _unify(a: Any, b: Any, numbers: dict[_Var, _Var]) -> Any:
    if isinstance(a, _Var):
        if isinstance(b, _Var) and numbers[b] == a:
            return a
    elif isinstance(a, tuple | list) and isinstance(b, tuple | list):
        if len(a) == len(b):
            parts = [_unify(x, y, numbers) for x, y in zip(a, b, strict=True)]
            return parts if isinstance(a, list) else tuple(parts)
    elif isinstance(a, dict) and isinstance(b, dict):
        if a.keys() == b.keys():
            return {key: _unify(each, b[key], numbers) for key, each in a.items()}
    elif isinstance(a, slice) and isinstance(b, slice):
        ends = zip((a.start, a.stop, a.step), (b.start, b.stop, b.step), strict=True)
        return slice(*(_unify(x, y, numbers) for x, y in ends))
    elif a is b or (not isinstance(a, Tensor) and type(a) is type(b) and a == b):
        return a
    elif type(a) is int and type(b) is int:
        few, many = _RECORDED_ROWS
        factor, rest = divmod(b - a, many - few)
        if not rest:
            return _Rows(factor, a - factor * few)
    raise NotStraightError("an argument changes with the number of rows")


# --- products of one input


def _split_product(x: Tensor, block: Tensor, sizes: list[int]) -> Sequence[Tensor]:
    return matmul_transposed(x, block).split(sizes, -1)


def _merge_products(calls: Sequence[_Call]) -> list[_Call]:
    """Return the calls with one product for the weights that lie in one block of memory."""
    written = {var for call in calls if call.is_kept for var in _used(call)}
    groups: dict[_Var, list[_Call]] = {}
    for call in calls:
        if call.function is matmul_transposed and call.args[2:] in ((), (None,)):
            x, weight = call.args[:2]
            if isinstance(x, _Var) and isinstance(weight, Tensor) and x not in written:
                groups.setdefault(x, []).append(call)
    replaced: dict[int, _Call | None] = {}
    for x, group in groups.items():
        weights = [call.args[1] for call in group]
        if len(group) > 1 and all(map(_is_followed_by, weights, weights[1:])):
            size = (sum(len(each) for each in weights), weights[0].shape[1])
            block = weights[0].detach().as_strided(size, weights[0].stride())
            sizes = [len(each) for each in weights]
            results = [call.results[0] for call in group]
            replaced.update({id(call): None for call in group})
            merged = _Call(_split_product, (x, block, sizes), {}, results, True, False)
            replaced[id(group[0])] = merged
    found = (replaced.get(id(call), call) for call in calls)
    return [call for call in found if call is not None]


def _is_followed_by(weight: Tensor, other: Tensor) -> bool:
    """Return whether another weight's rows lie behind a weight's in one block of memory."""
    is_one_block = (
        weight.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()
        and weight.is_contiguous()
        and other.is_contiguous()
        and weight.shape[1:] == other.shape[1:]
    )
    return is_one_block and weight.data_ptr() + weight.nbytes == other.data_ptr()


# --- the code


def _compile(calls: Sequence[_Call]) -> Callable[..., Any]:
    """Return a function of the plan, tokens [R] and positions [R]."""
    code = _Code()
    lines = ["def run(plan, v0, v1):", "    num_rows = len(v0)"]
    last_use = {var: i for i, call in enumerate(calls) for var in (*call.results, *_used(call))}
    for i, call in enumerate(calls):
        result = ", ".join(map(code.text, call.results))
        if result:
            result += ", = " if call.is_sequence and len(call.results) == 1 else " = "
        lines.append(f"    {result}{code.call(call)}")
        gone = [var for var, last in last_use.items() if last == i]
        if gone and i < len(calls) - 1:
            lines.append(f"    del {', '.join(map(code.text, gone))}")
    lines.append(f"    return {code.text(calls[-1].results[0])}")
    exec(compile("\n".join(lines), "<token step>", "exec"), code.names)
    return code.names["run"]


class _Code:
    """Write calls as Python.

    Attributes:
        names: The functions and constants that the code refers to.
    """

    def __init__(self) -> None:
        self.names: dict[str, Any] = {}
        self._known: dict[int, str] = {}

    def call(self, call: _Call) -> str:
        """Return a call as an expression."""
        function, args = call.function, call.args
        if function is _attend:
            written = "plan.attend"
        elif function is Tensor.__getitem__:
            return f"{self.text(args[0])}[{self.text(args[1])}]"
        elif getattr(Tensor, _name(function), None) is function:
            written = f"{self.text(args[0])}.{_name(function)}"
            args = args[1:]
        else:
            written = self._constant(function)
        parts = [self.text(each) for each in args]
        parts += [f"{key}={self.text(each)}" for key, each in call.kwargs.items()]
        return f"{written}({', '.join(parts)})"

    def text(self, value: Any) -> str:
        """Return an argument as an expression."""
        if isinstance(value, _Var):
            return f"v{value.number}"
        if isinstance(value, _Rows):
            return f"{value.factor} * num_rows + {value.offset}"
        if isinstance(value, tuple | list):
            inner = "".join(f"{self.text(each)}, " for each in value)
            return f"[{inner}]" if isinstance(value, list) else f"({inner})"
        if isinstance(value, slice):
            ends = (value.start, value.stop, value.step)
            return f"slice({', '.join(map(self.text, ends))})"
        if value is None or type(value) in (bool, int, str):
            return repr(value)
        return self._constant(value)

    def _constant(self, value: Any) -> str:
        name = self._known.setdefault(id(value), f"c{len(self._known)}")
        self.names[name] = value
        return name
