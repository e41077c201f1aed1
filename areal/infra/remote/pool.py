"""The servers of a run as they are: asked, probed, brought to the current weights, given up."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from areal.api.io_struct import HttpRequest
from areal.infra.loop_thread import LoopThread
from areal.infra.remote.fleet import FAULTS_UNTIL_DEAD, Fleet, Server, ServerState
from areal.infra.remote.http import (
    HttpClient,
    RequestRefusedError,
    ServerFaultError,
    ServerLostError,
)

if TYPE_CHECKING:
    from areal.infra.remote_inf_engine import RemoteInfBackendProtocol

logger = logging.getLogger("ServerPool")

# A probe may take so long, or twice the interval between probes where that is less.
_PROBE_TIMEOUT_S = 10.0
# A server that neither loads nor generates for a call answers at once, or hangs.
_ADMIN_TIMEOUT_S = 30.0
_LOOK_EVERY_S = 1.0
# After so long without any server that serves, the log has the reason; then at growing intervals.
_SPEAK_AFTER_S = 10.0
# Once a server has the new weights, the others get five times as long as it took, at least this.
_STRAGGLER_S = 30.0
_END_TIMEOUT_S = 10.0
_SERVER_ERRORS = (ServerFaultError, RequestRefusedError)


@dataclass
class WeightSource:
    """Where weights of a version come from: the calls that make a server load them.

    ``failed`` has the servers that could not, with the reason.
    """

    version: int
    requests: list[HttpRequest]
    failed: dict[str, str] = field(default_factory=dict)


@dataclass(eq=False)
class _Call:
    """A request under way, so that it can be given up with its server."""

    loop: asyncio.AbstractEventLoop
    task: asyncio.Task[Any]
    is_lost: bool = False
    is_over: bool = False

    def lose(self) -> None:
        """Interrupt the request; runs in its own loop."""
        if not self.is_over and not self.is_lost:
            self.is_lost = True
            self.task.cancel()


class ServerPool:
    """Joins a fleet's rules to real servers. Methods may be called from any thread.

    Args:
        backend: Knows the endpoints.
        client: Sends.
        poll_interval: How often a healthy server is probed, in seconds.
        request_timeout: Of one call, in seconds.
        setup_timeout: How long servers may take to start or to load weights, in seconds.
        has_labels: Whether the version that a server names is that of what it is asked for; of LoRA
            adapters it is not.
    """

    def __init__(
        self,
        backend: RemoteInfBackendProtocol,
        client: HttpClient,
        poll_interval: float,
        request_timeout: float,
        setup_timeout: float,
        has_labels: bool = True,
    ) -> None:
        self.fleet = Fleet(poll_interval)
        self.is_paused = False
        self.counts: Counter[str] = Counter()
        self._backend = backend
        self._client = client
        self._request_timeout = request_timeout
        self._probe_timeout = min(2 * poll_interval, _PROBE_TIMEOUT_S)
        self._setup_timeout = setup_timeout
        self._has_labels = has_labels
        self._lock = threading.Lock()
        self._thread = LoopThread("areal-fleet")
        self._waiters: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []
        self._calls: defaultdict[str, set[_Call]] = defaultdict(set)
        self._source: WeightSource | None = None
        self._tending: dict[str, asyncio.Task[None]] = {}
        self._loading: dict[str, asyncio.Task[None]] = {}
        self._unresumed: set[str] = set()  # that were paused, and not told to go on
        self._changed = asyncio.Event()
        self._idle_since: float | None = None
        self._speak_at = 0.0
        self._is_running = False
        self._poll_interval = poll_interval
        self._look_up: Callable[[], list[str]] | None = None

    # --- life

    def start(self) -> None:
        """Start to watch over the servers."""
        self._thread.start()
        self._is_running = True
        self._thread.spawn(self._watch, ())
        if self._look_up is not None:
            self._thread.spawn(self._follow, (self._look_up,))

    def follow(self, look_up: Callable[[], list[str]]) -> None:
        """Take in and forget servers as a list of addresses changes; call it before ``start``.

        An empty list is not followed: it is that of a launcher that ends, or has not begun.
        """
        self._look_up = look_up

    async def _follow(self, look_up: Callable[[], list[str]]) -> None:
        listed: set[str] = set()
        while True:
            try:
                found = set(await asyncio.to_thread(look_up))
            except OSError as error:
                logger.warning("the names of the servers cannot be read: %s", error)
                found = set()
            for address in listed - found if found else ():
                self.remove(address)
            if found:
                self.add(found - listed)
                listed = found
            await asyncio.sleep(self._poll_interval)

    def stop(self) -> None:
        """Stop watching; requests that wait for a server fail, and updates are cancelled."""
        if self._is_running:
            self._is_running = False
            with contextlib.suppress(TimeoutError):
                self.run(self._end_tasks()).result(_END_TIMEOUT_S)
            self._thread.stop()
        self._wake_waiters()

    async def _end_tasks(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def run(self, coroutine: Any) -> Any:
        """Run a coroutine beside the watch and return a future of its result."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._thread.loop)

    def add(self, addresses: Iterable[str]) -> None:
        """Take in servers; they serve as soon as they hold the current weights."""
        with self._lock:
            for address in addresses:
                self.fleet.add(address, time.monotonic())
        self._notify()

    def remove(self, address: str) -> None:
        """Forget a server; what it works on goes to others."""
        with self._lock:
            self.fleet.remove(address)
        self._lose_calls(address)
        self._notify()

    def reachable(self) -> list[str]:
        """Return the servers that answer, whatever they hold, in a fixed order."""
        with self._lock:
            return self.fleet.in_state(ServerState.SERVING, ServerState.STALE)

    def next_server(self) -> str | None:
        """Return which server has the least to do; None if none serves."""
        with self._lock:
            server = self.fleet.least_busy()
            return None if server is None else server.address

    # --- requests

    async def acquire(self, rid: str, tokens: int, avoid: str | None = None) -> tuple[Server, int]:
        """Wait for a server that serves, and take it for a request.

        Returns:
            The server, to be given back by ``release``, and the version that it holds.

        Raises:
            RuntimeError: The pool was stopped.
        """
        while True:
            with self._lock:
                if not self._is_running:
                    raise RuntimeError("the engine is not running; call initialize() first")
                if not self.is_paused:
                    server = self.fleet.choose(rid, tokens, avoid)
                    if server is not None:
                        assert server.version is not None
                        return server, server.version
                loop = asyncio.get_running_loop()
                waiter: asyncio.Future[None] = loop.create_future()
                self._waiters.append((loop, waiter))
            await waiter

    def release(self, server: Server, tokens: int) -> None:
        """Give back what ``acquire`` took."""
        with self._lock:
            self.fleet.release(server, tokens)

    async def ask(self, address: str, request: HttpRequest) -> Any:
        """Send a request of an episode to a server.

        Raises:
            ServerFaultError: Another server may do better.
            RequestRefusedError: No other server will take it.
        """
        return await self._send(address, request, self._request_timeout)

    async def _send(self, address: str, request: HttpRequest, timeout_s: float) -> Any:
        """Send a call that is given up as soon as its server is."""
        task = asyncio.current_task()
        assert task is not None
        call = _Call(asyncio.get_running_loop(), task)
        calls = self._calls[address]
        calls.add(call)
        try:
            return await self._client.send(address, request, timeout_s)
        except asyncio.CancelledError:
            if call.is_lost and task.uncancel() == 0:
                where = f"server {address}, {request.endpoint}"
                raise ServerLostError(f"{where}: given up with its server") from None
            raise
        finally:
            call.is_over = True
            calls.discard(call)

    def answered(self, server: Server, versions: list[int], asked_at_version: int) -> bool:
        """Return whether an answer's versions are those of weights that were given out."""
        with self._lock:
            is_good = self.fleet.answered(server, versions, asked_at_version, time.monotonic())
        if not is_good:
            self._notify()
        return is_good

    def fault(self, address: str, error: Exception, is_probe: bool = False) -> None:
        """Note that a server failed; what a dead one works on goes to others."""
        with self._lock:
            is_dead = self.fleet.fault(address, time.monotonic(), str(error), is_probe)
        if is_dead:
            logger.warning("server %s is given up for now: %s", address, error)
            self._lose_calls(address)
        self._notify()

    def obstacle(self) -> str | None:
        """Return why no request can be sent now; None where one can."""
        with self._lock:
            if self.is_paused:
                return "generation is paused (pause_generation)"
            if self.fleet.in_state(ServerState.SERVING):
                return None
            return (
                f"no inference server serves version {self.fleet.version}: {self.fleet.describe()}"
            )

    # --- administration: coroutines for run()

    async def set_paused(self, is_paused: bool) -> None:
        """Pause generation on all servers, or let it go on; one that fails is left to its probes.

        Requests are held back here as well, so that none waits inside a server that may die.

        Raises:
            RequestRefusedError: A server does not know how to pause.
        """
        with self._lock:
            self.is_paused = is_paused
            addresses = [s.address for s in self.fleet.servers.values()]
            living = [a for a in addresses if self.fleet.servers[a].state is not ServerState.DEAD]
        if is_paused:
            self._unresumed.update(addresses)
            pauses = self._backend.get_pause_requests()
            failed = await self.call(living, lambda _: pauses, counts=False)
            for error in failed.values():
                if isinstance(error, RequestRefusedError):
                    await self.set_paused(False)
                    raise error
            return
        await asyncio.gather(*(self._resume(address) for address in living))
        self._notify()

    async def call(
        self,
        addresses: Iterable[str],
        requests_for: Callable[[str], list[HttpRequest]],
        counts: bool = True,
        timeout_s: float | None = None,
    ) -> dict[str, Exception]:
        """Send each server its requests, one after the other, to all servers at once.

        Args:
            addresses: The servers.
            requests_for: Address to requests.
            counts: Whether a server that fails is taken to have lost its weights.
            timeout_s: Of one request, in seconds; None takes what calls without work need.

        Returns:
            The errors of those that failed.
        """

        async def call_one(address: str) -> Exception | None:
            try:
                for request in requests_for(address):
                    await self._administer(address, request, timeout_s)
            except _SERVER_ERRORS as error:
                self._note_failure(address, error, counts)
                return error
            return None

        asked = list(addresses)
        found = await asyncio.gather(*(call_one(address) for address in asked))
        return {a: error for a, error in zip(asked, found, strict=True) if error is not None}

    def begin_update(self, version: int) -> None:
        """Demand a version that comes by group; servers that join later wait for the next one."""
        with self._lock:
            self._source = None
            self.fleet.update_began(version, time.monotonic())
        self._notify()

    def offer(self, source: WeightSource) -> None:
        """Take in where servers that come later find the current version."""
        with self._lock:
            if source.version == self.fleet.version:
                self._source = source
        self._notify()

    async def finish_update(
        self, addresses: Iterable[str], requests: list[HttpRequest], version: int
    ) -> None:
        """End an update by group: servers that then hold the version serve again.

        A server that names another version has not taken what it was sent, whatever it answered.
        """

        async def finish(address: str) -> None:
            try:
                for request in requests:
                    await self._administer(address, request, self._setup_timeout)
                _, found = await self._identify(address)
                if found not in (None, version):
                    raise ServerFaultError(
                        f"server {address} holds version {found} after an update to {version}"
                    )
            except _SERVER_ERRORS as error:
                logger.warning("server %s is left out: %s", address, error)
                self._note_failure(address, error, counts=True)
            else:
                self._confirm(address, version)

        await asyncio.gather(*(finish(address) for address in addresses))

    def _confirm(self, address: str, version: int) -> None:
        with self._lock:
            self.fleet.confirmed(address, version)
        self._notify()

    async def update(self, source: WeightSource) -> None:
        """Have every server load weights, and return when those that can have done so.

        Each serves again as soon as it has them. One that fails is tried again in the background,
        now and whenever it comes back, until there are newer weights.

        Raises:
            RuntimeError: No server could load them; the message names each.
        """
        started = time.monotonic()
        with self._lock:
            self._source = source
            self.fleet.update_began(source.version, started)
        for task in list(self._loading.values()):  # of weights that nobody wants any more
            task.cancel()
        self._notify()
        give_up_at = started + self._setup_timeout
        is_first = True
        while True:
            now = time.monotonic()
            with self._lock:
                serving = self.fleet.in_state(ServerState.SERVING)
                pending = self._still_loading(source, bool(serving))
                report = self.fleet.describe()
            if serving and is_first:
                is_first = False
                give_up_at = now + max(_STRAGGLER_S, 5 * (now - started))
            if serving and not pending:
                return
            if now >= give_up_at or (source.failed and not pending):
                if not serving:
                    raise RuntimeError(
                        f"no inference server could load version {source.version}: {report}"
                    )
                for address in pending:
                    self._give_up_load(address, now - started)
                return
            await self._wait_for_change(give_up_at - now)

    def _still_loading(self, source: WeightSource, is_served: bool) -> list[str]:
        """Return the servers that are worth waiting for; the caller holds the lock."""
        loading = []
        for server in self.fleet.servers.values():
            if server.address in source.failed or server.state is ServerState.SERVING:
                continue
            if is_served and (
                server.state in (ServerState.DEAD, ServerState.STARTING)
                or server.faults >= FAULTS_UNTIL_DEAD - 1
            ):
                continue
            loading.append(server.address)
        return loading

    def _give_up_load(self, address: str, after_s: float) -> None:
        task = self._tending.get(address)
        if task is not None:
            task.cancel()
        trouble = f"has not loaded its weights after {after_s:.1f} s"
        logger.warning("server %s %s; it is tried again in the background", address, trouble)
        self._load_failed(address, trouble)

    def _load_failed(self, address: str, trouble: str) -> None:
        """Give up what a server works on; its weights are unknown, and it may still be paused."""
        with self._lock:
            self.fleet.load_failed(address, time.monotonic(), trouble)
        self._lose_calls(address)
        self._notify()

    # --- the watch

    async def _watch(self) -> None:
        while True:
            now = time.monotonic()
            with self._lock:
                due = [a for a in self.fleet.due(now) if a not in self._tending]
                idle = [s for a, s in self.fleet.servers.items() if a not in self._tending]
                next_at = min((s.probe_at for s in idle if s.address not in due), default=now + 60)
            for address in due:
                self._tending[address] = asyncio.create_task(self._tend(address))
            self._speak_up(now)
            await self._wait_for_change(min(max(next_at - now, 0.01), _LOOK_EVERY_S))

    async def _wait_for_change(self, timeout_s: float) -> None:
        changed = self._changed
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(changed.wait(), timeout_s)

    async def _tend(self, address: str) -> None:
        """Look at a server, and bring it to the current weights where there is a source."""
        try:
            if not await self._probe(address):
                return
            with self._lock:
                source, server = self._source, self.fleet.servers.get(address)
                is_stale = server is not None and server.state is ServerState.STALE
                fits = source is not None and source.version == self.fleet.version
            if is_stale and fits and source is not None:
                self._loading[address] = self._tending[address]
                await self._load(address, source)
        except Exception as error:  # a backend's parser on an answer that it did not foresee
            self.fault(address, error, is_probe=True)
        finally:
            self._tending.pop(address, None)
            self._loading.pop(address, None)
            self._notify()

    async def _probe(self, address: str) -> bool:
        with self._lock:
            server = self.fleet.servers.get(address)
            if server is None:
                return False
            before = (self.fleet.version, server.version)
        try:
            health = self._backend.get_health_check_request()
            await self._client.send(address, health, self._probe_timeout)
            instance, version = await self._identify(address)
        except _SERVER_ERRORS as error:
            self.fault(address, error, is_probe=True)
            return False
        if address in self._unresumed and not self.is_paused:
            await self._resume(address)
        with self._lock:
            server = self.fleet.servers.get(address)
            if server is None or before != (self.fleet.version, server.version):
                return server is not None  # the answer may be older than what is known now
            is_new = self.fleet.healthy(address, instance, version, time.monotonic())
            state = server.state.value
        if is_new:
            logger.info("server %s answers; it is %s", address, state)
        return True

    async def _identify(self, address: str) -> tuple[str | None, int | None]:
        """Return instance and version as far as the server names them."""
        instance: str | None = None
        version: int | None = None
        for request in self._backend.get_identity_requests():
            try:
                answer = await self._client.send(address, request, self._probe_timeout)
            except RequestRefusedError:  # not every server has the endpoint
                continue
            found = self._backend.parse_identity(answer)
            instance = instance if instance is not None else found[0]
            version = version if version is not None else found[1]
            if instance is not None and version is not None:
                break
        return instance, version if self._has_labels else None

    async def _load(self, address: str, source: WeightSource) -> None:
        try:
            for request in source.requests:
                await self._administer(address, request, self._setup_timeout)
        except _SERVER_ERRORS as error:
            source.failed[address] = str(error)
            logger.warning(
                "server %s has not loaded version %d: %s", address, source.version, error
            )
            self._note_failure(address, error, counts=True)
            return
        if address in self._unresumed and not self.is_paused:
            await self._resume(address)
        source.failed.pop(address, None)
        self._confirm(address, source.version)

    async def _resume(self, address: str) -> None:
        try:
            await self._administer(address, self._backend.get_resume_request())
        except _SERVER_ERRORS as error:
            self._note_failure(address, error, counts=False)
        else:
            self._unresumed.discard(address)

    async def _administer(
        self, address: str, request: HttpRequest, timeout_s: float | None = None
    ) -> None:
        """Send one call; 200 with ``success: false`` is a refusal too."""
        try:
            answer = await self._send(address, request, timeout_s or _ADMIN_TIMEOUT_S)
            if isinstance(answer, dict) and answer.get("success") is False:
                message = str(answer.get("message", ""))[:200]
                raise RequestRefusedError(
                    f"server {address}, {request.endpoint}: refused ({message})", status=200
                )
        except RequestRefusedError:
            if not request.best_effort:
                raise

    def _note_failure(self, address: str, error: Exception, counts: bool) -> None:
        if counts and not isinstance(error, ServerLostError):
            self._load_failed(address, str(error))
        elif isinstance(error, ServerFaultError):
            self.fault(address, error, is_probe=True)

    def _speak_up(self, now: float) -> None:
        """Name the servers where requests have waited long for one."""
        trouble = self.obstacle() if self._waiters and not self.is_paused else None
        if trouble is None:
            self._idle_since, self._speak_at = None, now + _SPEAK_AFTER_S
            return
        self._idle_since = self._idle_since or now
        if now >= self._speak_at:
            waited_s = now - self._idle_since
            self._speak_at = now + max(_SPEAK_AFTER_S, 2 * waited_s)
            logger.warning(
                "%d requests wait, for %.0f s so far: %s; rows are kept until a server comes back",
                len(self._waiters),
                waited_s,
                trouble,
            )

    # --- inside

    def _lose_calls(self, address: str) -> None:
        for call in list(self._calls[address]):
            with contextlib.suppress(RuntimeError):  # its loop is closed
                call.loop.call_soon_threadsafe(call.lose)

    def _notify(self) -> None:
        """Wake the watch, updates, and requests that wait for a server."""
        if self._is_running:
            with contextlib.suppress(RuntimeError):  # stopped meanwhile
                self._thread.loop.call_soon_threadsafe(self._pulse)
        self._wake_waiters()

    def _pulse(self) -> None:
        # A new event, so that each waiter sees each change once.
        self._changed.set()
        self._changed = asyncio.Event()

    def _wake_waiters(self) -> None:
        with self._lock:
            can_go = not self._is_running or (
                not self.is_paused and bool(self.fleet.in_state(ServerState.SERVING))
            )
            if not can_go:
                return
            waiters, self._waiters = self._waiters, []
        for loop, waiter in waiters:
            with contextlib.suppress(RuntimeError):  # its loop is closed
                loop.call_soon_threadsafe(_set, waiter)


def _set(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
