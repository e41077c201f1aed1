"""Watch the event loop while episodes run: what keeps it from serving the others, with the line.

Hundreds of episodes share one loop. A file that is opened, a request that is waited for or a
computation on its thread holds all of them up. What happens once may be a cache that is filled; a
line that does so again and again is a fault of the workflow.
"""

from __future__ import annotations

import asyncio
import functools
import os
import re
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import Any

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LIMIT_S = 0.02
"""How long one step of a coroutine may take."""

TICK_S = 0.005
AGAIN = 2
"""How often a line has to do so."""

_current: Watch | None = None
_is_hooked = False


class Watch:
    """What was seen on the thread of one event loop.

    Args:
        root: The folder of the code that is judged.
    """

    def __init__(self, root: str) -> None:
        self.root = root + os.sep
        self.thread = threading.get_ident()
        self.native = threading.get_native_id()
        self.seen: dict[tuple[str, str], list[float]] = defaultdict(list)
        self.started = 0.0
        self.is_noting = False
        self._is_over = threading.Event()

    def problems(self) -> list[tuple[str, str]]:
        """Return the checks that failed with their messages."""
        groups: dict[tuple[str, str], list[tuple[float, str]]] = defaultdict(list)
        for (what, place), values in self.seen.items():
            # What computes is met in one line of its function or another, by chance.
            where = re.sub(r":\d+ in ", " ", place) if what == "blocked" else place
            groups[what, where] += [(value, place) for value in values]
        found: list[tuple[str, str]] = []
        for (what, _), times in sorted(groups.items()):
            if len(times) >= AGAIN:
                check, text = _TEXTS[what]
                longest, place = max(times)
                took = f" for {longest * 1000:.0f} ms" if what == "blocked" else ""
                found.append((check, f"{place}: {text}{took}, {len(times)} times"))
        return found

    def note(self, what: str, value: float = 0.0, frame: FrameType | None = None) -> None:
        """Keep what was seen, if code of the target is on the stack."""
        place = self._place(frame or sys._getframe(1))
        if place:
            self.seen[what, place].append(value)

    def is_here(self) -> bool:
        """Return whether this is the thread of the loop, in the middle of a step."""
        return threading.get_ident() == self.thread and bool(self.started)

    def run(self) -> None:
        """Look at the thread in steps until it is over; a long step is kept once, at its end."""
        kept = (0.0, "")
        known = (0.0, 0.0)  # a step, and how long its thread had been queued before it
        queued = queued_s(self.native)
        while not self._is_over.wait(TICK_S):
            began = self.started
            if began != known[0]:
                known = (began, queued)
            queued = queued_s(self.native)
            # On a machine with more to do than cores, being ready is no fault of the workflow.
            took = time.monotonic() - began - (queued - known[1]) if began else 0.0
            frame = sys._current_frames().get(self.thread)
            place = self._place(frame) if frame is not None and took > LIMIT_S else ""
            if place and kept[0] != began:
                kept = (began, place)
                self.seen["blocked", place].append(took)
            elif place:
                self.seen["blocked", kept[1]][-1] = took

    def stop(self) -> None:
        """End the looking."""
        self._is_over.set()

    def _place(self, frame: FrameType | None) -> str:
        """Return the innermost line of the target's own code, "" where others are at work.

        These are the import system, the engine of the probe and the training package, which are
        called from a workflow's line and answer for themselves.
        """
        while frame is not None:
            file = frame.f_code.co_filename
            if file.startswith("<frozen importlib") or _is_training(file):
                return ""
            if file.startswith(HERE) and file != __file__:
                return ""
            if file.startswith(self.root) and "site-packages" not in file and file != __file__:
                name = os.path.relpath(file, self.root)
                return f"{name}:{frame.f_lineno} in {frame.f_code.co_name}"
            frame = frame.f_back
        return ""


def queued_s(thread: int) -> float:
    """Return how long a thread of this process was ready and had no core; 0 where nobody knows."""
    try:
        with open(f"/proc/self/task/{thread}/schedstat", encoding="ascii") as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


CLIENTS = (
    ("aiohttp", "ClientSession", "__init__", "client"),
    ("concurrent.futures.process", "ProcessPoolExecutor", "__init__", "pool"),
    ("concurrent.futures.thread", "ThreadPoolExecutor", "__init__", "pool"),
    ("httpx", "AsyncClient", "__init__", "client"),
    ("httpx", "Client", "__init__", "client"),
    ("httpx", "Client", "send", "sent"),
    ("httpx2", "AsyncClient", "__init__", "client"),
    ("httpx2", "Client", "__init__", "client"),
    ("httpx2", "Client", "send", "sent"),
    ("openai", "OpenAI", "__init__", "openai"),
    ("requests", "Session", "send", "sent"),
    ("transformers.modeling_utils", "PreTrainedModel", "from_pretrained", "loaded"),
    (
        "transformers.tokenization_utils_base",
        "PreTrainedTokenizerBase",
        "from_pretrained",
        "loaded",
    ),
)
"""Module, class, method and what a call of it is called; SDKs are built on one of these.

A connection that is kept open is made once, so each request of a synchronous client counts.
"""

