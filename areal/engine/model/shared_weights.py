"""The weights that a train engine and an embedded inference engine share in memory."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from areal.engine.model.causal_lm import CausalLM, HFCausalLM


class SharedWeights:
    """One module, the lock that orders its readers and its writer, and two counters.

    ``version`` is the label that tokens carry; trainers set it after a training step.
    ``num_updates`` counts optimiser steps: cached keys and values of an older count are stale,
    whatever the label.

    Args:
        model: How the engines run it, or a Hugging Face model that
            ``areal.engine.loading.huggingface`` made, loaded or prepared.

    Raises:
        ConfigError: It is another one; its attention would ignore where sequences begin.
    """

    def __init__(self, model: nn.Module | CausalLM) -> None:
        self.lm = model if isinstance(model, CausalLM) else HFCausalLM(model)
        self.version = 0
        self.num_updates = 0
        self._lock = threading.RLock()

    @property
    def module(self) -> nn.Module:
        """The module, which is another one once several processes share its layers."""
        return self.lm.module

    @contextmanager
    def reading(self) -> Iterator[nn.Module]:
        """Keep the weights as they are for the length of one forward call."""
        with self._lock:
            yield self.module

    @contextmanager
    def writing(self) -> Iterator[nn.Module]:
        """Keep readers out while the weights change, and count the change."""
        with self._lock:
            self.num_updates += 1
            yield self.module
