"""Names to short texts, so that processes of a run find each other's addresses.

Names are paths, such as ``user/experiment/trial/gen_servers/0``. Repeated and outer slashes do not
count. What is kept is text; other values are turned into it.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import threading
import time
import uuid
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from areal.api.cli_args import NameResolveConfig
from areal.api.errors import ArealError, ConfigError

logger = logging.getLogger("NameResolve")

_ENTRY = "ENTRY"  # the file that holds the value of the name that its folder spells
_TTL = "TTL"  # beside it, where the value has to be kept alive
_REFRESHES_PER_TTL = 3


class NameEntryExistsError(ArealError, KeyError):
    """The name is taken, and ``replace`` was not asked for."""

    __str__ = Exception.__str__  # KeyError's puts the message in quotes


class NameEntryNotFoundError(ArealError, KeyError):
    """There is nothing under the name."""

    __str__ = Exception.__str__


class NameRecordRepository(ABC):
    """Keeps names. What it added with ``delete_on_exit`` goes with it, or with its process."""

    def __init__(self) -> None:
        self._owned: set[str] = set()
        self._kept_alive: dict[str, float] = {}  # name to seconds
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._keeper: threading.Thread | None = None

    # --- what a kind of repository does

    @abstractmethod
    def _put(self, name: str, value: str, ttl_s: float | None, replace: bool) -> bool:
        """Keep a value; return False where the name is taken and stays as it was."""

    @abstractmethod
    def _find(self, name: str) -> str | None:
        """Return what is under a name; None without."""

    @abstractmethod
    def _remove(self, name: str) -> bool:
        """Forget a name; return whether it was there."""

    @abstractmethod
    def _list(self, root: str) -> list[str]:
        """Return the names at and below another one, sorted."""

    @abstractmethod
    def _refresh(self, name: str) -> None:
        """Let the time of a name restart."""

    # --- what callers use

    def add(
        self,
        name: str,
        value: Any,
        delete_on_exit: bool = True,
        keepalive_ttl: float | None = None,
        replace: bool = False,
    ) -> None:
        """Keep a value under a name.

        Args:
            name: A path.
            value: Is turned into text.
            delete_on_exit: Whether it goes with this repository, or with its process.
            keepalive_ttl: Seconds after which the name is gone unless this process lives on, which
                keeps it alive; None keeps it without that.
            replace: Whether it may take another value's place.

        Raises:
            ValueError: The name is empty, or no path below the root, or the time is not positive.
            NameEntryExistsError: The name is taken.
        """
        name = _normalised(name)
        if keepalive_ttl is not None and keepalive_ttl <= 0:
            raise ValueError(f"keepalive_ttl of {name!r} must be above 0, found {keepalive_ttl}")
        if not self._put(name, str(value), keepalive_ttl, replace):
            raise NameEntryExistsError(f"the name {name!r} is taken; replace=True overwrites it")
        with self._lock:
            (self._owned.add if delete_on_exit else self._owned.discard)(name)
            if keepalive_ttl is None:
                self._kept_alive.pop(name, None)
                return
            self._kept_alive[name] = keepalive_ttl
            if self._keeper is None or not self._keeper.is_alive():
                self._keeper = threading.Thread(
                    target=_keep_alive, args=(weakref.ref(self), self._wake), daemon=True
                )
                self._keeper.start()
        self._wake.set()

    def add_subentry(self, name: str, value: Any, **options: Any) -> str:
        """Keep a value under a new name below another one, and return that name."""
        below = f"{_normalised(name)}/{uuid.uuid4().hex[:8]}"
        self.add(below, value, **options)
        return below

    def get(self, name: str) -> str:
        """Return the value of a name.

        Raises:
            NameEntryNotFoundError: There is none.
        """
        found = self._find(_normalised(name))
        if found is None:
            raise NameEntryNotFoundError(f"there is nothing under the name {_normalised(name)!r}")
        return found

    def find_subtree(self, name_root: str) -> list[str]:
        """Return the names at and below another one, sorted; [] without any."""
        return self._list(_normalised(name_root))

    def get_subtree(self, name_root: str) -> list[str]:
        """Return the values of ``find_subtree``, in its order."""
        found = (self._find(name) for name in self.find_subtree(name_root))
        return [value for value in found if value is not None]

    def wait(self, name: str, timeout: float | None = None, poll_frequency: float = 1.0) -> str:
        """Return the value of a name once there is one.

        Args:
            name: A path.
            timeout: In seconds; None waits for ever.
            poll_frequency: Seconds between looks.

        Raises:
            TimeoutError: There was none in time.
        """
        name = _normalised(name)
        give_up_at = None if timeout is None else time.monotonic() + timeout
        while (found := self._find(name)) is None:
            left_s = poll_frequency
            if give_up_at is not None:
                left_s = min(left_s, give_up_at - time.monotonic())
                if left_s <= 0:
                    raise TimeoutError(f"nothing came under the name {name!r} in {timeout:g} s")
            time.sleep(left_s)
        return found

    def delete(self, name: str) -> None:
        """Forget a name.

        Raises:
            NameEntryNotFoundError: There is no such name.
        """
        name = _normalised(name)
        self._disown(name)
        if not self._remove(name):
            raise NameEntryNotFoundError(f"there is nothing under the name {name!r} to delete")

    def clear_subtree(self, name_root: str) -> None:
        """Forget the names at and below another one; there may be none."""
        for name in self.find_subtree(name_root):
            self._disown(name)
            self._remove(name)

    def reset(self) -> None:
        """Forget what this repository added with ``delete_on_exit``, and keep nothing alive."""
        with self._lock:
            names = sorted(self._owned)
            self._owned.clear()
            self._kept_alive.clear()
        self._wake.set()
        for name in names:
            self._remove(name)

    def watch_names(
        self,
        names: str | Iterable[str],
        call_back: Callable[[], Any],
        poll_frequency: float = 15.0,
        wait_timeout: float = 300.0,
    ) -> threading.Thread:
        """Call a function once, as soon as one of some names is gone.

        Args:
            names: Each may still have to come; one that does not counts as gone.
            call_back: Is called in the thread that is returned.
            poll_frequency: Seconds between looks.
            wait_timeout: How long a name may take to come, in seconds.
        """
        watched = [names] if isinstance(names, str) else list(names)

        def watch() -> None:
            try:
                for name in watched:
                    self.wait(name, wait_timeout, poll_frequency)
                while True:
                    for name in watched:
                        self.get(name)
                    time.sleep(poll_frequency)
            except (NameEntryNotFoundError, TimeoutError) as gone:
                logger.info("%s", gone)
                call_back()

        thread = threading.Thread(target=watch, name="areal-names", daemon=True)
        thread.start()
        return thread

    # --- inside

    def _disown(self, name: str) -> None:
        with self._lock:
            self._owned.discard(name)
            self._kept_alive.pop(name, None)

    def _refresh_all(self) -> float | None:
        """Refresh what is kept alive, and return after how many seconds to do so again.

        None where there is nothing: the thread that asks is then no longer the keeper.
        """
        with self._lock:
            kept = dict(self._kept_alive)
            if not kept:
                self._keeper = None
                return None
        for name in kept:
            with contextlib.suppress(OSError):
                self._refresh(name)
        return min(kept.values()) / _REFRESHES_PER_TTL


def _keep_alive(reference: weakref.ref[NameRecordRepository], wake: threading.Event) -> None:
    """Refresh a repository's names; holds it only while it does so."""
    while (repository := reference()) is not None:
        pause_s = repository._refresh_all()
        del repository
        if pause_s is None:
            return
        # A repository that is dropped is noticed at the latest after a minute.
        wake.wait(min(pause_s, 60.0))
        wake.clear()


