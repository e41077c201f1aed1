"""The HTTP server: OpenAI's routes for agents, and a few for those who train them."""

from __future__ import annotations

import asyncio
import json
import logging
import math
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from aiohttp import web

from areal.api.errors import NoRoomError
from areal.experimental.openai.errors import RequestError, refusing_malformed
from areal.experimental.openai.proxy import anthropic
from areal.experimental.openai.proxy.sessions import (
    MakeRecorder,
    Session,
    SessionTable,
    is_same_key,
    session_ended,
)
from areal.experimental.openai.proxy.wire import to_wire
from areal.experimental.openai.streaming import chunks_of
from areal.infra import workflow_context
from areal.infra.loop_thread import LoopThread
from areal.infra.workflow_context import WorkflowContext

logger = logging.getLogger("OpenAIProxy")

# A conversation of a million tokens fits.
_MAX_BODY_BYTES = 16 << 20
_KINDS = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}
_FAULT = "server_error"

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ProxyServer:
    """Serves sessions over HTTP, in a thread of its own.

    Args:
        make_recorder: Makes what answers the requests of a session.
        admin_api_key: Opens the routes that begin sessions and hand out what they recorded.
        session_timeout_s: After so long without a request a session is forgotten.
        is_online: Whether sessions that end are waited for by ``/export_trajectories``.
        host: Where to listen.
        port: 0 takes a free one.
    """

    def __init__(
        self,
        make_recorder: MakeRecorder,
        admin_api_key: str,
        session_timeout_s: float = 3600,
        is_online: bool = False,
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        self.sessions = SessionTable(make_recorder, session_timeout_s)
        self._admin_api_key = admin_api_key
        self._look_every_s = min(max(session_timeout_s / 10, 0.05), 60.0)
        self._is_online = is_online
        self._place = (host, port)
        self._thread = LoopThread("areal-openai-proxy")
        self._runner: web.AppRunner | None = None

    def start(self) -> str:
        """Start serving and return the base URL, without ``/v1``.

        Raises:
            OSError: The port is taken.
        """
        host, port = self._thread.start_with(self._listen())
        return f"http://{host}:{port}"

    def stop(self) -> None:
        """Stop serving; requests under way are cut off. A second call does nothing."""
        runner, self._runner = self._runner, None
        if runner is None:
            return
        future = asyncio.run_coroutine_threadsafe(runner.cleanup(), self._thread.loop)
        try:
            future.result(timeout=10)
        except TimeoutError:
            logger.warning("the proxy did not close in time; its thread is stopped")
        self._thread.stop()

    async def _listen(self) -> tuple[str, int]:
        app = web.Application(client_max_size=_MAX_BODY_BYTES, middlewares=[_answer_errors])
        app.add_routes(
            [
                web.get("/health", self._health),
                web.post("/chat/completions", self._chat),
                web.post("/responses", self._responses),
                web.post("/v1/messages", self._messages),
                web.post("/rl/start_session", self._start_session),
                web.post("/rl/end_session", self._end_session),
                web.post("/rl/set_reward", self._set_reward),
                web.post("/export_trajectories", self._export),
                web.post("/grant_capacity", self._grant),
            ]
        )
        # A client that hangs up wants no answer: its generation is cancelled with the handler.
        runner = web.AppRunner(
            app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1
        )
        await runner.setup()
        await web.TCPSite(runner, *self._place).start()
        self._runner = runner
        self._thread.spawn(self._watch, ())
        return runner.addresses[0][0], runner.addresses[0][1]

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self._look_every_s)
            self.sessions.drop_idle()

    # --- who asks

    def _session(self, request: web.Request) -> Session:
        session = self.sessions.find(_key(request))
        # The engine draws from the episode's own random stream.
        workflow_context.set(session.context)
        return session

    @contextmanager
    def _answering(self, request: web.Request) -> Iterator[Session]:
        """Keep a session alive while the model answers, and stop the model where it ends."""
        session, task = self._session(request), asyncio.current_task()
        assert task is not None
        session.requests.add(task)
        try:
            yield session
        except asyncio.CancelledError:
            if session.is_ended:
                raise session_ended() from None
            raise
        finally:
            session.requests.discard(task)
            session.touch()

    def _check_admin(self, request: web.Request) -> None:
        if not is_same_key(_key(request), self._admin_api_key):
            raise RequestError("this route needs the admin key", status=401, code="invalid_api_key")

    # --- for agents

    async def _health(self, request: web.Request) -> web.Response:
        return web.json_response({"status": "ok", "sessions": len(self.sessions)})

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        with self._answering(request) as session:
            body = await _body(request)
            completion = await session.recorder.complete(body)
        if not body.get("stream"):
            return web.json_response(completion.model_dump(exclude_unset=True))
        options = body.get("stream_options") or {}
        chunks = chunks_of(completion, bool(options.get("include_usage")))
        events = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
        return await _stream(request, [*events, "data: [DONE]\n\n"])

    async def _responses(self, request: web.Request) -> web.Response:
        with self._answering(request) as session:
            response = await session.recorder.respond(await _body(request))
        return web.json_response(response.model_dump(exclude_unset=True))

    async def _messages(self, request: web.Request) -> web.StreamResponse:
        with self._answering(request) as session:
            body = await _body(request)
            completion = await session.recorder.complete(anthropic.to_chat(body))
        message = anthropic.from_chat(completion)
        if not body.get("stream"):
            return web.json_response(message)
        events = anthropic.events_of(message)
        return await _stream(
            request, [f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events]
        )

    # --- sessions

    async def _start_session(self, request: web.Request) -> web.Response:
        self._check_admin(request)
        body = await _body(request)
        context = WorkflowContext(
            bool(body.get("is_eval")), _task_id(body), _whole(body, "sample_idx")
        )
        api_key = body.get("api_key")
        if api_key is not None and not (isinstance(api_key, str) and api_key):
            raise RequestError(f"api_key is {api_key!r}, no string", param="api_key")
        if api_key is not None and is_same_key(api_key, self._admin_api_key):
            raise RequestError("the admin key opens no session", param="api_key")
        session = self.sessions.start(context, needs_grant=not body.get("is_own"), api_key=api_key)
        return web.json_response({"session_id": session.id, "api_key": session.api_key})

    async def _set_reward(self, request: web.Request) -> web.Response:
        session, body = self._session(request), await _body(request)
        with refusing_malformed("the reward"):
            interaction_id = _reward(session, body.get("interaction_id"), body.get("reward"))
        return web.json_response({"interaction_id": interaction_id, "reward": body["reward"]})

    async def _end_session(self, request: web.Request) -> web.Response:
        session, body = self._session(request), await _body(request)
        count = len(session.recorder.cache)
        self.sessions.end(session, forget=bool(body.get("discard")), announce=self._is_online)
        return web.json_response({"session_id": session.id, "interaction_count": count})

    async def _grant(self, request: web.Request) -> web.Response:
        self._check_admin(request)
        # Read before it is added to: another grant may arrive meanwhile.
        count = _whole(await _body(request), "n")
        self.sessions.capacity += 1 if count is None else max(count, 0)
        return web.json_response({"capacity": self.sessions.capacity})

    async def _export(self, request: web.Request) -> web.Response:
        """Hand out an ended session; without an id the next one that ends.

        With a list of ``rewards``, pairs of id and number, the session is ended here: what would
        take three requests takes one. With ``is_compact`` see ``to_wire``.
        """
        self._check_admin(request)
        body = await _body(request)
        session_id = body.get("session_id")
        if not isinstance(session_id, (str, type(None))):
            raise RequestError(f"session_id is {session_id!r}, no string", param="session_id")
        if session_id is not None:
            if "rewards" in body:
                session = self.sessions.get(session_id)
                with refusing_malformed("rewards"):
                    for interaction_id, reward in body["rewards"]:
                        _reward(session, interaction_id, reward)
                self.sessions.end(session, forget=False, announce=False)
            session = self.sessions.take(session_id)
        elif self._is_online:
            session = await self.sessions.take_next()
        else:
            raise RequestError("session_id is missing", param="session_id")
        interactions = to_wire(session.recorder.cache, is_compact=bool(body.get("is_compact")))
        return web.json_response({"session_id": session.id, "interactions": interactions})