_TEXTS = {
    "blocked": ("event loop", "blocks the event loop; await it, or hand it to asyncio.to_thread"),
    "opened": ("files", "opens a file on the event loop; read it once, or in asyncio.to_thread"),
    "connected": ("http", "waits for a connection on the event loop; use an asynchronous client"),
    "started": (
        "event loop",
        "starts a program and waits for it on the event loop; use asyncio.create_subprocess_exec",
    ),
    "pool": ("event loop", "creates a pool of threads or processes in the episode; share one"),
    "loaded": ("event loop", "loads a tokenizer or model in the episode; load it once"),
    "sent": ("http", "sends a request and waits on the event loop; use an asynchronous client"),
    "client": ("client", "creates an HTTP client in the episode; share the one in extra_kwargs"),
    "openai": (
        "client",
        "creates a synchronous OpenAI client in the episode, whose requests block the event loop; "
        "use AsyncOpenAI with the http_client of extra_kwargs",
    ),
    "reward": ("reward", "calls the reward on the event loop; wrap it in AsyncRewardWrapper"),
}


def _is_training(file: str) -> bool:
    # By where the package is: a project may well be in a folder that is called areal.
    for folder in getattr(sys.modules.get("areal"), "__path__", ()):
        if file.startswith(folder + os.sep):
            room = file[len(folder) + 1 :].partition(os.sep)[0]
            return room not in ("workflow", "reward")
    return False


@contextmanager
def watched(root: str) -> Iterator[Watch]:
    """Watch the event loop of this thread until the end of the block."""
    global _current, _is_hooked
    watch = Watch(root)
    clients = _Clients(watch)
    was = asyncio.events.Handle._run

    def step(handle: Any) -> None:
        if threading.get_ident() != watch.thread:
            return was(handle)
        clients.notice()  # an earlier step may have imported one
        watch.started = time.monotonic()
        try:
            return was(handle)
        finally:
            watch.started = 0.0

    asyncio.events.Handle._run = step
    with clients.stack:
        clients.notice()
        _current = watch
        if not _is_hooked:
            _is_hooked = True
            sys.addaudithook(_audit)  # it cannot be taken off again
        looker = threading.Thread(target=watch.run, daemon=True)
        looker.start()
        try:
            yield watch
        finally:
            _current = None
            asyncio.events.Handle._run = was
            watch.stop()
            looker.join()


def note_reward() -> None:
    """Say that a reward is called; in another process or thread nobody listens."""
    if _current is not None and _current.is_here():
        _current.note("reward", frame=sys._getframe(2))


class _Clients:
    """Notice the clients that are made or waited for, of modules as soon as they are imported."""

    def __init__(self, watch: Watch) -> None:
        self.stack = ExitStack()
        self._watch = watch
        self._waiting = list(CLIENTS)

    def notice(self) -> None:
        for row in [each for each in self._waiting if each[0] in sys.modules]:
            module, name, method, what = row
            kind = getattr(sys.modules[module], name, None)
            # A module that is half imported has no class yet.
            was = vars(kind).get(method) if kind is not None else None
            if was is not None:
                self._waiting.remove(row)
                self.stack.callback(setattr, kind, method, was)
                setattr(kind, method, _noted(self._watch, what, was))


def _noted(watch: Watch, what: str, was: Any) -> Any:
    if isinstance(was, classmethod):
        return classmethod(_noted(watch, what, was.__func__))

    @functools.wraps(was)
    def called(*args: Any, **kwargs: Any) -> Any:
        # What loads does so in each episode, whichever thread it takes for it.
        is_seen = watch.is_here() or what == "loaded"
        if not is_seen or watch.is_noting:
            return was(*args, **kwargs)
        watch.note(what, frame=sys._getframe(1))
        watch.is_noting = watch.is_here()  # a client that is made for another is the same fault
        try:
            return was(*args, **kwargs)
        finally:
            watch.is_noting = False

    return called


EVENTS = frozenset(["open", "socket.connect", "sqlite3.connect", "subprocess.Popen"])


def _is_awaited(frame: FrameType | None) -> bool:
    """Return whether asyncio starts a program, which is then awaited."""
    while frame is not None:
        if frame.f_globals.get("__name__") == "asyncio.base_subprocess":
            return True
        frame = frame.f_back
    return False


def _audit(event: str, args: tuple[Any, ...]) -> None:
    watch = _current
    if watch is None or event not in EVENTS or not watch.is_here():
        return
    if event == "sqlite3.connect":
        watch.note("opened", frame=sys._getframe(1))
    elif event == "subprocess.Popen":
        if not _is_awaited(sys._getframe(1)):
            watch.note("started", frame=sys._getframe(1))
    elif event == "open":
        # Without a mode it is a folder, as the removal of a temporary one opens.
        if args[1] is not None:
            watch.note("opened", frame=sys._getframe(1))
    # A socket with a timeout waits; those of the loop have none.
    elif args[0].gettimeout() != 0.0:
        watch.note("connected", frame=sys._getframe(1))
