"""Record functional collectives, which DTensor is built on: they go to C++ past the groups."""

import functools
import inspect
import sys

from rank_recorder import collectives, record, uncompiled

# The function -> how its users name the call. What one release lacks is not there to be patched.
FUNCTIONS = {
    "all_reduce": "all_reduce",
    "all_reduce_coalesced": "all_reduce_coalesced",
    "all_gather_tensor": "all_gather_into_tensor",
    "all_gather_single": "all_gather_into_tensor",
    "all_gather_into_tensor_coalesced": "all_gather_into_tensor_coalesced",
    "all_gather_single_coalesced": "all_gather_into_tensor_coalesced",
    "reduce_scatter_tensor": "reduce_scatter_tensor",
    "reduce_scatter_single": "reduce_scatter_tensor",
    "reduce_scatter_tensor_coalesced": "reduce_scatter_tensor_coalesced",
    "reduce_scatter_single_coalesced": "reduce_scatter_tensor_coalesced",
    "all_to_all_single": "all_to_all_single",
    "broadcast": "broadcast",
}

_pending = {}


def patch(module):
    """Wrap the functions, and the waiting for their results."""
    for function, name in FUNCTIONS.items():
        for each in (function, f"{function}_autograd"):
            original = getattr(module, each, None)
            if original is not None:
                setattr(module, each, _wrapped(module, original, name))
    module.wait_tensor = _wrapped_wait(module.wait_tensor)


def _wrapped(module, original, name):
    signature = inspect.signature(original)

    @functools.wraps(original)
    def call(*args, **kwargs):
        if uncompiled.compiling() or getattr(collectives.local, "inside", False):
            return original(*args, **kwargs)
        number = _begin(module, name, signature, args, kwargs)
        collectives.local.inside = True
        try:
            result = collectives.recorded(number, "-", original, *args, **kwargs)
        finally:
            collectives.local.inside = False
        _remember(result, number)
        return result

    return call


def _begin(module, name, signature, args, kwargs):
    try:
        c10d = sys.modules["torch.distributed.distributed_c10d"]
        given = signature.bind(*args, **kwargs).arguments
        # Torch's own way to find the group: it may be named by ranks, a mesh or its name, too.
        group = c10d._resolve_process_group(
            module._resolve_group_name(given["group"], given.get("tag", ""))
        )
        return collectives.begin(c10d, group, "functional", name, args, {})
    except Exception as error:
        record.fault(f"functional {name} is not recorded", error)
        return 0


def _remember(result, number):
    for each in result if isinstance(result, (list, tuple)) else [result]:
        elem = getattr(each, "elem", each)
        if number and hasattr(elem, "data_ptr"):
            if len(_pending) > 10_000:  # results that nobody waits for
                _pending.clear()
            _pending[_key(elem)] = number


def _key(tensor):
    try:
        return tensor.untyped_storage().data_ptr()
    except Exception:
        return None


def _wrapped_wait(original):
    @functools.wraps(original)
    def wait_tensor(tensor):
        if uncompiled.compiling():
            return original(tensor)
        # By storage: a view or a wrapper of the result may be waited for.
        number = _pending.pop(_key(tensor), 0)
        collectives.step("w", number)
        return collectives.recorded(number, "W", original, tensor)

    return wait_tensor