def _reward(session: Session, interaction_id: str | None, reward: Any) -> str:
    """Set a reward, of the newest interaction where no id is given, and return the id."""
    cache = session.recorder.cache
    is_number = isinstance(reward, (int, float)) and not isinstance(reward, bool)
    if not is_number or not math.isfinite(reward):
        raise RequestError(f"reward must be a finite number, not {reward!r}", param="reward")
    if not cache:
        raise RequestError("there is nothing to reward: the model was not called")
    if interaction_id is None:
        interaction_id = cache.last_interaction_id
    if interaction_id not in cache:
        raise RequestError(
            f"there is no interaction {interaction_id!r} in this session",
            status=404,
            param="interaction_id",
        )
    cache.set_reward(interaction_id, float(reward))
    return interaction_id


# --- requests and answers -----------------------------------------------------------------------


def _key(request: web.Request) -> str:
    scheme, _, key = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return key.strip()
    # As Anthropic's SDK sends it.
    return request.headers.get("x-api-key", "")


async def _body(request: web.Request) -> dict[str, Any]:
    announced = request.content_length or 0
    if announced > _MAX_BODY_BYTES:  # it is not read at all
        raise web.HTTPRequestEntityTooLarge(_MAX_BODY_BYTES, announced)
    try:
        with refusing_malformed("the body is not valid JSON or"):
            body = await request.json() if request.can_read_body else {}
    except web.RequestPayloadError as error:  # compressed in a way that it is not
        raise RequestError(f"the body cannot be read: {error}") from error
    if not isinstance(body, dict):
        raise RequestError(f"the body must be an object, not {type(body).__name__}")
    return body


