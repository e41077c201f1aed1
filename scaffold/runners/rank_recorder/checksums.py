"""Record a checksum of what each module returns, of gradients and of parameters.

The checksum of a tensor is a sum over its elements, each weighted by its place in the whole tensor,
so the checksums of a DTensor's shards add up to that of the whole, and nothing is communicated.
"""

import functools
import math

from rank_recorder import naming, record

# Rows of one process; values of a tensor that are kept; elements that are summed at once.
MAX_ROWS = 200_000
SAMPLES = 8
CHUNK = 1 << 22


@functools.cache
def watcher(steps):
    """Return the one watcher of this process."""
    return Checksums(steps)


class Checksums:
    """A recorder of each tensor, a row of ``<pid>.sums.jsonl`` in the order of execution.

    Args:
        steps: After how many steps of an optimizer it stops.
    """

    def __init__(self, steps):
        self._steps = steps
        self._step = 0
        self._rows = 0
        self._names = naming.Names()
        self._counts = {}

    def before(self, module):
        """Record the parameters of a model that is called for the first time."""
        if self._is_over():
            return
        if self._names.enter(module):
            label = self._names.of(module)
            for name, parameter in module.named_parameters():
                self._write("start", naming.full_name(label, name, module), "", parameter)

    def after(self, module, output):
        """Record what a module returned, and the gradient of that once it is there."""
        if self._is_over():
            return
        name = self._names.of(module)
        for part, tensor in naming.tensors_in(output):
            self._write("forward", name, part, tensor)
            # A leaf is a parameter or an input, whose gradient is read at the optimizer's step.
            if tensor.requires_grad and tensor.grad_fn is not None:
                tensor.register_hook(functools.partial(self._backward, name, part))
        self._names.leave(module)

    def _backward(self, name, part, gradient):
        if not self._is_over():
            try:
                self._write("backward", name, part, gradient)
            except Exception as error:
                record.fault("backward", error)

    def before_step(self, optimizer):
        """Record the gradients that an optimizer is given."""
        self._of_parameters("gradient", optimizer, lambda parameter: parameter.grad)

    def after_step(self, optimizer):
        """Record the parameters that an optimizer has made, and count the step."""
        self._of_parameters("parameter", optimizer, lambda parameter: parameter)
        self._step += 1
        self._counts.clear()

    def on_error(self, error):
        """Ignore the error: checksums are written as they come."""

    def _of_parameters(self, phase, optimizer, tensor_of):
        if self._is_over():
            return
        found = [each for group in optimizer.param_groups for each in group["params"]]
        for at, parameter in enumerate(found):
            tensor = tensor_of(parameter)
            if tensor is not None:
                name = self._names.of_parameter(parameter) or f"parameter {at}"
                self._write(phase, name, "", tensor)

    def _is_over(self):
        return self._step >= self._steps or self._rows >= MAX_ROWS

    def _write(self, phase, name, part, tensor):
        key = (phase, name, part)
        self._counts[key] = self._counts.get(key, 0) + 1
        row = measure(tensor)
        if row is not None:
            self._rows += 1
            record.current().row(
                "sums",
                step=self._step,
                phase=phase,
                name=name,
                part=part,
                n=self._counts[key],
                **row,
            )


def measure(tensor):
    """Return the numbers of a tensor, or None where it has none to look at.

    Returns:
        dtype and shape (of the whole), sum, norm (squared), largest, total, nan, inf, and samples;
        of a DTensor also how it is placed.
    """
    import torch

    with torch.no_grad():
        placed = _placed(tensor)
        local = naming.local_of(tensor.detach())
        if local.is_meta or local.is_sparse or local.is_quantized:
            return None
        # The bits below are those of real numbers.
        if local.is_complex():
            local = torch.view_as_real(local)
        row = {"dtype": str(tensor.dtype)[6:], "shape": list(tensor.shape)}
        row.update(_numbers(local.reshape(-1), placed, tuple(local.shape)))
        if placed is not None:
            row["placed"] = {key: value for key, value in placed.items() if key != "strides"}
        return row


def _placed(tensor):
    """Return where a DTensor's local part lies in the whole; None for a plain tensor."""
    placements = getattr(tensor, "placements", None)
    if placements is None or not hasattr(tensor, "device_mesh"):
        return None
    mesh = tensor.device_mesh
    coordinate = list(mesh.get_coordinate() or [])
    # Of replicated shards one rank counts, or the sum over ranks would count them several times.
    copies = [at for at, each in zip(coordinate, placements, strict=False) if each.is_replicate()]
    found = {
        "placements": [str(each) for each in placements],
        "partial": any(each.is_partial() for each in placements),
        "counts": not any(copies),
        "offset": None,
    }
    try:
        # A private function, which another version of torch may lack: the row then has no offset.
        from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

        _, offset = compute_local_shape_and_global_offset(tensor.shape, mesh, placements)
        found["offset"] = [int(each) for each in offset]
        found["strides"] = _strides(tensor.shape)
    except Exception as error:
        record.fault("offset of a shard", error)
    return found


def _strides(shape):
    strides, total = [], 1
    for size in reversed(tuple(shape)):
        strides.append(total)
        total *= int(size)
    return strides[::-1]


def _numbers(flat, placed, shape):
    import torch

    found = {"sum": 0, "norm": 0.0, "largest": 0.0, "total": 0.0, "nan": 0, "inf": 0}
    # In pieces: int64 and float64 copies of a whole tensor would need several times its memory.
    for start in range(0, flat.numel(), CHUNK):
        chunk = flat[start : start + CHUNK]
        indices = torch.arange(start, start + chunk.numel(), device=flat.device)
        # An odd number below 2**31 for each place; the multiplier is Knuth's for hashing.
        weights = ((_whole(indices, placed, shape) * 2654435761) & 0x7FFFFFFF) | 1
        found["sum"] += int((_bits(chunk) * weights).sum())
        _add(found, chunk)
    # Sums of shards add up to that of the whole only in arithmetic modulo a fixed number.
    found["sum"] = found["sum"] % (1 << 64)
    step = max(1, flat.numel() // SAMPLES)
    samples = flat[::step][:SAMPLES].tolist()
    # JSON has no infinity and no NaN.
    found["samples"] = [
        each if isinstance(each, (bool, int)) or math.isfinite(each) else str(each)
        for each in samples
    ]
    return found


def _add(found, chunk):
    import torch

    values = chunk.to(torch.float64)
    finite = torch.isfinite(values)
    found["nan"] += int(torch.isnan(values).sum())
    found["inf"] += int(torch.isinf(values).sum())
    values = torch.where(finite, values, torch.zeros_like(values))
    found["norm"] += float((values * values).sum())
    found["total"] += float(values.sum())
    if values.numel():
        found["largest"] = max(found["largest"], float(values.abs().max()))


def _bits(chunk):
    """Return the bits of each element as a number; the two zeros are one."""
    import torch

    if chunk.dtype == torch.bool:
        return chunk.to(torch.int64)
    if chunk.is_floating_point():  # -0.0 + 0.0 is 0.0
        chunk = chunk + torch.zeros((), dtype=chunk.dtype, device=chunk.device)
    kinds = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    return chunk.contiguous().view(kinds[chunk.element_size()]).to(torch.int64)


def _whole(indices, placed, shape):
    """Return the places that elements of a shard have in the whole tensor."""
    if placed is None or placed["offset"] is None:
        return indices
    total = indices * 0
    rest = indices
    axes = zip(_strides(shape), placed["offset"], placed["strides"], strict=True)
    for stride, offset, whole in axes:
        total = total + (rest // stride + offset) * whole
        rest = rest % stride
    return total
