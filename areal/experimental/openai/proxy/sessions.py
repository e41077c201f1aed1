"""Who may talk to the model, as which episode."""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
import time
import uuid
from collections import deque
from collections.abc import Callable
from typing import Any

from areal.experimental.openai.errors import RequestError
from areal.experimental.openai.recorder import Recorder
from areal.infra.workflow_context import WorkflowContext

logger = logging.getLogger("OpenAIProxy")

MakeRecorder = Callable[[WorkflowContext], Recorder]


class Session:
    """One episode of an agent.

    Args:
        recorder: Answers its requests.
        context: What the engine is to know about the episode.
        is_granted: It takes one of the sessions that whoever trains has asked for.
        api_key: Opens it; None makes one.
    """

    def __init__(
        self,
        recorder: Recorder,
        context: WorkflowContext,
        is_granted: bool = False,
        api_key: str | None = None,
    ) -> None:
        self.id = uuid.uuid4().hex
        self.api_key = api_key or f"sk-{secrets.token_hex(24)}"
        self.recorder = recorder
        self.context = context
        self.is_granted = is_granted
        self.is_ended = False
        self.requests: set[asyncio.Task[Any]] = set()
        self.touch()

    def touch(self) -> None:
        """Note that it is in use."""
        self.used_at = time.monotonic()


class SessionTable:
    """Knows the sessions; used in the event loop of the server only.

    A session of an outside program begins against a grant: the trainer decides how many it takes.

    Args:
        make_recorder: For each session.
        timeout_s: After so long without a request a session is forgotten.
    """

    def __init__(self, make_recorder: MakeRecorder, timeout_s: float) -> None:
        self.capacity = 0
        self._make_recorder = make_recorder
        self._timeout_s = timeout_s
        self._by_key: dict[str, Session] = {}
        self._by_id: dict[str, Session] = {}
        self._ended: deque[Session] = deque()
        self._waiters: deque[asyncio.Future[Session]] = deque()

    def __len__(self) -> int:
        return len(self._by_id)

    def start(
        self, context: WorkflowContext, *, needs_grant: bool = True, api_key: str | None = None
    ) -> Session:
        """Begin a session.

        Args:
            context: What the engine is to know about the episode.
            needs_grant: False for a session of the trainer's own.
            api_key: Chosen by the client, who may use it again once its session has ended; None
                makes one.

        Raises:
            RequestError: There is no capacity (429), or the key opens a running session (409).
        """
        if api_key in self._by_key and not self._by_key[api_key].is_ended:
            raise RequestError(
                "a session with this api_key is running; end it first", status=409, param="api_key"
            )
        if needs_grant and self.capacity < 1:
            raise RequestError(
                "no capacity for another session; ask again later",
                status=429,
                code="rate_limit_exceeded",
            )
        session = Session(self._make_recorder(context), context, needs_grant, api_key)
        self.capacity -= needs_grant
        self._by_key[session.api_key] = session
        self._by_id[session.id] = session
        return session

    def find(self, api_key: str) -> Session:
        """Return the session of a key.

        Raises:
            RequestError: There is none, or it has ended, status 401.
        """
        session = self._by_key.get(api_key)
        if session is None or session.is_ended:
            raise session_ended()
        session.touch()
        return session

    def end(self, session: Session, *, forget: bool, announce: bool) -> None:
        """End a session, so that its key opens nothing; what it still asks is not answered.

        Args:
            session: A running one.
            forget: Nobody will fetch what it recorded.
            announce: Somebody waits for sessions to end.
        """
        session.is_ended = True
        for request in session.requests:
            request.cancel()
        if forget:
            self._drop(session)
            self.capacity += session.is_granted
        elif announce:
            while self._waiters:
                waiter = self._waiters.popleft()
                if not waiter.done():
                    waiter.set_result(session)
                    return
            self._ended.append(session)

    def get(self, session_id: str) -> Session:
        """Return a session, ended or not.

        Raises:
            RequestError: There is none, status 404.
        """
        session = self._by_id.get(session_id)
        if session is None:
            raise RequestError(f"there is no session {session_id!r}", status=404)
        return session

    def take(self, session_id: str) -> Session:
        """Return an ended session and forgets it.

        Raises:
            RequestError: There is none (404), or it goes on (400).
        """
        session = self.get(session_id)
        if not session.is_ended:
            raise RequestError(f"session {session_id} has not ended", param="session_id")
        self._drop(session)
        return session

    async def take_next(self) -> Session:
        """Wait for an announced session to end, return it and forget it."""
        if self._ended:
            session = self._ended.popleft()
        else:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            try:
                session = await waiter
            except asyncio.CancelledError:
                if waiter.done() and not waiter.cancelled():
                    self._ended.appendleft(waiter.result())
                raise
        self._drop(session)
        return session

    def drop_idle(self) -> None:
        """Forget sessions that nobody has used for long; another may take their place."""
        oldest = time.monotonic() - self._timeout_s
        for session in [x for x in self._by_id.values() if x.used_at < oldest and not x.requests]:
            logger.warning(
                "session %s was idle for %g s and is forgotten", session.id, self._timeout_s
            )
            session.is_ended = True
            self._drop(session)
            self.capacity += session.is_granted
            if session in self._ended:
                self._ended.remove(session)

    def _drop(self, session: Session) -> None:
        # Another session may have the key by now.
        if self._by_key.get(session.api_key) is session:
            del self._by_key[session.api_key]
        self._by_id.pop(session.id, None)


def session_ended() -> RequestError:
    """Return what is said to whom has a key of no running session."""
    return RequestError(
        "this API key belongs to no running session", status=401, code="invalid_api_key"
    )


def is_same_key(given: str, expected: str) -> bool:
    """Compare two keys in a time that reveals nothing about them."""
    return hmac.compare_digest(given.encode(), expected.encode())
