"""Names that processes find each other by, in memory and in a shared folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from areal.api.cli_args import NameResolveConfig
from areal.api.errors import ConfigError
from areal.utils import name_resolve, names
from areal.utils.name_resolve import (
    MemoryNameRecordRepository,
    NameEntryExistsError,
    NameEntryNotFoundError,
    NameRecordRepository,
    NfsNameRecordRepository,
)

ROOT = Path(__file__).parents[3]
TIMEOUT_S = 30.0


@pytest.fixture(params=["memory", "nfs"])
def names_here(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[NameRecordRepository]:
    kind = request.param
    made = MemoryNameRecordRepository() if kind == "memory" else NfsNameRecordRepository(tmp_path)
    yield made
    made.reset()


def until(condition: Callable[[], bool]) -> None:
    give_up_at = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < give_up_at
        time.sleep(0.01)


def test_a_value_comes_back_as_text(names_here: NameRecordRepository) -> None:
    names_here.add("a/b", 7)
    names_here.add("a/c", "line one\nline two \u00e9")
    assert names_here.get("a/b") == "7"
    assert names_here.get("a/c") == "line one\nline two \u00e9"


def test_slashes_do_not_make_another_name(names_here: NameRecordRepository) -> None:
    names_here.add("//a///b/", 1)
    assert names_here.get("a/b") == names_here.get("/a/b/") == "1"


@pytest.mark.parametrize("name", ["", "/", "a/../b", "./a"])
def test_what_is_no_path_is_refused(names_here: NameRecordRepository, name: str) -> None:
    with pytest.raises(ValueError, match="a name is a path"):
        names_here.add(name, 1)


def test_a_name_is_taken_until_it_is_replaced(names_here: NameRecordRepository) -> None:
    names_here.add("a", 1)
    with pytest.raises(NameEntryExistsError, match="'a' is taken"):
        names_here.add("a/", 2)
    assert names_here.get("a") == "1"
    names_here.add("a", 2, replace=True)
    assert names_here.get("a") == "2"
    names_here.add("b", 3, replace=True)
    assert names_here.get("b") == "3"


def test_a_missing_name_is_an_error(names_here: NameRecordRepository) -> None:
    names_here.add("a/b", 1)
    for missing in ("b", "a", "a/b/c"):
        with pytest.raises(NameEntryNotFoundError, match=missing):
            names_here.get(missing)
        with pytest.raises(NameEntryNotFoundError, match=missing):
            names_here.delete(missing)
    names_here.delete("a/b")
    with pytest.raises(NameEntryNotFoundError):
        names_here.get("a/b")
    names_here.add("a/b", 2)
    assert names_here.get("a/b") == "2"


def test_a_subtree_ends_at_a_slash(names_here: NameRecordRepository) -> None:
    for name in ("run/servers", "run/servers/1", "run/servers/0", "run/servers2", "other"):
        names_here.add(name, f"at {name}")
    assert names_here.find_subtree("run/servers/") == [
        "run/servers",
        "run/servers/0",
        "run/servers/1",
    ]
    assert names_here.get_subtree("run/servers") == [
        "at run/servers",
        "at run/servers/0",
        "at run/servers/1",
    ]
    assert names_here.get_subtree("nowhere") == names_here.find_subtree("nowhere") == []
    names_here.clear_subtree("run/servers")
    names_here.clear_subtree("nowhere")
    assert names_here.find_subtree("run") == ["run/servers2"]
    assert names_here.get("other") == "at other"


def test_subentries_have_names_of_their_own(names_here: NameRecordRepository) -> None:
    made = {names_here.add_subentry("servers", i) for i in range(3)}
    assert set(names_here.find_subtree("servers")) == made
    assert sorted(names_here.get_subtree("servers")) == ["0", "1", "2"]


def test_waiting_ends_with_the_value_or_the_time(names_here: NameRecordRepository) -> None:
    with pytest.raises(TimeoutError, match=r"'late' in 0\.05 s"):
        names_here.wait("late", timeout=0.05, poll_frequency=0.01)
    adding = threading.Timer(0.05, names_here.add, ("late", "here"))
    adding.start()
    assert names_here.wait("late", timeout=TIMEOUT_S, poll_frequency=0.01) == "here"
    adding.join()
    assert names_here.wait("late", timeout=0) == "here"


def test_a_name_is_kept_alive_by_its_process(names_here: NameRecordRepository) -> None:
    ttl_s = 0.2
    names_here.add("a", 1, keepalive_ttl=ttl_s)
    time.sleep(3 * ttl_s)
    assert names_here.get("a") == "1"
    # Nobody refreshes it any more.
    names_here._kept_alive.clear()
    until(lambda: names_here.find_subtree("a") == [])
    with pytest.raises(NameEntryNotFoundError):
        names_here.get("a")
    names_here.add("a", 2)
    time.sleep(1.5 * ttl_s)
    assert names_here.get("a") == "2"
    with pytest.raises(ValueError, match="keepalive_ttl"):
        names_here.add("b", 1, keepalive_ttl=0)


def test_reset_takes_back_what_is_deleted_on_exit(names_here: NameRecordRepository) -> None:
    names_here.add("stays", 1, delete_on_exit=False)
    names_here.add("goes", 2)
    names_here.add("changes", 3)
    names_here.add("changes", 4, delete_on_exit=False, replace=True)
    names_here.reset()
    assert names_here.find_subtree("goes") == []
    assert [names_here.get("stays"), names_here.get("changes")] == ["1", "4"]
    names_here.add("goes", 5)
    names_here.reset()
    assert names_here.find_subtree("goes") == []


def test_a_watch_calls_back_once_when_a_name_is_gone(names_here: NameRecordRepository) -> None:
    called = []
    names_here.add("a", 1)
    names_here.add("b", 1)
    watch = names_here.watch_names(["a", "b"], lambda: called.append(1), 0.01, TIMEOUT_S)
    time.sleep(0.05)
    assert not called
    names_here.delete("b")
    watch.join(TIMEOUT_S)
    never = names_here.watch_names("never", lambda: called.append(2), 0.01, wait_timeout=0.02)
    never.join(TIMEOUT_S)
    assert called == [1, 2]


def test_only_one_of_many_writers_gets_a_name(names_here: NameRecordRepository) -> None:
    won: list[int] = []
    ready = threading.Barrier(8)

    def add(number: int) -> None:
        ready.wait(TIMEOUT_S)
        try:
            names_here.add("a", number)
        except NameEntryExistsError:
            return
        won.append(number)

    threads = [threading.Thread(target=add, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT_S)
    assert [str(number) for number in won] == [names_here.get("a")]


ADD = """
import sys
from areal.utils.name_resolve import NfsNameRecordRepository

