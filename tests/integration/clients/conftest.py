"""The real clients, a copy of this repository for them to read, and a new home for each test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.clients.install import clients_folder, why_missing
from tests.integration.clients.kit import (
    ROOT,
    Machine,
    copy_agent_files,
    copy_tracked,
    make_repository,
)


@pytest.fixture(scope="session")
def clients() -> Path:
    """Returns the folder that holds the clients, or skips."""
    reason = why_missing(clients_folder())
    if reason is not None:
        pytest.skip(reason)
    return clients_folder()


@pytest.fixture(scope="session")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a copy of this repository as it is in the work tree; nobody writes to it."""
    return copy_tracked(ROOT, tmp_path_factory.mktemp("pack"))


@pytest.fixture
def own_pack(pack: Path, tmp_path: Path) -> Path:
    """Returns a copy of what clients read of this repository, for a test that changes it."""
    return copy_agent_files(pack, tmp_path / "own")


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """Returns a repository without anything for agents: what a client lists there is its own."""
    (tmp_path / "bare").mkdir()
    return make_repository(tmp_path / "bare")


@pytest.fixture
def machine(clients: Path, tmp_path: Path) -> Machine:
    """Returns a machine with a home of its own."""
    (tmp_path / "home").mkdir()
    return Machine(tmp_path / "home", clients)
