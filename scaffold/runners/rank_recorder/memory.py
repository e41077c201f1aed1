"""Record what memory modules hold: parameters, gradients, optimizer state, saved activations.

What autograd saved is read off the graph that it keeps anyway; no hook of it is set.
"""

import functools
import json
import os
import re
import resource
import sys

from rank_recorder import naming, phases, record

# What CUDA, the CPU allocator and the system call a lack of memory.
SCARCE = re.compile(r"out of memory|not enough memory|can't allocate memory|cannot allocate", re.I)
# A bound for the time that one walk over the graph takes.
MAX_NODES = 200_000
BETWEEN = "between passes"


@functools.cache
def watcher(steps):
    """Return the one watcher of this process."""
    return Memory(steps)


class Memory:
    """A recorder of ``<pid>.memory.json``, after each forward pass and step and at the end.

    Args:
        steps: After how many steps of an optimizer it looks no more at what modules save.
    """

    def __init__(self, steps):
        self._steps = steps
        self._step = 0
        self._names = naming.Names()
        self._saved = {}
        self._seen = set()
        self._storages = set()
        self._optimizers = []
        self._failed_in = ""
        self._phases = phases.Phases()

    def before(self, module):
        """Enter a module, and count again where it is the outermost."""
        is_outermost = not self._names.current
        self._names.enter(module)
        if is_outermost and not _recomputes():
            self._phases.enter(f"forward of {self._names.current}{_graded()}")
        if is_outermost and self._step < self._steps:
            self._saved, self._seen, self._failed_in = {}, set(), ""
            # What holds parameters is not saved for them alone.
            roots = [root for _, root in self._names.models()]
            self._storages = {_storage(each) for root in roots for each in root.parameters()}

    def after(self, module, output):
        """Count what autograd saved for a module, apart from what its inner ones saved."""
        if sys.exc_info()[1] is not None:
            self._failed_in = self._failed_in or self._names.of(module)
        name = self._names.of(module)
        if self._step < self._steps:
            self._saved[name] = self._saved.get(name, 0) + self._newly_saved(output)
        if not self._names.leave(module):
            return
        if not _recomputes():
            self._phases.enter("loss and backward" if not _graded() else BETWEEN)
        if self._step < self._steps:
            self._seen = set()  # they keep the graph alive
            self._write("a forward pass ended")

    def before_step(self, optimizer):
        """Look while gradients are there."""
        self._phases.enter("optimizer step")
        if self._step < self._steps:
            self._write("an optimizer begins its step")

    def after_step(self, optimizer):
        """Look once the optimizer has its state."""
        self._phases.enter(BETWEEN)
        if optimizer not in self._optimizers:
            self._optimizers.append(optimizer)
        if self._step < self._steps:
            self._write("an optimizer ended its step")
        self._step += 1

    def on_error(self, error):
        """Look a last time, where the error is a lack of memory."""
        name = type(error).__name__
        if name in ("OutOfMemoryError", "MemoryError") or SCARCE.search(str(error)):
            where = self._failed_in or self._names.current
            self._phases.close()
            self._write(f"out of memory{' in ' + where if where else ''}")

    def _newly_saved(self, output):
        # Inner modules end first, so what they saved has been seen when an outer one ends.
        total = 0
        nodes = [tensor.grad_fn for _, tensor in naming.tensors_in(output)]
        while nodes and len(self._seen) < MAX_NODES:
            node = nodes.pop()
            if node is None or node in self._seen:
                continue
            self._seen.add(node)
            total += sum(self._new_bytes(each) for each in _saved_by(node))
            nodes.extend(following for following, _ in node.next_functions)
        return total

    def _new_bytes(self, tensor):
        # Views share a storage, which counts once.
        key = _storage(tensor)
        if key is None or key in self._storages:
            return 0
        self._storages.add(key)
        return naming.local_of(tensor).untyped_storage().nbytes()

    def _write(self, moment):
        rec = record.current()
        found = {
            "moment": moment,
            "step": self._step,
            "modules": self._modules(),
            "parameters": self._parameters(),
            "device": _device(),
            "phases": self._phases.to_json(),
        }
        path = os.path.join(record.folder(), f"{rec.pid}.memory.json")
        with open(path + ".part", "w", encoding="utf-8") as file:
            json.dump(found, file)
        # Renamed once it is whole: the process may be killed for lack of memory meanwhile.
        os.replace(path + ".part", path)

    def _modules(self):
        rows = {}
        for _, root in self._names.models():
            for module in root.modules():
                own = list(module.parameters(recurse=False))
                # Adam keeps two tensors for each parameter; numbers beside them take no room.
                states = [o.state.get(each, {}) for o in self._optimizers for each in own]
                values = [value for state in states for value in state.values()]
                kept = [value for value in values if hasattr(value, "element_size")]
                row = {
                    "parameters": sum(_bytes(each) for each in own),
                    "gradients": sum(_bytes(each.grad) for each in own if each.grad is not None),
                    "optimizer": sum(_bytes(each) for each in kept),
                    "saved": self._saved.get(self._names.of(module), 0),
                }
                if any(row.values()):
                    rows[self._names.of(module)] = row
        return rows

    def _parameters(self):
        found = {}
        for label, root in self._names.models():
            for name, parameter in root.named_parameters():
                placements = [str(each) for each in getattr(parameter, "placements", ())]
                found[naming.full_name(label, name, root)] = {
                    "held": _bytes(parameter),
                    "whole": parameter.numel() * parameter.element_size(),
                    "placements": placements,
                }
        return found


def _recomputes():
    """Return whether autograd runs a forward pass again, as checkpointing lets it."""
    import torch

    return torch._C._current_graph_task_id() != -1


def _graded():
    import torch

    return "" if torch.is_grad_enabled() else " without gradients"


@functools.cache
def _attributes(kind):
    return [name for name in dir(kind) if name.startswith("_saved_")]


def _saved_by(node):
    """Yield the tensors that a node of the graph keeps for the backward pass."""
    for name in (*_attributes(type(node)), "saved_tensors"):
        try:
            saved = getattr(node, name, None)
        except RuntimeError:  # freed already, or changed in place
            continue
        for _, tensor in naming.tensors_in(saved):
            yield tensor


def _bytes(tensor):
    local = naming.local_of(tensor)
    return local.numel() * local.element_size()


def _storage(tensor):
    try:
        return naming.local_of(tensor).untyped_storage().data_ptr() or None
    except Exception:
        return None


def _device():
    import torch

    # Linux counts it in KiB.
    found = {"resident_peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}
    if sys.platform == "darwin":
        found["resident_peak"] //= 1024  # there it is counted in bytes
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        found["cuda"] = {
            "device": torch.cuda.get_device_name(),
            "allocated": torch.cuda.memory_allocated(),
            "allocated_peak": torch.cuda.max_memory_allocated(),
            "reserved": torch.cuda.memory_reserved(),
            "total": torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory,
        }
    return found
