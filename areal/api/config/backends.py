"""What a section's ``backend`` asks for."""

from __future__ import annotations

from typing import Any

from areal.api.alloc_mode import (
    AllocationValidationError,
    InvalidAllocationModeError,
    ModelAllocation,
)
from areal.api.config.check import FieldError


def allocation_of(owner: Any) -> ModelAllocation:
    """Return what the field ``backend`` asks for.

    Raises:
        FieldError: It cannot be read.
    """
    try:
        return ModelAllocation.from_str(owner.backend)
    except (AllocationValidationError, InvalidAllocationModeError) as error:
        raise FieldError(type(owner), "backend", f"cannot be read: {error}") from error
