"""Record calls of a process group's methods, in which dist.*, FSDP and DTensor end in Python.

Collectives that C++ issues by itself (DDP's reducer, compiled code) pass here as little as they
pass any Python; torch's flight recorder has those, and `answering` asks it.
"""

import functools
import sys
import threading

from rank_recorder import frames, record, uncompiled

# How torch names a method -> how its users name the call. Releases differ in the names they have.
METHODS = {
    "allreduce": "all_reduce",
    "allreduce_coalesced": "all_reduce_coalesced",
    "allgather": "all_gather",
    "allgather_coalesced": "all_gather_coalesced",
    "_allgather_base": "all_gather_into_tensor",
    "all_gather_single": "all_gather_into_tensor",
    "allgather_into_tensor_coalesced": "all_gather_into_tensor_coalesced",
    "all_gather_single_coalesced": "all_gather_into_tensor_coalesced",
    "alltoall": "all_to_all",
    "alltoall_base": "all_to_all_single",
    "all_to_all_single": "all_to_all_single",
    "barrier": "barrier",
    "broadcast": "broadcast",
    "gather": "gather",
    "monitored_barrier": "monitored_barrier",
    "reduce": "reduce",
    "reduce_scatter": "reduce_scatter",
    "_reduce_scatter_base": "reduce_scatter_tensor",
    "reduce_scatter_single": "reduce_scatter_tensor",
    "reduce_scatter_tensor_coalesced": "reduce_scatter_tensor_coalesced",
    "reduce_scatter_single_coalesced": "reduce_scatter_tensor_coalesced",
    "scatter": "scatter",
    "send": "send",
    "recv": "recv",
    "recv_anysource": "recv_anysource",
}
# How calls begin whose output shows what all ranks have to agree on; of the others the input does.
OUTPUT_FIRST = ("all_gather", "all_to_all", "gather")
POINT_TO_POINT = {"send", "recv", "recv_anysource"}
REDUCTIONS = ("SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "PREMUL_SUM")
# Tensors of a call whose shapes are recorded; of more, their number is.
MAX_TENSORS = 8

local = threading.local()
"""`inside` is true while a recorded call runs, whose inner calls are not recorded."""
_state = {"pid": None, "numbers": {}, "groups": {}, "works": {}}


def patch(c10d):
    """Wrap the methods of every process group, and the waiting of works."""
    record.current()  # a process that imports this takes part, and has a record from here on
    kind = c10d.ProcessGroup
    for method, name in METHODS.items():
        original = getattr(kind, method, None)
        if original is not None:
            setattr(kind, method, _wrapped(c10d, original, method, name))
            uncompiled.keep_off(getattr(kind, method))
    work = c10d.Work
    work.wait = _wrapped_wait(work.wait)
    uncompiled.keep_off(work.wait)


def _wrapped(c10d, original, method, name):
    @functools.wraps(original)
    def call(self, *args, **kwargs):
        # Some methods call others of the group; the outer call is the program's.
        if getattr(local, "inside", False):
            return original(self, *args, **kwargs)
        number = begin(c10d, self, method, name, args, kwargs)
        local.inside = True
        try:
            work = recorded(number, "-", original, self, *args, **kwargs)
        finally:
            local.inside = False
        if work is not None:
            remember(work, number)
        return work

    return call


def _wrapped_wait(original):
    @functools.wraps(original)
    def wait(self, *args, **kwargs):
        number = state()["works"].pop(id(self), None)
        if number is None:
            return original(self, *args, **kwargs)
        step("w", number)
        return recorded(number, "W", original, self, *args, **kwargs)

    return wait


def recorded(number, end, original, /, *args, **kwargs):
    """Return what a call returns, and record its end, or the error that it ends with."""
    try:
        result = original(*args, **kwargs)
    except BaseException as error:  # also KeyboardInterrupt
        step("x", number, error=repr(error)[:500])
        raise
    step(end, number)
    return result


def begin(c10d, group, method, name, args, kwargs):
    """Record that a call begins and return its number; 0 where that failed."""
    try:
        rec = record.current()
        number = next(rec.numbers)
        key = group_key(c10d, group)
        peer = [value for value in args[1:] if isinstance(value, int)]
        fields = {"e": "+", "i": number, "g": key, "op": name}
        if method in POINT_TO_POINT:
            fields["peer"] = peer[0] if len(peer) == 2 else kwargs.get("srcRank")
            fields["tag"] = peer[-1] if peer else 0
            way = f"{key} {method == 'send'} {fields['peer']} {fields['tag']}"
            # Point-to-point calls pair by peer and tag, and not by their order in the group.
            fields["k"] = next_number(way)
        else:
            fields["n"] = next_number(key)
        is_output_first = method in METHODS and name.startswith(OUTPUT_FIRST)
        fields["in"] = tensors(args[is_output_first:][:1])
        fields.update(options(list(args) + list(kwargs.values())))
        fields["at"], fields["via"] = frames.place(3)
        return write_begin(rec, fields)
    except Exception as error:
        record.fault(f"{method} is not recorded", error)
        return 0


def write_begin(rec, fields):
    """Record that a call begins, in which thread, and after which error; return its number."""
    thread = threading.current_thread()
    if thread is not threading.main_thread():
        fields["th"] = thread.name
    handled = sys.exc_info()[1]
    if handled is not None:  # a clean-up after an error; that is what to look at first
        fields["exc"] = f"{type(handled).__name__}: {handled}"[:300]
        fields["exc_at"] = frames.raised_at(handled)
    rec.call(fields)
    return fields["i"]


def step(kind, number, **fields):
    """Record a step of a call: - issued, w waiting, W done, x failed."""
    if number and fields:
        record.current().call({"e": kind, "i": number, **fields})
    elif number:
        record.current().step(kind, number)


def remember(work, number):
    """Keep which call a work is of, for as long as it may be waited for."""
    works = state()["works"]
    # By id, so that the work itself is not kept alive.
    works[id(work)] = number
    if len(works) > 10_000:  # works that nobody waits for
        for key in list(works)[:5_000]:
            works.pop(key, None)


def state():
    """Return what is counted in this process; a fork counts again."""
    if _state["pid"] != record.current().pid:
        _state.update(pid=record.current().pid, numbers={}, groups={}, works={}, left=0)
    return _state


def next_number(key):
    """Return how many collectives of a group this one makes."""
    numbers = state()["numbers"]
    numbers[key] = numbers.get(key, 0) + 1
    return numbers[key]


def group_key(c10d, group):
    """Return the name of a group; the first time its ranks are recorded."""
    groups = state()["groups"]
    # A process that has left its groups may come back to others of their names.
    times = state().get("left", 0)
    name = f"{group.group_name}@{times}" if times else group.group_name
    if name not in groups:
        ranks = [int(rank) for rank in c10d._world.pg_group_ranks.get(group, {})]
        groups[name] = bool(ranks)
        if not ranks:  # it is still being made
            del groups[name]
        try:
            backend = str(c10d.get_backend(group))
        except Exception:
            backend = ""
        record.current().head(
            kind="group",
            group=name,
            ranks=ranks,
            description=getattr(group, "group_desc", ""),
            backend=backend,
        )
    return name


def leave_groups():
    """Note that all groups are left: those to come are others."""
    state()["left"] = state().get("left", 0) + 1


def tensors(values):
    """Return [dtype, shape] of the tensors among values, however deep, the first few of them."""
    found = []
    _gather(values, found)
    rows = [[str(each.dtype).replace("torch.", ""), list(each.shape)] for each in found]
    return rows if len(rows) <= MAX_TENSORS else [*rows[:MAX_TENSORS], [str(len(rows)), []]]


def _gather(values, found):
    for value in values:
        if isinstance(value, (list, tuple)):
            _gather(value, found)
        elif hasattr(value, "dtype") and hasattr(value, "shape"):
            found.append(value)


def options(values):
    """Return what else all ranks have to agree on: the root and the reduction."""
    found = {}
    for value in values:
        reduction = getattr(getattr(value, "reduceOp", None), "op", None)
        if reduction is not None:
            found["red"] = getattr(reduction, "name", None) or REDUCTIONS[int(reduction)]
        root = getattr(value, "rootRank", None)
        if isinstance(root, int) and root >= 0:
            found["root"] = root
    return found
