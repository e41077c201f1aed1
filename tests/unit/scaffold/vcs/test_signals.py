"""Signals that a command hears while it waits."""

from __future__ import annotations

import os
import signal

import pytest

from scaffold.vcs.signals import Stopped, listening, stoppable


def test_a_stop_behind_the_last_wait_is_none_of_the_next_command() -> None:
    with stoppable():
        os.kill(os.getpid(), signal.SIGTERM)
    with listening():
        pass


def test_a_stop_is_raised_where_the_command_waits() -> None:
    with stoppable():
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(Stopped), listening():
            pass
