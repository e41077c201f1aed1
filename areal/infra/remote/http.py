"""One request to one server: with a deadline, a bounded answer and errors that quote no payload."""

from __future__ import annotations

import asyncio
import json
import weakref
from typing import Any

import aiohttp
from yarl import URL

from areal.api.errors import ArealError
from areal.api.io_struct import HttpRequest
from areal.infra.workflow_context import register_loop_cleanup

# Log-probabilities and versions of a million tokens fit.
MAX_ANSWER_BYTES = 128 << 20
_CONNECT_TIMEOUT_S = 10.0
# Of what a server writes into an error, which is for people; never what it was sent.
_MAX_REASON = 400


class ServerFaultError(ArealError, RuntimeError):
    """A server could not be reached, failed, or answered with nonsense: another one may do."""


class ServerLostError(ServerFaultError):
    """The connection could not be made, or broke before the answer was there."""


class RequestRefusedError(ArealError, RuntimeError):
    """A server refused a request as wrong (4xx): no other one will take it."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class HttpClient:
    """Sends requests over one session for each event loop, which is closed with its loop.

    Args:
        api_key: Goes along as a bearer token; empty sends none.
        max_answer_bytes: Longer answers are faults.
    """

    def __init__(self, api_key: str = "", max_answer_bytes: int = MAX_ANSWER_BYTES) -> None:
        self._headers = {"Content-Type": "application/json"}
        if api_key:
            self._headers["Authorization"] = f"Bearer {api_key}"
        self._max_answer_bytes = max_answer_bytes
        self._urls: dict[tuple[str, str], URL] = {}
        self._sessions: weakref.WeakKeyDictionary[
            asyncio.AbstractEventLoop, aiohttp.ClientSession
        ] = weakref.WeakKeyDictionary()

    async def send(self, address: str, request: HttpRequest, timeout_s: float) -> Any:
        """Send a request and return the parsed answer; None where it is not JSON.

        Args:
            address: "host:port", or a URL.
            request: What to send.
            timeout_s: Of the whole exchange.

        Raises:
            ServerLostError: There is no connection, or it broke.
            ServerFaultError: No answer came in time, it is too long, no JSON in spite of its
                type, or has a status of 5xx.
            RequestRefusedError: The status is 4xx.
        """
        # What to do after an error is the caller's choice, so the parts of one are kept together.
        where = f"server {address}, {request.endpoint}"
        try:
            session = self._sessions.get(asyncio.get_running_loop()) or await self._open_session()
            async with session.request(
                request.method,
                self._url(address, request.endpoint),
                data=None if request.method == "GET" else json.dumps(request.payload).encode(),
                headers=self._headers,
                timeout=aiohttp.ClientTimeout(timeout_s, sock_connect=_CONNECT_TIMEOUT_S),
                allow_redirects=False,
            ) as answer:
                body = await self._read(answer, where)
                status, kind = answer.status, answer.content_type
        except TimeoutError as error:
            raise ServerFaultError(f"{where}: no answer within {timeout_s:g} s") from error
        except (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError) as error:
            raise ServerLostError(f"{where}: {type(error).__name__}") from error
        except aiohttp.ClientError as error:
            raise ServerFaultError(f"{where}: {type(error).__name__}") from error
        if 200 <= status < 300:
            return _parse(body, kind, where)
        message = f"{where}: status {status}{_reason(body)}"
        if 400 <= status < 500:
            raise RequestRefusedError(message, status)
        raise ServerFaultError(message)

    async def _read(self, answer: aiohttp.ClientResponse, where: str) -> bytes:
        limit = self._max_answer_bytes
        if answer.content_length is not None and answer.content_length <= limit:
            return await answer.read()
        parts: list[bytes] = []
        size = 0
        async for part in answer.content.iter_any():
            size += len(part)
            if size > limit:
                answer.close()
                raise ServerFaultError(f"{where}: the answer is longer than {limit} bytes")
            parts.append(part)
        return b"".join(parts)

    def _url(self, address: str, endpoint: str) -> URL:
        url = self._urls.get((address, endpoint))
        if url is None:
            base = address if "://" in address else f"http://{address}"
            url = self._urls[address, endpoint] = URL(base.rstrip("/") + endpoint)
        return url

    async def _open_session(self) -> aiohttp.ClientSession:
        session = aiohttp.ClientSession(
            # Thousands of requests wait for slow generations at once.
            connector=aiohttp.TCPConnector(limit=0),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None),
        )
        self._sessions[asyncio.get_running_loop()] = session
        await register_loop_cleanup(session.close)
        return session


def _parse(body: bytes, kind: str, where: str) -> Any:
    if kind != "application/json":
        return None
    try:
        return json.loads(body)
    except ValueError as error:
        raise ServerFaultError(f"{where}: the answer is not the JSON that it should be") from error


def _reason(body: bytes) -> str:
    """Return what a server gives as the reason, unless it may quote the request.

    SGLang has ``message`` or ``error.message``, vLLM ``error.message`` or ``detail``. Long ones and
    those with lists are dropped.
    """
    try:
        found = json.loads(body)
    except ValueError:
        return ""
    for _ in range(2):
        if isinstance(found, dict):
            found = next((found[k] for k in ("error", "message", "detail") if k in found), None)
    if not isinstance(found, str) or not 0 < len(found) <= _MAX_REASON or set("[{") & set(found):
        return ""
    return f" ({found})"
