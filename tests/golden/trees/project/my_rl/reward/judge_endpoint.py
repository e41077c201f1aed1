"""Asks a language model behind an OpenAI-compatible endpoint: patiently, and only once."""

from __future__ import annotations

import contextlib
import email.utils
import functools
import hashlib
import json
import os
import queue
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import httpx

# Below the 15 s that a reward call may take, so that the caller hears of the cause.
BUDGET_S = 13.0
ATTEMPT_S = 8.0
FIRST_WAIT_S, LONGEST_WAIT_S = 0.25, 4.0
MAX_REPLIES = 3
MAX_BYTES = 4 << 20
MAX_REMEMBERED = 100_000
RETRIED = {408, 409, 425, 429}
"""Refusals that may pass, as errors of the server (500 and above) do."""

REQUEST: dict[str, Any] = {"temperature": 0, "max_tokens": 1024}
"""What every request says beside the model and the messages."""

Message = dict[str, str]
_remembered: dict[str, str] = {}


class JudgeError(RuntimeError):
    """There is no verdict: a fault of the grader, and no reward of 0.0."""


class Endpoint(NamedTuple):
    """Is a model at an endpoint.

    Args:
        base_url: Where it is, up to "/v1"; the environment variable JUDGE_BASE_URL wins.
        model: Its name there; JUDGE_MODEL wins.
        cache_dir: Keeps replies for all processes, or this one's memory does; JUDGE_CACHE_DIR wins.
    """

    base_url: str
    model: str
    cache_dir: str = ""

    def ask(self, messages: list[Message], read: Callable[[str], float | None], hint: str) -> float:
        """Returns what is read from the model's reply, which is asked for once and then remembered.

        Args:
            messages: The chat.
            read: Finds the verdict in a reply, None where there is none.
            hint: What the model is told after a reply without a verdict.

        Raises:
            JudgeError: The endpoint refuses or stays down, or no reply holds a verdict.
        """
        here = self._here()
        text = json.dumps([here.base_url, here.model, REQUEST, messages])
        key = hashlib.sha256(text.encode()).hexdigest()
        known = _load(here.cache_dir, key)
        verdict = None if known is None else read(known)
        if verdict is not None:
            return verdict
        stop_at = time.monotonic() + BUDGET_S
        reply = ""
        for _ in range(MAX_REPLIES):
            reply = here._reply(messages, stop_at)
            verdict = read(reply)
            if verdict is not None:
                _save(here.cache_dir, key, reply)
                return verdict
            said = {"role": "assistant", "content": reply}
            messages = [*messages, said, {"role": "user", "content": hint}]
        shown = " ".join(reply.split())[-200:]
        raise JudgeError(f"{MAX_REPLIES} replies of the judge held no verdict; the last: {shown!r}")

    def _here(self) -> Endpoint:
        environ = os.environ
        found = Endpoint(
            environ.get("JUDGE_BASE_URL") or self.base_url,
            environ.get("JUDGE_MODEL") or self.model,
            environ.get("JUDGE_CACHE_DIR", self.cache_dir),
        )
        if not found.model:
            raise JudgeError("no judge is named: set the environment variable JUDGE_MODEL")
        return found

    def _reply(self, messages: list[Message], stop_at: float) -> str:
        url = self.base_url.rstrip("/") + "/chat/completions"
        body = {**REQUEST, "model": self.model, "messages": messages}
        wait_s, problem = FIRST_WAIT_S, ""
        while (left_s := stop_at - time.monotonic()) > 0:
            asked_s = 0.0
            try:
                status, headers, text = _post(url, body, min(left_s, ATTEMPT_S))
                problem = f"status {status}: {' '.join(text.split())[:200]}"
                if status == 200:
                    return _content(text)
                if status not in RETRIED and status < 500:
                    raise JudgeError(f"{url} refuses: {problem}")
                asked_s = _retry_after_s(headers.get("retry-after", ""))
            except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
                raise JudgeError(f"the judge's address {url!r} is wrong: {error}") from error
            except httpx.TransportError as error:
                problem = f"{type(error).__name__}: {error}"
            except (LookupError, TypeError, ValueError):
                pass  # a proxy's page, or half an answer
            # At random, so that processes that were refused at once do not come back at once.
            pause_s = max(asked_s, wait_s * random.uniform(0.5, 1.0))
            if time.monotonic() + pause_s >= stop_at:
                break
            time.sleep(pause_s)
            wait_s = min(2 * wait_s, LONGEST_WAIT_S)
        raise JudgeError(f"{url} gave no answer within {BUDGET_S:g} s; the last was {problem}")


@functools.cache
def _client(pid: int) -> httpx.Client:
    """Returns the connections of one process: they do not survive a fork."""
    return httpx.Client()


def _post(url: str, body: dict[str, Any], limit_s: float) -> tuple[int, httpx.Headers, str]:
    """Waits for an answer in another thread: httpx bounds each step, and not their sum."""
    answers: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def exchange() -> None:
        try:
            answers.put(_exchange(url, body, limit_s))
        except Exception as error:
            answers.put(error)

    threading.Thread(target=exchange, daemon=True).start()
    try:
        answer = answers.get(timeout=limit_s)
    except queue.Empty:
        raise httpx.ReadTimeout("the answer does not end") from None
    if isinstance(answer, Exception):
        raise answer
    return answer


def _exchange(url: str, body: dict[str, Any], limit_s: float) -> tuple[int, httpx.Headers, str]:
    key = os.environ.get("JUDGE_API_KEY", "").strip()
    if not (key.isascii() and key.isprintable()):  # the error of httpx would show it
        raise JudgeError("JUDGE_API_KEY holds characters that no header can carry")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    stop_at = time.monotonic() + limit_s
    data = bytearray()
    with _client(os.getpid()).stream(
        "POST", url, json=body, headers=headers, timeout=limit_s
    ) as response:
        for part in response.iter_bytes():
            data += part
            if time.monotonic() > stop_at or len(data) > MAX_BYTES:
                raise httpx.ReadTimeout("the answer does not end")
    return response.status_code, response.headers, data.decode("utf-8", "replace")


def _content(text: str) -> str:
    choice = json.loads(text)["choices"][0]
    reply = str(choice["message"]["content"] or "")
    # The last words of half a reply may be a verdict that it quotes.
    if choice.get("finish_reason") == "length":
        return "(cut off at max_tokens)"
    return reply.encode("utf-8", "replace").decode()  # lone surrogates cannot be sent back


def _retry_after_s(text: str) -> float:
    """Returns the wait that a server asks for, in seconds or until a date; 0 where it asks none."""
    with contextlib.suppress(ValueError):
        return max(0.0, float(text))
    with contextlib.suppress(TypeError, ValueError):
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - time.time())
    return 0.0


def _load(folder: str, key: str) -> str | None:
    if not folder:
        return _remembered.get(key)
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
        return str(json.loads(_file(folder, key).read_text(encoding="utf-8"))["reply"])
    return None


def _save(folder: str, key: str, reply: str) -> None:
    """Remembers a reply; a file appears whole or not at all, whoever else writes it."""
    if not folder:
        while len(_remembered) >= MAX_REMEMBERED:
            _remembered.pop(next(iter(_remembered)), None)
        _remembered[key] = reply
        return
    path = _file(folder, key)
    draft = path.with_suffix(f".{os.getpid()}-{random.getrandbits(64):x}")
    # A full disk costs the next run a question, and this one nothing.
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            draft.write_text(json.dumps({"reply": reply}), encoding="utf-8")
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)


def _file(folder: str, key: str) -> Path:
    return Path(folder).expanduser() / key[:2] / f"{key}.json"
