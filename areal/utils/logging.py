"""Loggers with colours on a terminal; ``logging`` itself stays as it is.

Loggers propagate as usual. The console handler steps back where the root logger has handlers of
its own (``logging.basicConfig``, pytest), so that nothing is printed twice or escapes a capture.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from typing import Any, TextIO

INFO = logging.INFO
_RESET = "\033[0m"
_COLOURS = {
    "blue": "\033[34m",
    "cyan": "\033[36m",
    "green": "\033[32m",
    "magenta": "\033[35m",
    "white": "",
    "yellow": "\033[33m",
}
_LEVEL_COLOURS = {
    logging.WARNING: "\033[33m",
    logging.ERROR: "\033[31m",
    logging.CRITICAL: "\033[1;31m",
}

# The colour of a logger's name: by the whole name, else by the first pattern that occurs in it.
LOGGER_COLORS_EXACT: dict[str, str] = {
    "AsyncRewardWrapper": "magenta",
    "PPOTrainer": "green",
    "RewardPool": "magenta",
    "SFTTrainer": "green",
    "StatsLogger": "cyan",
    "WorkflowExecutor": "blue",
}
LOGGER_PATTERNS: dict[str, str] = {
    r"Trainer$": "green",
    r"Engine$": "cyan",
    r"(Workflow|Agent)$": "blue",
    r"(Reward|Verifier)": "magenta",
    r"(Dataset|Loader)$": "yellow",
}

_PLAIN_FORMAT = "%(asctime)s %(name)s %(levelname)s: %(message)s"
_TIME_FORMAT = "%Y%m%d-%H:%M:%S"
_HTTP_LOGGERS = ("aiohttp.access", "httpcore", "httpx", "openai", "urllib3", "uvicorn.access")


def getLogger(  # noqa: N802  (the standard library's spelling)
    name: str | None = None, type_: str | None = None, level: int | None = INFO
) -> logging.Logger:
    """Return a logger that prints to the console.

    Args:
        name: In PascalCase, such as "WorkflowExecutor"; None is "AReaL".
        type_: "plain" never uses colours; None and "colored" use them on a terminal.
        level: The lowest level to log; None leaves it as it is.

    Raises:
        ValueError: The type is unknown.
    """
    if type_ not in (None, "plain", "colored"):
        raise ValueError(f"unknown logger type {type_!r}; known: colored, plain")
    logger = logging.getLogger(name or "AReaL")
    if level is not None:
        logger.setLevel(level)
    if not any(isinstance(handler, _ConsoleHandler) for handler in logger.handlers):
        logger.addHandler(_ConsoleHandler(may_colour=type_ != "plain"))
    return logger


def setup_file_logging(path: str, level: int = INFO) -> logging.Handler:
    """Write what all loggers say to a file as well.

    Args:
        path: The file; folders are made, and text is added to a file that exists.
        level: The lowest level to write.

    Returns:
        The handler, on the root logger; remove it there to stop.
    """
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    handler = _FileHandler(path, encoding="utf-8")
    handler.setLevel(level)
    handler.setFormatter(logging.Formatter(_PLAIN_FORMAT, _TIME_FORMAT))
    logging.getLogger().addHandler(handler)
    return handler


def suppress_http_loggers(level: int = logging.WARNING) -> None:
    """Silence the libraries that would log every request."""
    for name in _HTTP_LOGGERS:
        logging.getLogger(name).setLevel(level)


class _FileHandler(logging.FileHandler):
    """Marks our own handler on the root logger: the console does not step back for it."""


class _ConsoleHandler(logging.StreamHandler[Any]):
    def __init__(self, may_colour: bool) -> None:
        super().__init__(sys.stderr)
        self.setFormatter(_Formatter(self, may_colour))

    @property
    def stream(self) -> TextIO:
        # Looked up each time: tests and progress bars replace it.
        return sys.stderr

    @stream.setter
    def stream(self, value: TextIO) -> None:
        pass

    def emit(self, record: logging.LogRecord) -> None:
        foreign = (h for h in logging.getLogger().handlers if not isinstance(h, _FileHandler))
        if next(foreign, None) is None:
            super().emit(record)


class _Formatter(logging.Formatter):
    def __init__(self, handler: _ConsoleHandler, may_colour: bool) -> None:
        super().__init__(_PLAIN_FORMAT, _TIME_FORMAT)
        self._handler = handler
        self._may_colour = may_colour

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        if not self._may_colour or not _has_colours(self._handler.stream):
            return text
        colour = _LEVEL_COLOURS.get(record.levelno) or _COLOURS[_colour_name(record.name)]
        return f"{colour}{text}{_RESET}" if colour else text


def _has_colours(stream: TextIO) -> bool:
    return stream.isatty() and "NO_COLOR" not in os.environ


def _colour_name(logger_name: str) -> str:
    if logger_name in LOGGER_COLORS_EXACT:
        return LOGGER_COLORS_EXACT[logger_name]
    for pattern, colour in LOGGER_PATTERNS.items():
        if re.search(pattern, logger_name):
            return colour
    return "white"
