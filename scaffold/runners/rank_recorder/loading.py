"""Patch modules right after the program has imported them, and import none itself."""

import importlib
import sys

from rank_recorder import record


def watch_imports():
    """Patch what is imported already, and the rest once it is."""
    sys.meta_path.insert(0, _Watch())
    for name in PATCHES:
        if name in sys.modules:
            _patch(name, sys.modules[name])


class _Watch:
    """A finder that finds nothing itself: it listens to the loaders of others."""

    def find_spec(self, name, path=None, target=None):
        """Return the spec that the other finders have for a module that is to be patched."""
        if name not in PATCHES:
            return None  # the common case costs one look-up
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            spec = None if finder is self or find is None else find(name, path, target)
            if spec is not None:
                _listen(name, spec.loader)
                return spec
        return None


def _listen(name, loader):
    """Patch the module behind its own loader, which stays what inspection finds."""
    execute = getattr(loader, "exec_module", None)
    if execute is None:
        return

    def exec_module(module):
        execute(module)
        _patch(name, module)

    try:
        loader.exec_module = exec_module
    except AttributeError as error:  # a loader that takes no attributes
        record.fault(name, error)


def _patch(name, module):
    try:
        for patch in PATCHES[name]:
            place, _, function = patch.partition(".")
            getattr(importlib.import_module(f"rank_recorder.{place}"), function)(module)
    except Exception as error:
        record.fault(name, error)


# Module of the program -> functions of the recorder that patch it. Their modules are imported with
# it: this runs in every Python of a job, and most of them never import torch.
PATCHES = {
    "torch.distributed.distributed_c10d": ("collectives.patch", "setting_up.patch"),
    "torch.distributed._functional_collectives": ("functional.patch",),
    "subprocess": ("ends.watch_children",),
    "multiprocessing.process": ("ends.watch_spawned",),
    "torch.multiprocessing.spawn": ("ends.watch_spawned",),
    "torch.nn.modules.module": ("watching_modules.patch",),
    "torch.optim.optimizer": ("watching_modules.patch_optimizers",),
}