names = NfsNameRecordRepository(sys.argv[1])
names.add("stays", 1, delete_on_exit=False)
names.add("goes", 2)
names.add("kept", 3, keepalive_ttl=0.5)
print("added", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("is_killed", [False, True])
def test_what_a_process_leaves(tmp_path: Path, is_killed: bool) -> None:
    names_here = NfsNameRecordRepository(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", ADD, tmp_path],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"added\n"
        assert names_here.find_subtree("goes") == ["goes"]
        if is_killed:
            process.send_signal(signal.SIGKILL)
        process.communicate(timeout=TIMEOUT_S)
    assert names_here.get("stays") == "1"
    assert names_here.find_subtree("goes") == (["goes"] if is_killed else [])
    until(lambda: names_here.find_subtree("kept") == [])
    names_here.clear_subtree("stays")
    names_here.clear_subtree("goes")
    assert names_here.find_subtree("/stays") == names_here.find_subtree("goes") == []


def test_the_module_uses_what_is_configured(tmp_path: Path) -> None:
    before = name_resolve.DEFAULT_REPOSITORY
    try:
        name_resolve.reconfigure(NameResolveConfig(nfs_record_root=str(tmp_path)))
        root = names.gen_servers("e", "t")
        name_resolve.add(f"{root}/0", "127.0.0.1:1")
        below = name_resolve.add_subentry(root, "127.0.0.1:2")
        other = NfsNameRecordRepository(tmp_path)
        assert sorted(other.get_subtree(root)) == ["127.0.0.1:1", "127.0.0.1:2"]
        assert name_resolve.wait(below, 1) == name_resolve.get(below) == "127.0.0.1:2"
        name_resolve.delete(below)
        assert name_resolve.find_subtree(root) == [f"{root}/0"]
        name_resolve.reset()
        assert name_resolve.get_subtree(root) == []
    finally:
        name_resolve.DEFAULT_REPOSITORY = before


@pytest.mark.parametrize(
    ("kind", "message"), [("etcd3", "not available"), ("ray", "not available"), ("nsf", "unknown")]
)
def test_other_kinds_are_refused(kind: str, message: str) -> None:
    with pytest.raises(ConfigError, match=rf"name_resolve\.type '{kind}' is {message}"):
        name_resolve.reconfigure(NameResolveConfig(type=kind))
