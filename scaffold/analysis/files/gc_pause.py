"""Work that makes many trees and hardly a cycle."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Generator[None]:
    """Lets no search for cycles run meanwhile: among millions of nodes it takes half the time.

    What there is at the end is searched by none after it either, not even the last one, when the
    interpreter ends: a command keeps what it has read as long as it runs.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_on:
            gc.enable()
