"""One seed for everything that draws."""

from __future__ import annotations

import hashlib
import random

import numpy as np
import torch

_current_seed: int | None = None


def derive_seed(seed: int, key: str = "") -> int:
    """Return the seed of one named stream, in [0, 2**32): other keys, unrelated streams.

    The empty key gives the seed itself, modulo 2**32. The result is the same in every process,
    which ``hash`` is not.
    """
    if not key:
        return seed % 2**32
    digest = hashlib.sha256(f"{seed}/{key}".encode()).digest()
    return int.from_bytes(digest[:4], "little")


def set_random_seed(seed: int, key: str = "") -> None:
    """Seed Python, NumPy and PyTorch on all devices.

    Args:
        seed: Of the run.
        key: What distinguishes this process from others of the run, such as "trainer0".
    """
    global _current_seed
    _current_seed = derive_seed(seed, key)
    random.seed(_current_seed)
    np.random.seed(_current_seed)
    torch.manual_seed(_current_seed)


def get_seed() -> int:
    """Return the seed that was set last.

    Raises:
        RuntimeError: None was set.
    """
    if _current_seed is None:
        raise RuntimeError("no random seed was set; call set_random_seed")
    return _current_seed