class MemoryNameRecordRepository(NameRecordRepository):
    """Names of this process alone."""

    def __init__(self) -> None:
        super().__init__()
        # Value, seconds to live, and when they began.
        self._records: dict[str, tuple[str, float | None, float]] = {}

    def _put(self, name: str, value: str, ttl_s: float | None, replace: bool) -> bool:
        with self._lock:
            if not replace and self._living(name) is not None:
                return False
            self._records[name] = (value, ttl_s, time.monotonic())
            return True

    def _find(self, name: str) -> str | None:
        with self._lock:
            return self._living(name)

    def _living(self, name: str) -> str | None:
        value, ttl_s, since = self._records.get(name, (None, None, 0.0))
        if ttl_s is not None and time.monotonic() - since > ttl_s:
            return None
        return value

    def _remove(self, name: str) -> bool:
        with self._lock:
            was_there = self._living(name) is not None
            self._records.pop(name, None)
            return was_there

    def _list(self, root: str) -> list[str]:
        with self._lock:
            return sorted(
                name
                for name in self._records
                if f"{name}/".startswith(f"{root}/") and self._living(name) is not None
            )

    def _refresh(self, name: str) -> None:
        with self._lock:
            if name in self._records:
                value, ttl_s, _ = self._records[name]
                self._records[name] = (value, ttl_s, time.monotonic())


