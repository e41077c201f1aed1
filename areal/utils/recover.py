"""What saves and resumes a run, under the module that AReaL gives it."""

from __future__ import annotations

from areal.api.registry import lazy_exports

# Checkpoints are those of the trainers, which lie above this package.
_HANDLER = "areal.trainer.recover_handler"
__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "InValidRecoverInfo": _HANDLER,
        "RecoverHandler": _HANDLER,
        "RecoverInfo": _HANDLER,
        "check_if_recover": _HANDLER,
    },
)
