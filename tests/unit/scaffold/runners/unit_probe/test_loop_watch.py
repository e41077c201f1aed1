"""What holds up the event loop is seen with its line, and what does not is left alone."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

RUNNERS = Path(__file__).parents[5] / "scaffold" / "runners"
# Runners are no package of the toolkit: a target's interpreter finds them by their folder.
sys.path.insert(0, str(RUNNERS))
try:
    from unit_probe import loop_watch, probe_rewards
finally:
    sys.path.remove(str(RUNNERS))

HEAD = """
import asyncio, concurrent.futures.process, concurrent.futures.thread
import hashlib, json, socket, time, httpx

async def episode(tools):
"""


@pytest.fixture
def server() -> Iterator[tuple[str, int]]:
    """Listens, and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[:2]


def seen(folder: Path, line: str, tools: dict[str, Any] | None = None) -> list[tuple[str, str]]:
    """Returns what is found of three episodes that consist of one line."""
    source = folder / "my_flow.py"
    source.write_text(f"{HEAD}    {line}\n    await asyncio.sleep(0)\n")
    scope: dict[str, Any] = {}
    exec(compile(source.read_text(), str(source), "exec"), scope)

    async def every() -> list[tuple[str, str]]:
        with loop_watch.watched(str(folder)) as watch:
            await asyncio.gather(*(scope["episode"](tools or {}) for _ in range(3)))
        return watch.problems()

    return asyncio.run(every())


@pytest.mark.parametrize(
    ("line", "check"),
    [
        ("time.sleep(0.06)", "event loop"),
        ("hashlib.pbkdf2_hmac('sha256', b'x', b'y', 150_000)", "event loop"),
        ("open(__import__('os').devnull).close()", "files"),
        ("httpx.AsyncClient()", "client"),
        ("socket.create_connection(tools['server'], timeout=1).close()", "http"),
        ("tools['reward']('', '', [], [])", "reward"),
        ("httpx.Client()", "client"),
        ("__import__('sqlite3').connect(':memory:').close()", "files"),
        ("__import__('subprocess').run(['true'])", "event loop"),
        ("concurrent.futures.thread.ThreadPoolExecutor(1)", "event loop"),
        ("concurrent.futures.process.ProcessPoolExecutor(1)", "event loop"),
    ],
)
def test_what_holds_up_the_others_is_found_with_its_line(
    tmp_path: Path, server: tuple[str, int], line: str, check: str
):
    found = dict(seen(tmp_path, line, {"server": server, "reward": probe_rewards.right}))
    assert check in found
    assert found[check].startswith("my_flow.py:6 in episode: ")
    assert found[check].endswith(", 3 times")


@pytest.mark.parametrize(
    "line",
    [
        "await asyncio.sleep(0.03)",
        "await asyncio.to_thread(time.sleep, 0.03)",
        "await asyncio.to_thread(tools['reward'], '', '', [], [])",
        "await asyncio.to_thread(lambda: open(__file__ if 0 else '/dev/null').close())",
        "(await asyncio.open_connection(*tools['server']))[1].close()",
        "import colorsys",
        "await (await asyncio.create_subprocess_exec('true')).wait()",
        "await tools['client'].aclose()",
    ],
)
def test_what_does_not_is_left_alone(tmp_path: Path, server: tuple[str, int], line: str):
    tools = {"server": server, "reward": probe_rewards.right, "client": httpx.AsyncClient()}
    assert seen(tmp_path, line, tools) == []


CLIENTS = [
    ("openai", "openai.AsyncOpenAI(api_key='k', base_url='http://127.0.0.1/v1')"),
    ("openai", "openai.DefaultAsyncHttpxClient()"),
    ("aiohttp", "await aiohttp.ClientSession().close()"),
]


@pytest.mark.parametrize(("library", "line"), CLIENTS, ids=range(len(CLIENTS)))
def test_a_client_in_each_episode_is_seen_of_every_library(tmp_path: Path, library: str, line: str):
    pytest.importorskip(library)
    found = dict(seen(tmp_path, f"import {library}; {line}"))
    wanted = "creates an HTTP client in the episode; share the one in extra_kwargs, 3 times"
    assert found["client"].endswith(wanted)


@pytest.mark.parametrize("library", ["httpx", "httpx2", "requests"])
def test_a_synchronous_client_is_seen_though_it_keeps_its_connection(tmp_path: Path, library: str):
    kind = pytest.importorskip(library)
    if library == "requests":
        client: Any = kind.Session()
        client.mount("http://", Answering())
    else:
        client = kind.Client(transport=kind.MockTransport(lambda request: kind.Response(200)))
    found = dict(seen(tmp_path, "tools['shared'].get('http://127.0.0.1/')", {"shared": client}))
    assert found["http"].startswith("my_flow.py:6 in episode: sends a request and waits")


class Answering:
    """Answers in the place of a connection that requests keeps open."""

    def send(self, request: Any, **options: Any) -> Any:
        import requests

        answer = requests.Response()
        answer.status_code, answer.url, answer._content = 200, request.url, b""
        return answer

    def close(self) -> None:
        """Keeps nothing."""


