"""Which servers may be asked, through faults, updates and restarts."""

from __future__ import annotations

import pytest

from areal.infra.remote.fleet import (
    FAULTS_UNTIL_DEAD,
    MAX_KNOWN_REQUESTS,
    Fleet,
    ServerState,
)


def fleet_of(*addresses: str) -> Fleet:
    """Returns a fleet whose servers all serve the base weights."""
    fleet = Fleet(poll_interval=5.0)
    for address in addresses:
        fleet.add(address, 0.0)
        fleet.healthy(address, f"process of {address}", None, 0.0)
    return fleet


def state(fleet: Fleet, address: str) -> ServerState:
    return fleet.servers[address].state


def kill(fleet: Fleet, address: str, now: float = 1.0) -> None:
    for _ in range(FAULTS_UNTIL_DEAD):
        fleet.fault(address, now, "no answer", is_probe=True)


def test_a_server_is_asked_only_after_it_answered() -> None:
    fleet = Fleet()
    fleet.add("a", 0.0)
    assert fleet.choose("r", 1) is None
    fleet.healthy("a", "one", 0, 0.0)
    chosen = fleet.choose("r", 1)
    assert chosen is not None
    assert chosen.address == "a"


def test_the_fewest_outstanding_tokens_decide_and_then_the_longest_rest() -> None:
    fleet = fleet_of("a", "b", "c")
    picks = [fleet.choose(f"r{i}", tokens) for i, tokens in enumerate((100, 10, 20, 5))]
    assert [p.address for p in picks if p] == ["a", "b", "c", "b"]
    assert picks[1] is not None
    fleet.release(picks[1], 10)
    assert [fleet.servers[a].outstanding for a in "abc"] == [100, 5, 20]


def test_a_request_keeps_its_server_as_long_as_that_serves() -> None:
    fleet = fleet_of("a", "b")
    first = fleet.choose("r", 1000)
    again = fleet.choose("r", 1000)
    assert first is again is not None
    kill(fleet, first.address)
    other = fleet.choose("r", 1000)
    assert other is not None
    assert other is not first
    fleet.healthy(first.address, first.instance, 0, 2.0)
    assert fleet.choose("r", 1000) is other


def test_the_memory_of_requests_is_bounded() -> None:
    fleet = fleet_of("a")
    for i in range(MAX_KNOWN_REQUESTS + 10):
        fleet.choose(f"r{i}", 0)
    assert len(fleet._server_of) == MAX_KNOWN_REQUESTS


def test_a_server_to_avoid_is_taken_only_where_no_other_serves() -> None:
    fleet = fleet_of("a", "b")
    for avoid, expected in (("a", "b"), ("b", "a")):
        chosen = fleet.choose("r", 1, avoid)
        assert chosen is not None
        assert chosen.address == expected
    kill(fleet, "b")
    chosen = fleet.choose("r", 1, avoid="a")
    assert chosen is not None
    assert chosen.address == "a"


def test_faults_lead_by_way_of_suspect_to_dead() -> None:
    fleet = fleet_of("a")
    assert not fleet.fault("a", 1.0, "broken pipe")
    assert state(fleet, "a") is ServerState.SUSPECT
    assert fleet.due(1.0) == ["a"]
    # The other requests that broke with it are one and the same event.
    assert not fleet.fault("a", 1.0, "broken pipe")
    assert fleet.servers["a"].faults == 1
    assert not fleet.fault("a", 1.0, "refused", is_probe=True)
    assert fleet.fault("a", 1.1, "refused", is_probe=True)
    assert state(fleet, "a") is ServerState.DEAD
    assert fleet.num_deaths == 1
    assert fleet.choose("r", 1) is None
    assert "refused" in fleet.describe()


def test_a_suspect_that_answers_as_the_same_process_serves_again() -> None:
    fleet = fleet_of("a")
    fleet.update_began(3, 1.0)
    fleet.confirmed("a", 3)
    fleet.fault("a", 2.0, "time-out")
    fleet.healthy("a", "process of a", 3, 2.1)
    assert state(fleet, "a") is ServerState.SERVING


@pytest.mark.parametrize("version", [None, 0, 3])
def test_a_server_that_restarted_is_stale_whatever_it_claims(version: int | None) -> None:
    fleet = fleet_of("a")
    fleet.update_began(3, 1.0)
    fleet.confirmed("a", 3)
    epoch = fleet.epoch
    assert fleet.healthy("a", "another process", version, 2.0)
    assert state(fleet, "a") is ServerState.STALE
    assert fleet.epoch > epoch
    fleet.confirmed("a", 3)
    assert state(fleet, "a") is ServerState.SERVING


