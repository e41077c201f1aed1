"""Which servers may be asked: a state machine without input, output or a clock of its own.

| state | meaning | leaves it by |
|---|---|---|
| STARTING | never answered | its first answer |
| SERVING | holds the current version | a fault, an update, another instance |
| SUSPECT | failed once or twice since it served | an answer, or more faults |
| DEAD | failed again and again | an answer |
| STALE | answers, but holds other weights | a confirmed load of the current version |
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from dataclasses import dataclass
from enum import Enum

# What a server holds that was started from the model's own files and never updated.
BASE_VERSION = 0
# Request ids whose server is remembered, so that a resumed request finds its cached prefix.
MAX_KNOWN_REQUESTS = 1 << 14
# So many faults without a good answer between them, and a server is given up for now.
FAULTS_UNTIL_DEAD = 3
_FIRST_PROBE_S = 0.05
_LONGEST_PAUSE_S = 10.0


class ServerState(Enum):
    """The state of a server; only SERVING ones are asked to generate."""

    STARTING = "starting"
    SERVING = "serving"
    SUSPECT = "suspect"
    DEAD = "dead"
    STALE = "stale"


@dataclass
class Server:
    """What is known of one server.

    ``version`` is the last one that this process ``instance`` was seen to load, ``outstanding`` the
    tokens of the requests that it works on, ``faults`` those since its last good answer.
    """

    address: str
    state: ServerState = ServerState.STARTING
    version: int | None = None
    instance: str | None = None
    outstanding: int = 0
    faults: int = 0
    probe_at: float = 0.0
    chosen_at: int = 0
    trouble: str = ""


class Fleet:
    """Keeps the state of every server and chooses one for each request.

    Not safe for several threads by itself. Times are in seconds, of any clock that never goes back.

    Args:
        poll_interval: How often a server that is well is looked at.

    Attributes:
        version: What a server has to hold to be asked.
        epoch: Grows whenever the set of reachable processes changes; a process group that was
            made for an earlier epoch lacks a member or has a dead one.
        num_deaths: How often a server was given up.
    """

    def __init__(self, poll_interval: float = 5.0) -> None:
        self.servers: dict[str, Server] = {}
        self.version = BASE_VERSION
        self.epoch = 0
        self.num_deaths = 0
        self._poll_interval = poll_interval
        self._is_base_current = True  # until the first update
        self._server_of: OrderedDict[str, str] = OrderedDict()
        self._ticks = itertools.count(1)

    # --- members

    def add(self, address: str, now: float) -> Server:
        """Take in a server; one that is known already stays as it is."""
        if address not in self.servers:
            self.servers[address] = Server(address, probe_at=now)
            self.epoch += 1
        return self.servers[address]

    def remove(self, address: str) -> None:
        """Forget a server; what comes from it later is ignored."""
        if self.servers.pop(address, None) is not None:
            self.epoch += 1

    def in_state(self, *states: ServerState) -> list[str]:
        """Return the addresses of the servers in one of some states."""
        return [s.address for s in self.servers.values() if s.state in states]

    # --- requests

    def choose(self, rid: str, tokens: int, avoid: str | None = None) -> Server | None:
        """Pick the server for a request and count its tokens as outstanding there.

        Args:
            rid: Requests of one id go to one server as long as it serves.
            tokens: How many the request may come to; ``release`` takes them back.
            avoid: A server to pass over where another one serves.

        Returns:
            The server with the least to do, or None if none serves.
        """
        best = self.servers.get(self._server_of.get(rid, ""))
        if best is None or best.state is not ServerState.SERVING or best.address == avoid:
            best = self.least_busy(avoid) or (self.least_busy() if avoid else None)
            if best is None:
                return None
        best.outstanding += tokens
        best.chosen_at = next(self._ticks)
        self._server_of[rid] = best.address
        self._server_of.move_to_end(rid)
        if len(self._server_of) > MAX_KNOWN_REQUESTS:
            self._server_of.popitem(last=False)
        return best

    def least_busy(self, avoid: str | None = None) -> Server | None:
        """Return the serving server with the fewest outstanding tokens, then that idle longest."""
        best: Server | None = None
        for server in self.servers.values():
            if server.state is not ServerState.SERVING or server.address == avoid:
                continue
            if (
                best is None
                or server.outstanding < best.outstanding
                or (server.outstanding == best.outstanding and server.chosen_at < best.chosen_at)
            ):
                best = server
        return best

    def release(self, server: Server, tokens: int) -> None:
        """Take back what ``choose`` counted."""
        server.outstanding -= tokens

    def answered(
        self, server: Server, versions: list[int], asked_at_version: int, now: float
    ) -> bool:
        """Judge the versions that a server names for the tokens of an answer.

        Args:
            server: The one that answered.
            versions: Of its tokens.
            asked_at_version: What the server held when it was asked.
            now: The time.

        Returns:
            False if the answer must not be used: it comes from weights older than those that the
            server was seen to load, or newer than any that were given out, or the versions go back
            in the middle of it. The server is STALE.
        """
        ordered = sorted(versions)
        if not versions or (
            versions == ordered and asked_at_version <= ordered[0] and ordered[-1] <= self.version
        ):
            server.faults = 0
            return True
        server.version = None
        self._to_stale(server, now, "answered with another version than it had loaded")
        return False

    # --- what happens to servers

    def fault(self, address: str, now: float, trouble: str, is_probe: bool = False) -> bool:
        """Note that a server could not be reached, or answered with nonsense or a failure.

        Of many requests that fail together only the first counts; after it, probes decide.

        Args:
            address: The server.
            now: The time.
            trouble: What happened, for messages.
            is_probe: The fault is that of a probe or of an administrative call.

        Returns:
            True if the server is DEAD by it, so that what it works on is lost.
        """
        server = self.servers.get(address)
        if server is None or not (is_probe or server.state is ServerState.SERVING):
            return False
        server.trouble = trouble
        server.faults += 1
        server.probe_at = now + self._pause(server.faults - 1)
        if server.state in (ServerState.STARTING, ServerState.DEAD):
            return False
        if server.faults < FAULTS_UNTIL_DEAD:
            if server.state is ServerState.SERVING:
                server.state = ServerState.SUSPECT
                server.probe_at = now
            return False
        server.state = ServerState.DEAD
        self.epoch += 1
        self.num_deaths += 1
        return True

    def healthy(self, address: str, instance: str | None, version: int | None, now: float) -> bool:
        """Note that a server answered a probe.

        A server that has failed since it served and names neither instance nor version is taken
        for a new process with the base weights.

        Args:
            address: The server.
            instance: Identifies its process; None where it does not.
            version: That it holds; None where it does not name one.
            now: The time.

        Returns:
            True if it answers again after it was DEAD or STARTING, or as another process.
        """
        server = self.servers.get(address)
        if server is None:
            return False
        state = server.state
        is_other = instance is not None and server.instance not in (None, instance)
        is_new = is_other or state in (ServerState.STARTING, ServerState.DEAD)
        if is_new and state is not ServerState.STARTING:
            self.epoch += 1
        if is_other:
            server.version = None
            server.trouble = "restarted"
        server.instance = instance or server.instance
        server.probe_at = now + self._poll_interval
        if version is None:
            is_same = instance is not None and not is_other
            is_well = state is ServerState.SERVING
            version = server.version if is_same or is_well else None
            version = BASE_VERSION if version is None else version
        # That a process which we never gave this version names the same number proves nothing.
        is_base = version == BASE_VERSION and self._is_base_current
        is_known = is_base or version == server.version
        if is_known and version == self.version:
            self._to_serving(server, version)
        else:
            server.version = version if is_known else None
            self._to_stale(server, now, f"holds version {version}, {self.version} is wanted")
        return is_new

    def update_began(self, version: int, now: float) -> None:
        """Demand a version; no server is asked again before it has loaded that.

        The same number once more means other weights: what a server had loaded counts no longer.
        """
        self.version = version
        self._is_base_current = False
        for server in self.servers.values():
            if server.version == version:
                server.version = None
            if server.state is ServerState.SERVING:
                self._to_stale(server, now, f"has not loaded version {version}")
            elif server.state is not ServerState.DEAD:
                server.probe_at = now

    def confirmed(self, address: str, version: int) -> None:
        """Note that a server has loaded a version."""
        server = self.servers.get(address)
        if server is None:
            return
        server.version = version
        if version == self.version:
            server.faults = 0
            self._to_serving(server, version)

    def load_failed(self, address: str, now: float, trouble: str) -> None:
        """Note that a server refused a version, or could not load it; it holds nothing for sure."""
        server = self.servers.get(address)
        if server is None:
            return
        server.version = None
        server.faults += 1
        self._to_stale(server, now, trouble)
        server.probe_at = now + self._pause(server.faults)

    # --- when to look

    def due(self, now: float) -> list[str]:
        """Return the servers that are to be probed."""
        return [s.address for s in self.servers.values() if s.probe_at <= now]

    def next_probe_at(self) -> float | None:
        """Return when the next server is due; None without servers."""
        return min((s.probe_at for s in self.servers.values()), default=None)

    def describe(self) -> str:
        """Return every server with its state and trouble, for messages."""
        parts = []
        for server in self.servers.values():
            trouble = f" ({server.trouble})" if server.trouble else ""
            parts.append(f"{server.address} {server.state.value}{trouble}")
        return ", ".join(parts) or "no server is known"

    # --- inside

    def _to_serving(self, server: Server, version: int) -> None:
        server.state = ServerState.SERVING
        server.version = version
        server.trouble = ""

    def _to_stale(self, server: Server, now: float, trouble: str) -> None:
        server.state = ServerState.STALE
        server.trouble = trouble
        server.probe_at = now

    @staticmethod
    def _pause(faults: int) -> float:
        return min(_FIRST_PROBE_S * 2.0 ** min(max(faults, 0), 16), _LONGEST_PAUSE_S)
