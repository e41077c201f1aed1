"""Watch the modules of a model, where the job was started with --checksums or --memory."""

import json
import os

from rank_recorder import checksums, memory, record, uncompiled

OPTIONS = "SCAFFOLD_DEBUG_OPTIONS"


def _watchers():
    options = json.loads(os.environ.get(OPTIONS) or "{}")
    found = []
    if options.get("checksums"):
        found.append(checksums.watcher(options.get("steps", 1)))
    if options.get("memory"):
        found.append(memory.watcher(options.get("steps", 1)))
    return found


def patch(module):
    """Report each call of a module to the watchers; without one nothing is hooked."""
    watchers = _watchers()
    if not watchers:
        return

    def before(called, args):
        _tell(watchers, "before", called)

    def after(called, args, output):
        _tell(watchers, "after", called, output)

    # A compiler would trace the hooks once, and record nothing when the model runs.
    uncompiled.keep_off(before, after)
    module.register_module_forward_pre_hook(before)
    try:
        module.register_module_forward_hook(after, always_call=True)
    except TypeError:  # releases before 2.1
        module.register_module_forward_hook(after)


def patch_optimizers(module):
    """Report each step of an optimizer to the watchers."""
    watchers = _watchers()
    if not watchers:
        return

    def before(optimizer, args, kwargs):
        _tell(watchers, "before_step", optimizer)

    def after(optimizer, args, kwargs):
        _tell(watchers, "after_step", optimizer)

    module.register_optimizer_step_pre_hook(before)
    module.register_optimizer_step_post_hook(after)


def on_error(error):
    """Report the error that ends the process to the watchers."""
    _tell(_watchers(), "on_error", error)


def _tell(watchers, event, *args):
    for each in watchers:
        function = getattr(each, event)
        try:
            function(*args)
        # The job goes on whatever a watcher meets; the fault is in the record.
        except Exception as error:
            record.fault(f"{function.__qualname__}", error)
