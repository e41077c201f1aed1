"""What a job needs before it starts."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Any

import pytest

from scaffold.debug.environment import (
    Interpreter,
    Place,
    check_devices,
    check_mesh,
    check_port,
    check_variables,
    check_versions,
)
from scaffold.debug.mesh import Launch, read_mesh

TORCH = {"cuda": None, "devices": [], "backends": ["gloo"], "nccl": None}


def place(
    launch: Launch | None = None,
    env: Mapping[str, str] | None = None,
    mesh: str = "",
    **said: Any,
) -> Place:
    meshes = [read_mesh(mesh)] if mesh else []
    python = Interpreter("python3", "a test")
    return Place(env or {}, {"torch": TORCH, **said}, python, launch or Launch(), meshes)


def states(found: list[Any]) -> list[str]:
    return [each.state for each in found]


def test_an_interpreter_without_torch_is_in_the_way() -> None:
    assert states(check_versions(place(packages={"torch": "2.13.0"}))) == ["ok", "ok"]
    assert "bad" in states(check_versions(place(packages={"numpy": "2.0"})))
    assert "bad" in states(check_versions(place(error="torch cannot be imported", packages={})))


@pytest.mark.parametrize(("ranks", "state"), [(2, "ok"), (4, "bad")])
def test_more_ranks_than_devices_are_in_the_way(ranks: int, state: str) -> None:
    torch = {**TORCH, "devices": ["H100", "H100"], "cuda": "12.8", "nccl": "2.27"}
    assert check_devices(place(Launch(1, ranks), torch=torch))[-1].state == state


def test_a_world_that_does_not_fill_the_mesh_is_in_the_way() -> None:
    assert states(check_mesh(place(Launch(1, 4), mesh="d2t2"))) == ["ok", "ok"]
    assert states(check_mesh(place(Launch(1, 2), mesh="d2t2"))) == ["ok", "bad"]
    assert states(check_mesh(place(mesh="d2t2"))) == ["ok"], "nobody said how many are started"


def test_a_port_that_is_taken_is_in_the_way_with_its_holder() -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        (found,) = check_port(place(Launch(1, 2, "127.0.0.1", port)))
    assert found.state == "bad"
    assert "pytest" in found.text or "process" in found.text
    (free,) = check_port(place(Launch(1, 2, "127.0.0.1", port)))
    assert free.state == "ok", free.text


def test_the_port_of_the_environment_counts_where_none_is_given() -> None:
    (found,) = check_port(place(env={"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}))
    assert "127.0.0.1:1 " in found.text
    assert check_port(place(Launch(port=0)))[0].text == "torchrun chooses one"


def test_variables_that_mislead_are_told() -> None:
    assert states(check_variables(place())) == ["ok"]
    (bad, _) = check_variables(place(env={"GLOO_SOCKET_IFNAME": "nosuch9"}))
    assert (bad.state, bad.about) == ("bad", "GLOO_SOCKET_IFNAME")
    (warned, ok) = check_variables(place(env={"RANK": "3", "NCCL_DEBUG": "INFO"}))
    assert warned.state == "warn"
    assert "NCCL_DEBUG=INFO" in ok.text
