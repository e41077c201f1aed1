"""The device that this process computes on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Platform:
    """A kind of device and what belongs to it.

    Attributes:
        device_type: As in ``torch.device``: "cpu" or "cuda".
        communication_backend: Of ``torch.distributed``.
        device_control_env_var: Which variable lists the devices a process sees; "" for none.
    """

    device_type: str
    communication_backend: str
    device_control_env_var: str = ""

    @property
    def _module(self) -> Any:
        return torch.get_device_module(self.device_type)

    def device_count(self) -> int:
        """Return the number of devices; a CPU counts as one."""
        return int(self._module.device_count())

    def current_device(self) -> int | str:
        """Return the index of the device in use, "cpu" for a CPU."""
        found: int | str = self._module.current_device()
        return found

    def set_device(self, device: int | str | torch.device) -> None:
        """Take another device into use; a CPU needs none."""
        self._module.set_device(device)

    def synchronize(self) -> None:
        """Wait until the device has done what it was given."""
        self._module.synchronize()

    def clear_memory(self) -> None:
        """Give unused cached memory of the device back."""
        if self.device_type != "cpu":
            self._module.empty_cache()


CPU = Platform("cpu", "gloo")
CUDA = Platform("cuda", "nccl", "CUDA_VISIBLE_DEVICES")

current_platform = CUDA if torch.cuda.is_available() else CPU
