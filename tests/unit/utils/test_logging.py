from __future__ import annotations

import contextlib
import io
import logging as std_logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from areal.utils import logging

_ROOT = Path(__file__).parents[3]


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@contextlib.contextmanager
def _bare_root() -> Iterator[None]:
    """Takes pytest's own handlers away, which it adds after the fixtures have run."""
    root = std_logging.getLogger()
    handlers, root.handlers = root.handlers, []
    try:
        yield
    finally:
        root.handlers = handlers


def test_pytest_sees_what_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    root = std_logging.root
    logging.getLogger("SeenLogger").info("hello %d", 1)
    assert [(r.name, r.getMessage()) for r in caplog.records] == [("SeenLogger", "hello 1")]
    assert std_logging.root is root


@pytest.mark.parametrize(
    ("stream", "type_", "level", "has_colour"),
    [
        (_Terminal(), None, std_logging.INFO, True),
        (_Terminal(), "plain", std_logging.INFO, False),
        (io.StringIO(), None, std_logging.INFO, False),
        (io.StringIO(), None, std_logging.ERROR, False),
    ],
)
def test_colours_appear_on_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch,
    stream: io.StringIO,
    type_: str | None,
    level: int,
    has_colour: bool,
) -> None:
    monkeypatch.setattr(sys, "stderr", stream)
    name = f"SomeEngine{type_}" if type_ else "SomeEngine"
    monkeypatch.delenv("NO_COLOR", raising=False)
    with _bare_root():
        logging.getLogger(name, type_=type_).log(level, "hello")
    text = stream.getvalue()
    assert f"{name} {std_logging.getLevelName(level)}: hello" in text
    assert text.count("hello") == 1
    assert ("\033[" in text) is has_colour


def test_no_color_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = _Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("NO_COLOR", "1")
    with _bare_root():
        logging.getLogger("SomeEngine").info("hello")
    assert "\033[" not in stream.getvalue()


def test_a_program_that_configures_logging_prints_each_line_once() -> None:
    code = (
        "import logging; from areal.utils.logging import getLogger;"
        "getLogger('X').info('one'); logging.basicConfig(level=20); getLogger('X').info('two')"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=_ROOT, capture_output=True, text=True, check=True
    )
    assert (result.stderr.count("one"), result.stderr.count("two")) == (1, 1)


def test_a_file_gets_everything_and_the_console_still_prints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "logs" / "run.log"
    with _bare_root():
        handler = logging.setup_file_logging(str(path))
        logging.getLogger("FileLogger").warning("noted")
        handler.close()
    assert "FileLogger WARNING: noted" in path.read_text()
    assert "noted" in capsys.readouterr().err


def test_unknown_types_are_refused() -> None:
    with pytest.raises(ValueError, match="unknown logger type 'fancy'"):
        logging.getLogger("X", type_="fancy")


def test_http_libraries_are_silenced() -> None:
    logging.suppress_http_loggers()
    assert not std_logging.getLogger("httpx").isEnabledFor(std_logging.INFO)
