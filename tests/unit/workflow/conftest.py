from __future__ import annotations

from collections.abc import Iterator

import pytest

from areal.api.reward_api import REWARD_STATS
from areal.infra import workflow_context
from areal.utils import stats_tracker


@pytest.fixture(autouse=True)
def fresh_statistics() -> Iterator[None]:
    """Starts every test with empty trackers and counters, outside of any episode."""
    for name in ("rollout", "eval-rollout"):
        stats_tracker.get(name).export()
    REWARD_STATS.reset()
    workflow_context.set(workflow_context.WorkflowContext())
    yield
    REWARD_STATS.reset()
