"""What becomes of a run whose agents end or are lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from areal.api.cli_args import SchedulingSpec
from areal.infra.cluster_launch import ClusterLauncher
from areal.infra.launch import LaunchPlan
from areal.infra.managed_process import Process


class _Agent(Process):
    """Ends as it is told to, one answer a question."""

    def __init__(self, *codes: int | None) -> None:
        super().__init__("ranks-0", None)
        self.codes = list(codes)

    def start(self) -> None:
        self._note_start()

    def exit_code(self) -> int | None:
        return self.codes.pop(0) if self.codes else None

    def terminate(self) -> None: ...

    def signal(self, number: int) -> None: ...

    def stop(self, grace_s: float = 10.0) -> None: ...


def launcher(folder: Path, *agents: _Agent) -> ClusterLauncher:
    def nothing() -> Any:
        raise AssertionError("nothing is started by a scheduler here")

    made = ClusterLauncher(
        LaunchPlan([], ["true"], 1, 3, folder), nothing, SchedulingSpec(), SchedulingSpec(), "s"
    )
    for agent in agents:
        agent.start()
    made.agents = list(agents)
    return made


def test_an_agent_that_is_lost_between_two_looks_is_started_again(tmp_path: Path) -> None:
    lost, other = _Agent(None, -9), _Agent()
    launched = launcher(tmp_path, lost, other)
    assert [launched._exit_code() for _ in range(3)] == [None, None, None]
    assert (lost.num_starts, other.num_starts) == (2, 1)


@pytest.mark.parametrize(("codes", "expected"), [((1, None), 1), ((0, 0), 0), ((0, None), None)])
def test_a_run_ends_with_the_first_failure_or_all_its_agents(
    tmp_path: Path, codes: tuple[int | None, int | None], expected: int | None
) -> None:
    launched = launcher(tmp_path, *(_Agent(code) for code in codes))
    assert launched._exit_code() == expected
