"""Options of the test run."""

from __future__ import annotations

import gc
import signal

import pytest


def pytest_configure() -> None:
    # Tests and what they import stay until the end; looking at all of it again and again took a
    # tenth of the run.
    gc.set_threshold(20_000, 20, 20)
    # A shell makes what it starts in the background ignore Ctrl-C, and so would all that is tested.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="Write what is rendered now to tests/golden/trees; read the diff before committing.",
    )