def test_a_nameless_server_that_failed_is_taken_for_restarted() -> None:
    fleet = Fleet()
    fleet.add("a", 0.0)
    fleet.healthy("a", None, None, 0.0)
    fleet.update_began(1, 1.0)
    fleet.confirmed("a", 1)
    fleet.healthy("a", None, None, 2.0)
    assert state(fleet, "a") is ServerState.SERVING
    fleet.fault("a", 3.0, "broken pipe")
    fleet.healthy("a", None, None, 3.1)
    assert state(fleet, "a") is ServerState.STALE


def test_an_update_stops_every_server_until_it_has_loaded() -> None:
    fleet = fleet_of("a", "b")
    fleet.update_began(1, 1.0)
    assert fleet.choose("r", 1) is None
    fleet.confirmed("b", 1)
    chosen = fleet.choose("r", 1)
    assert chosen is not None
    assert chosen.address == "b"
    # A confirmation of the past changes nothing.
    fleet.update_began(2, 2.0)
    fleet.confirmed("a", 1)
    assert fleet.in_state(ServerState.STALE) == ["a", "b"]


def test_the_same_version_once_more_means_other_weights() -> None:
    fleet = fleet_of("a")
    fleet.update_began(0, 1.0)
    fleet.healthy("a", "process of a", 0, 1.1)
    assert state(fleet, "a") is ServerState.STALE
    fleet.confirmed("a", 0)
    assert state(fleet, "a") is ServerState.SERVING


def test_a_foreign_version_is_not_trusted() -> None:
    fleet = Fleet()
    fleet.add("a", 0.0)
    fleet.update_began(7, 0.0)
    fleet.healthy("a", "of another run", 7, 0.1)
    assert state(fleet, "a") is ServerState.STALE


def test_a_failed_load_is_tried_again_later_and_later() -> None:
    fleet = fleet_of("a")
    fleet.update_began(1, 1.0)
    pauses = []
    for _ in range(12):
        fleet.load_failed("a", 10.0, "disk full")
        pauses.append(fleet.servers["a"].probe_at - 10.0)
    assert pauses == sorted(pauses)
    assert pauses[0] < 1 < pauses[-1] <= 10
    assert state(fleet, "a") is ServerState.STALE


@pytest.mark.parametrize(
    ("versions", "is_good"),
    [([2, 2], True), ([2, 3], True), ([], True), ([1, 2], False), ([2, 4], False), ([3, 2], False)],
)
def test_only_versions_that_were_given_out_are_accepted(versions: list[int], is_good: bool) -> None:
    fleet = fleet_of("a")
    fleet.update_began(3, 1.0)
    fleet.confirmed("a", 3)
    server = fleet.servers["a"]
    assert fleet.answered(server, versions, asked_at_version=2, now=2.0) is is_good
    assert (server.state is ServerState.SERVING) is is_good


def test_servers_join_and_leave_and_the_epoch_tells() -> None:
    fleet = fleet_of("a")
    epochs = [fleet.epoch]
    fleet.add("b", 1.0)
    epochs.append(fleet.epoch)
    kill(fleet, "a")
    epochs.append(fleet.epoch)
    fleet.healthy("a", "process of a", 0, 2.0)
    epochs.append(fleet.epoch)
    fleet.remove("b")
    epochs.append(fleet.epoch)
    assert epochs == sorted(set(epochs))
    fleet.add("a", 3.0)
    fleet.remove("nobody")
    assert fleet.epoch == epochs[-1]
    # What arrives late from a server that left is ignored.
    fleet.confirmed("b", 0)
    fleet.load_failed("b", 3.0, "late")
    assert not fleet.healthy("b", "x", 0, 3.0)
    assert not fleet.fault("b", 3.0, "late")


def test_a_dead_server_is_probed_at_growing_intervals_and_comes_back() -> None:
    fleet = fleet_of("a")
    kill(fleet, "a", now=1.0)
    pauses = []
    for _ in range(12):
        fleet.fault("a", 10.0, "refused", is_probe=True)
        pauses.append(fleet.servers["a"].probe_at - 10.0)
    assert pauses == sorted(pauses)
    assert pauses[-1] == 10.0
    assert fleet.healthy("a", "process of a", None, 30.0)
    assert state(fleet, "a") is ServerState.SERVING
    assert fleet.next_probe_at() == 35.0
