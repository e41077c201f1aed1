"""The processes that are looked for ranks."""

from __future__ import annotations

import os

import psutil
import pytest

from scaffold.debug.running_ranks import find_ranks
from scaffold.errors import RequestError


def test_a_process_that_may_not_be_read_is_said_to_be_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # As /proc/PID/environ of a process of the same user in a container without SYS_PTRACE.
    def denied(process: psutil.Process) -> dict[str, str]:
        raise psutil.AccessDenied(process.pid)

    monkeypatch.setattr(psutil.Process, "environ", denied)
    with pytest.raises(RequestError) as caught:
        find_ranks([os.getpid()])
    assert "the environment of process" in caught.value.message
    assert "SYS_PTRACE" in caught.value.hint
