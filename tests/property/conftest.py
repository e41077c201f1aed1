"""How many examples Hypothesis tries: few in `make test`, many in `make test-full`."""

from __future__ import annotations

import pytest
from hypothesis import settings

# No deadline: a shared machine may stall for longer than any example takes.
settings.register_profile("reduced", max_examples=60, deadline=None, derandomize=True)
settings.register_profile("full", max_examples=1000, deadline=None)


def pytest_configure(config: pytest.Config) -> None:
    """Chooses the profile; `make test-full` is the run that leaves no mark out."""
    settings.load_profile("reduced" if config.getoption("markexpr") else "full")