def _whole(body: dict[str, Any], name: str) -> int | None:
    value = body.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise RequestError(f"{name} must be a whole number, not {value!r}", param=name)
    return value


def _task_id(body: dict[str, Any]) -> int | None:
    """Return the row's number; an outside program may name its tasks as it likes."""
    task_id = body.get("task_id")
    if isinstance(task_id, str):
        return int(task_id) if task_id.isdecimal() else None
    return _whole(body, "task_id")


async def _stream(request: web.Request, events: list[str]) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
    await response.prepare(request)
    for event in events:
        await response.write(event.encode())
    await response.write_eof()
    return response


@web.middleware
async def _answer_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn every error into an answer with a body as OpenAI's servers write it."""
    try:
        return await handler(request)
    except RequestError as error:
        return _error(request, str(error), error.status, error.param, error.code)
    except NoRoomError as error:
        return _error(request, str(error), 400, "messages", "context_length_exceeded")
    except web.HTTPException as error:  # no such route, a body too large
        where = f"{request.method} {request.path}"
        return _error(request, f"{where}: {error.reason}", error.status)
    except ValueError as error:  # of the engine, about what it was asked
        return _error(request, str(error), 400)
    except Exception as error:
        logger.warning("a request to %s failed", request.path, exc_info=True)
        return _error(request, f"{type(error).__name__}: {error}", 500)


def _error(
    request: web.Request,
    message: str,
    status: int,
    param: str | None = None,
    code: str | None = None,
) -> web.Response:
    kind = _KINDS.get(status, "invalid_request_error" if status < 500 else _FAULT)
    body: dict[str, Any] = {"message": message, "type": kind, "param": param, "code": code}
    answer: dict[str, Any] = {"error": body}
    if request.path == "/v1/messages":
        answer = {"type": "error", "error": {"type": kind, "message": message}}
    # What failed here fails again: the SDK's retries would only make the episode slow.
    headers = {"x-should-retry": "false"} if status >= 500 else None
    return web.json_response(answer, status=status, headers=headers)