def test_a_project_may_stand_in_a_folder_of_the_package_s_name(tmp_path: Path):
    folder = tmp_path / "areal" / "my_rl"
    folder.mkdir(parents=True)
    assert "event loop" in dict(seen(folder, "time.sleep(0.06)"))


def test_what_computes_in_many_lines_is_one_fault(tmp_path: Path):
    lines = ["n = tools['n'] = tools.get('n', 0) + 1"]
    lines += [f"if n == {n}: time.sleep(0.04 + {n} / 100)" for n in (1, 2, 3)]
    ((check, text),) = seen(tmp_path, "\n    ".join(lines), {"": 1})
    assert check == "event loop"
    assert text.startswith("my_flow.py:9 in episode: ")
    assert text.endswith(", 3 times")


def test_a_synchronous_openai_client_is_named(tmp_path: Path):
    openai = pytest.importorskip("openai")
    line = "tools['openai'](api_key='k', base_url='http://127.0.0.1/v1').close()"
    found = [text for _, text in seen(tmp_path, line, {"openai": openai.OpenAI})]
    assert any("creates a synchronous OpenAI client in the episode" in text for text in found)


def test_a_client_of_a_library_that_an_episode_imports_is_seen(tmp_path: Path):
    kept = {name: sys.modules.pop(name) for name in [*sys.modules] if name.startswith("httpx")}
    try:
        found = dict(seen(tmp_path, "import httpx; httpx.AsyncClient()"))
    finally:
        sys.modules.update(kept)
    assert "creates an HTTP client in the episode" in found["client"]


@pytest.mark.heavy
def test_a_tokenizer_that_each_episode_loads_is_seen_in_any_thread(tmp_path: Path):
    from areal.testing import make_tokenizer

    tokenizer = make_tokenizer()
    tokenizer.save_pretrained(tmp_path / "saved")
    line = "await asyncio.to_thread(lambda: tools['kind'].from_pretrained(tools['path']))"
    found = seen(tmp_path, line, {"kind": type(tokenizer), "path": tmp_path / "saved"})
    assert any("loads a tokenizer or model in the episode" in text for _, text in found)


def test_waiting_for_a_core_is_no_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    line = "hashlib.pbkdf2_hmac('sha256', b'x', b'y', 150_000)"
    # As on a machine where the thread is ready all the time, and never has a core.
    monkeypatch.setattr(loop_watch, "queued_s", lambda _: time.monotonic())
    assert seen(tmp_path, line) == []


def test_how_long_a_thread_waited_for_a_core_is_known_here():
    if not Path("/proc/self/schedstat").exists():
        pytest.skip("this system does not count it")
    before = loop_watch.queued_s(threading.get_native_id())
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        busy = [subprocess.Popen([sys.executable, "-c", "while 1: pass"]) for _ in range(3)]
        ends = time.monotonic() + 0.4
        while time.monotonic() < ends:
            pass
    finally:
        os.sched_setaffinity(0, cores)
        for each in busy:
            each.kill()
            each.wait()
    assert loop_watch.queued_s(threading.get_native_id()) - before > 0.1


def test_what_happens_once_is_no_fault(tmp_path: Path):
    line = "tools['done'] = tools.get('done') or time.sleep(0.05) or 1"
    assert seen(tmp_path, line, {"": 1}) == []
    assert asyncio.events.Handle._run.__name__ == "_run"


def test_the_page_s_agent_runs_and_holds_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    page = Path(__file__).parents[5] / "docs" / "en" / "agent-workflows.md"
    blocks = page.read_text("utf-8").split("```python\n")[1:]
    (block,) = (each.split("```")[0] for each in blocks)
    source = tmp_path / "one_answer.py"
    source.write_text(block)
    message = {"role": "assistant", "content": "5"}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    reply = {"id": "1", "object": "chat.completion", "created": 0, "model": "m"}
    reply["choices"] = [choice]

    class Wrapper:
        def __init__(self, reward_fn: Any) -> None:
            self.reward_fn = reward_fn

        async def __call__(self, *given: Any, **row: Any) -> float:
            return await asyncio.to_thread(self.reward_fn, *given, **row)

    monkeypatch.setattr("areal.api.AsyncRewardWrapper", Wrapper)
    scope: dict[str, Any] = {}
    exec(compile(block, str(source), "exec"), scope)

    async def every() -> tuple[list[float], list[tuple[str, str]]]:
        transport = httpx.MockTransport(lambda request: httpx.Response(200, json=reply))
        async with httpx.AsyncClient(transport=transport) as client:
            agent = scope["OneAnswer"](probe_rewards.right)
            extra = {"base_url": "http://127.0.0.1/v1", "api_key": "k", "http_client": client}
            row = {"messages": [{"role": "user", "content": "2+3?"}]}
            with loop_watch.watched(str(tmp_path)) as watch:
                rewards = await asyncio.gather(*(agent.run(row, **extra) for _ in range(3)))
        return rewards, [each for each in watch.problems() if each[0] != "event loop"]

    assert asyncio.run(every()) == ([1.0, 1.0, 1.0], [])