class NfsNameRecordRepository(NameRecordRepository):
    """Names as files, for all processes that see a folder.

    Args:
        record_root: The folder; "" takes the default of ``cluster.name_resolve``.
    """

    def __init__(self, record_root: str | Path = "") -> None:
        super().__init__()
        self._root = Path(record_root or NameResolveConfig().nfs_record_root)
        weakref.finalize(self, _remove_owned, self._root, self._owned, os.getpid())

    def _put(self, name: str, value: str, ttl_s: float | None, replace: bool) -> bool:
        folder = self._root / name
        if {_ENTRY, _TTL} & set(name.split("/")):
            raise ValueError(f"{_ENTRY} and {_TTL} are not parts of a name, found {name!r}")
        with _locked(self._root):
            if not replace and self._find(name) is not None:
                return False
            folder.mkdir(parents=True, exist_ok=True)
            if ttl_s is None:
                (folder / _TTL).unlink(missing_ok=True)
            else:
                _write(folder / _TTL, repr(float(ttl_s)))
            _write(folder / _ENTRY, value)
        return True

    def _find(self, name: str) -> str | None:
        entry = self._root / name / _ENTRY
        try:
            value, since = entry.read_text(encoding="utf-8"), entry.stat().st_mtime
        except (FileNotFoundError, NotADirectoryError):
            return None
        try:
            ttl_s = float(entry.with_name(_TTL).read_text())
        except FileNotFoundError:
            return value
        # Clocks of machines that share a folder agree to a second or so.
        return value if time.time() - since <= ttl_s else None

    def _remove(self, name: str) -> bool:
        was_there = self._find(name) is not None
        _remove_files(self._root, name)
        return was_there

    def _list(self, root: str) -> list[str]:
        entries = (self._root / root).rglob(_ENTRY)
        names = (entry.parent.relative_to(self._root).as_posix() for entry in entries)
        return sorted(name for name in names if self._find(name) is not None)

    def _refresh(self, name: str) -> None:
        os.utime(self._root / name / _ENTRY)


@contextlib.contextmanager
def _locked(root: Path) -> Iterator[None]:
    root.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(root, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _write(path: Path, text: str) -> None:
    """Write a file that is complete or absent."""
    part = path.with_name(f".{path.name}-{uuid.uuid4().hex[:8]}")
    part.write_text(text, encoding="utf-8")
    part.replace(path)


def _remove_files(root: Path, name: str) -> None:
    if not root.is_dir():
        return
    with _locked(root):
        folder = root / name
        for file in (_ENTRY, _TTL):
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                (folder / file).unlink()
        while folder != root:
            try:
                folder.rmdir()
            except OSError:  # holds other names
                return
            folder = folder.parent


def _remove_owned(root: Path, names: set[str], owner_pid: int) -> None:
    """Delete what a repository leaves; a forked copy of it leaves that to the original."""
    if os.getpid() == owner_pid:
        for name in names:
            _remove_files(root, name)


def _normalised(name: str) -> str:
    parts = [part for part in name.split("/") if part]
    if not parts or {".", ".."} & set(parts):
        raise ValueError(f"a name is a path such as 'run/servers/0', found {name!r}")
    return "/".join(parts)


def make_repository(config: NameResolveConfig) -> NameRecordRepository:
    """Return the repository of ``cluster.name_resolve``.

    Raises:
        ConfigError: Its type is unknown, or not available here.
    """
    if config.type == "memory":
        return MemoryNameRecordRepository()
    if config.type == "nfs":
        return NfsNameRecordRepository(config.nfs_record_root)
    if config.type in ("etcd3", "ray"):
        raise ConfigError(
            f"cluster.name_resolve.type {config.type!r} is not available here; set it to nfs, with "
            "nfs_record_root in a folder that all machines see"
        )
    raise ConfigError(
        f"cluster.name_resolve.type {config.type!r} is unknown; known: nfs, and memory for one "
        "process"
    )


DEFAULT_REPOSITORY: NameRecordRepository = MemoryNameRecordRepository()


def reconfigure(config: NameResolveConfig) -> None:
    """Have the functions of this module use the repository of ``cluster.name_resolve``.

    What was added before stays where it is until its process ends.

    Raises:
        ConfigError: Its type is unknown, or not available here.
    """
    global DEFAULT_REPOSITORY
    DEFAULT_REPOSITORY = make_repository(config)


def add(
    name: str,
    value: Any,
    delete_on_exit: bool = True,
    keepalive_ttl: float | None = None,
    replace: bool = False,
) -> None:
    """Keep a value under a name; see ``NameRecordRepository``, as for all functions below."""
    DEFAULT_REPOSITORY.add(name, value, delete_on_exit, keepalive_ttl, replace)


def add_subentry(name: str, value: Any, **options: Any) -> str:
    return DEFAULT_REPOSITORY.add_subentry(name, value, **options)


def get(name: str) -> str:
    return DEFAULT_REPOSITORY.get(name)


def get_subtree(name_root: str) -> list[str]:
    return DEFAULT_REPOSITORY.get_subtree(name_root)


def find_subtree(name_root: str) -> list[str]:
    return DEFAULT_REPOSITORY.find_subtree(name_root)


def wait(name: str, timeout: float | None = None, poll_frequency: float = 1.0) -> str:
    return DEFAULT_REPOSITORY.wait(name, timeout, poll_frequency)


def delete(name: str) -> None:
    DEFAULT_REPOSITORY.delete(name)


def clear_subtree(name_root: str) -> None:
    DEFAULT_REPOSITORY.clear_subtree(name_root)


def reset() -> None:
    DEFAULT_REPOSITORY.reset()


def watch_names(
    names: str | Iterable[str],
    call_back: Callable[[], Any],
    poll_frequency: float = 15.0,
    wait_timeout: float = 300.0,
) -> threading.Thread:
    return DEFAULT_REPOSITORY.watch_names(names, call_back, poll_frequency, wait_timeout)
