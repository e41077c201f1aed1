from __future__ import annotations

import pytest

from areal.api import Job, Scheduler, Worker
from areal.api.cli_args import SchedulingSpec


def test_workers_and_jobs_start_empty() -> None:
    assert Worker("w/0", "127.0.0.1").worker_ports == []
    assert Job().tasks == []
    assert Job().scheduling_strategy.type == "separation"


@pytest.mark.parametrize("num_specs", [0, 1, 3])
def test_a_job_has_one_spec_for_all_or_one_each(num_specs: int) -> None:
    assert len(Job(3, [SchedulingSpec()] * num_specs, role="actor").tasks) == num_specs


def test_a_job_that_cannot_be() -> None:
    with pytest.raises(ValueError, match="3 replicas need one spec for all or one each, found 2"):
        Job(3, [SchedulingSpec()] * 2)
    with pytest.raises(ValueError, match="replicas must not be negative"):
        Job(-1)


def test_a_scheduler_is_an_interface() -> None:
    with pytest.raises(TypeError, match="abstract"):
        Scheduler()  # type: ignore[abstract]
