"""Do the rules of a fleet hold in whatever order things happen to its servers?"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from areal.infra.remote.fleet import Fleet, Server, ServerState

ADDRESSES = ["a", "b"]
address = st.sampled_from(ADDRESSES)


@dataclass
class Process:
    """What really runs at an address: its weights are those of a push, not merely of a version."""

    instance: int = 0
    push: int = 0  # 0 is what it was started with
    is_up: bool = True


@dataclass
class Request:
    """A request under way, and what the server held when it was sent."""

    server: Server
    tokens: int
    version: int
    process: Process
    instance: int
    pushes: set[int] = field(default_factory=set)


class FleetMachine(RuleBasedStateMachine):
    """Real processes beside a fleet that learns of them only by what they answer.

    Some name their instance and version, some neither, as SGLang and vLLM of older days.
    """

    def __init__(self) -> None:
        super().__init__()
        self.fleet = Fleet()
        self.now = 0.0
        self.processes: dict[str, Process] = {}
        self.versions = [0]  # of each push
        self.requests: list[Request] = []
        self.num_instances = 0
        self.names_itself = True

    @initialize(names_itself=st.booleans())
    def begin(self, names_itself: bool) -> None:
        self.names_itself = names_itself
        for at in ADDRESSES:
            self.starts(at)
            self.fleet.add(at, self.now)

    # --- what happens

    @rule(at=address)
    def starts(self, at: str) -> None:
        if not self.names_itself:
            self.dies(at)  # without a name it must be noticed by that
        self.num_instances += 1
        self.processes[at] = Process(self.num_instances)

    @rule(at=address)
    def leaves_or_joins(self, at: str) -> None:
        if at in self.fleet.servers:
            self.fleet.remove(at)
        else:
            self.fleet.add(at, self.now)

    @rule(at=address)
    def dies(self, at: str) -> None:
        if at not in self.processes:
            return
        self.processes[at].is_up = False
        # As the client sees it: broken requests, and whatever it asks next is refused.
        broken = [r for r in self.requests if r.process is self.processes[at]]
        for request in broken:
            self.end(request)
        if broken or not self.names_itself:
            self.fleet.fault(at, self.now, "connection lost")

    @rule(is_same=st.booleans())
    def trainer_pushes(self, is_same: bool) -> None:
        version = self.fleet.version if is_same else self.fleet.version + 1
        self.versions.append(version)
        self.fleet.update_began(version, self.now)

    @rule(at=address, works=st.booleans())
    def loads(self, at: str, works: bool) -> None:
        process = self.processes.get(at)
        if process is None or at not in self.fleet.servers or len(self.versions) == 1:
            return
        if not process.is_up:
            self.fleet.fault(at, self.now, "connection lost", is_probe=True)
        elif self.fleet.servers[at].state is ServerState.STALE:
            process.push = len(self.versions) - 1 if works else -1
            if works:
                self.fleet.confirmed(at, self.fleet.version)
            else:
                self.fleet.load_failed(at, self.now, "disk full")

    @rule(at=address, seconds=st.floats(0.0, 20.0))
    def is_probed(self, at: str, seconds: float) -> None:
        self.now += seconds
        process = self.processes.get(at)
        if process is None or not process.is_up:
            self.fleet.fault(at, self.now, "refused", is_probe=True)
            return
        if not self.names_itself:
            self.fleet.healthy(at, None, None, self.now)
        else:
            version = self.versions[process.push] if process.push >= 0 else 0
            self.fleet.healthy(at, str(process.instance), version, self.now)

    @rule(at=address)
    def is_slow(self, at: str) -> None:
        self.fleet.fault(at, self.now, "time-out", is_probe=True)

    # --- requests

    @rule(rid=st.integers(0, 5), tokens=st.integers(1, 100), avoid=st.none() | address)
    def asks(self, rid: int, tokens: int, avoid: str | None) -> None:
        states = {a: server.state for a, server in self.fleet.servers.items()}
        server = self.fleet.choose(str(rid), tokens, avoid)
        if server is None:
            assert ServerState.SERVING not in states.values()
            return
        assert states[server.address] is ServerState.SERVING
        assert server.version == self.fleet.version
        process = self.processes[server.address]
        if not process.is_up:
            self.fleet.release(server, tokens)
            self.fleet.fault(server.address, self.now, "refused")
            return
        self.requests.append(
            Request(server, tokens, server.version, process, process.instance, {process.push})
        )

    @rule(data=st.data())
    def answers(self, data: st.DataObject) -> None:
        if not self.requests:
            return
        request = data.draw(st.sampled_from(self.requests))
        self.end(request)
        if not self.names_itself or request.process.push < 0:
            return
        now_held = self.versions[request.process.push]
        is_used = self.fleet.answered(
            request.server, [request.version, now_held], request.version, self.now
        )
        assert is_used == (request.version <= now_held <= self.fleet.version)

    def end(self, request: Request) -> None:
        self.requests.remove(request)
        self.fleet.release(request.server, request.tokens)

    # --- what always holds

    @invariant()
    def who_serves_holds_the_newest_weights(self) -> None:
        for at in self.fleet.in_state(ServerState.SERVING):
            process = self.processes[at]
            server = self.fleet.servers[at]
            assert server.version == self.fleet.version
            if not self.names_itself or server.instance == str(process.instance):
                assert process.push == len(self.versions) - 1

    @invariant()
    def outstanding_tokens_add_up(self) -> None:
        for server in self.fleet.servers.values():
            mine = [r.tokens for r in self.requests if r.server is server]
            assert server.outstanding == sum(mine)

    @invariant()
    def everyone_is_looked_at_again_soon(self) -> None:
        for server in self.fleet.servers.values():
            assert server.probe_at <= self.now + 10.0


TestFleet = FleetMachine.TestCase
# Each example costs milliseconds, and what is rare needs several things in a row.
TestFleet.settings = settings(
    max_examples=4 * settings.default.max_examples, stateful_step_count=80
)
