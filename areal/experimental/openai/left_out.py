"""Parameters of requests that are left out: each is noted once, not at every request."""

from __future__ import annotations

import logging
from functools import lru_cache

logger = logging.getLogger("OpenAIProxy")

_MAX_NAME_CHARS = 60


def leave_out(name: str, reason: str) -> None:
    """Note in the log, once for each parameter and reason, that requests ask for it in vain."""
    # The name may be any text that a client sends.
    _note(name[:_MAX_NAME_CHARS], reason)


@lru_cache(maxsize=256)
def _note(name: str, reason: str) -> None:
    logger.warning("%s of a request is left out: %s", name, reason)
