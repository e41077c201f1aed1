"""Patches modules right after the program has imported them, and imports none itself."""

import sys

from rank_recorder import record


def watch_imports():
    """Patches what is imported already, and the rest once it is."""
    sys.meta_path.insert(0, _Watch())
    for name in PATCHES:
        if name in sys.modules:
            _patch(name, sys.modules[name])


class _Watch:
    """Is a finder that finds nothing itself: it lends its ear to the loaders of others."""

    def find_spec(self, name, path=None, target=None):
        """Returns the spec that the other finders have for a module that is to be patched."""
        if name not in PATCHES:
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            spec = None if finder is self or find is None else find(name, path, target)
            if spec is not None:
                _listen(name, spec.loader)
                return spec
        return None


def _listen(name, loader):
    """Patches the module behind its own loader, which stays what inspection finds."""
    execute = getattr(loader, "exec_module", None)
    if execute is None:
        return

    def exec_module(module):
        execute(module)
        _patch(name, module)

    try:
        loader.exec_module = exec_module
    except AttributeError as error:
        record.fault(name, error)


def _patch(name, module):
    try:
        PATCHES[name](module)
    except Exception as error:
        record.fault(name, error)


def _collectives(module):
    from rank_recorder import collectives, setting_up

    record.current()
    collectives.patch(module)
    setting_up.patch(module)


def _functional(module):
    from rank_recorder import functional

    functional.patch(module)


def _children(module):
    from rank_recorder import ends

    ends.watch_children(module)


def _spawned(module):
    from rank_recorder import ends

    ends.watch_spawned(module)


def _modules(module):
    from rank_recorder import watching_modules

    watching_modules.patch(module)


def _optimizers(module):
    from rank_recorder import watching_modules

    watching_modules.patch_optimizers(module)


PATCHES = {
    "torch.distributed.distributed_c10d": _collectives,
    "torch.distributed._functional_collectives": _functional,
    "subprocess": _children,
    "multiprocessing.process": _spawned,
    "torch.multiprocessing.spawn": _spawned,
    "torch.nn.modules.module": _modules,
    "torch.optim.optimizer": _optimizers,
}
