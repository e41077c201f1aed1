from __future__ import annotations

import io
import logging
import sys

import pytest

from areal.trainer.report.console import RunConsole, duration_text, number_text, stats_text


class Clock:
    """Tells the seconds that a test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    """Is a stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (59.4, "59 s"), (59.6, "1 min 00 s"), (185, "3 min 05 s"), (7620, "2 h 07 min")],
)
def test_durations(seconds: float, text: str):
    assert duration_text(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "nan"), (9051.7, "9,052"), (0.12345, "0.123"), (1e-7, "1e-07"), (0, "0")],
)
def test_numbers(value: float | None, text: str):
    assert number_text(value) == text


def test_a_step_shows_what_a_person_watches_and_nothing_that_is_missing():
    stats = {"loss": 0.1, "reward": 0.5, "tokens_per_s": 2345.6, "staleness": 0.5, "zeta": 1}
    text = stats_text(stats, {"reward": 0.25})
    assert text == "reward 0.500 (eval 0.250)  2,346 tok/s  staleness 0.5"
    assert stats_text({"loss": None}, {"loss": None}) == "loss nan"
    assert stats_text({}, {}) == ""
    pairs = stats_text({"loss": 0.5, "accuracy": 0.75}, {"accuracy": 0.5})
    assert pairs == "loss 0.500  accuracy 0.750 (eval 0.500)"


@pytest.mark.parametrize("columns", [80, 100, 160])
def test_the_numbers_and_the_time_left_fit_on_any_usual_terminal(
    monkeypatch: pytest.MonkeyPatch, columns: int
):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", str(columns))
    clock, stream = Clock(), Terminal()
    console = RunConsole("addition / grpo", 1000, stream=stream, clock=clock)
    console.eval({"reward": 0.862})
    for step in range(998, 1000):
        clock.now += 600.0
        console.step(step, {"reward": 0.853, "tokens_per_s": 123456.0, "staleness": 12.5})
    console.close()
    assert "reward 0.853 (eval 0.862)  123,456 tok/s  staleness 12.5" in stream.getvalue()
    assert "1 s left" in stream.getvalue()


def plain_lines(steps: int, step_s: float, done_steps: int = 0) -> list[str]:
    clock, stream = Clock(), io.StringIO()
    console = RunConsole("t", steps, done_steps, stream=stream, clock=clock)
    for step in range(done_steps + 1, steps + 1):
        clock.now += step_s
        console.step(step, {"loss": 1.0})
    console.close()
    return stream.getvalue().splitlines()


def test_without_a_terminal_there_is_a_line_now_and_then_and_always_the_first_and_last():
    lines = plain_lines(steps=100, step_s=0.1)
    assert lines[0].startswith("step 1/100  loss 1.000")
    assert lines[-1] == "step 100/100  loss 1.000"
    assert 5 <= len(lines) <= 8
    assert not any("\x1b" in line for line in lines)


def test_slow_steps_get_a_line_each():
    assert len(plain_lines(steps=5, step_s=30.0)) == 5


def test_the_time_left_follows_the_pace():
    assert plain_lines(steps=5, step_s=30.0)[1].endswith("1 min 30 s left")


def test_a_resumed_run_measures_its_pace_from_where_it_began():
    lines = plain_lines(steps=100, step_s=10.0, done_steps=90)
    assert lines[0] == "step 91/100  loss 1.000  1 min 30 s left"


def test_a_terminal_gets_a_bar_with_the_numbers(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "160")
    clock, stream = Clock(), Terminal()
    console = RunConsole("addition", 4, stream=stream, clock=clock)
    for step in range(1, 5):
        clock.now += 1.0
        console.step(step, {"reward": step / 4})
    console.say("above [the] bar")
    console.close()
    drawn = stream.getvalue()
    assert "addition" in drawn
    assert "reward 1.000" in drawn
    assert "4/4" in drawn
    assert "above [the] bar" in drawn


def test_log_lines_go_above_the_bar_and_the_streams_come_back(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    handler = logging.StreamHandler()
    logger = logging.getLogger("tests.report.console")
    logger.addHandler(handler)
    try:
        console = RunConsole("t", 4)
        assert handler.stream is not terminal
        logger.warning("a line of the log")
        console.close()
        assert handler.stream is terminal
        assert sys.stderr is terminal
        assert "a line of the log\n" in terminal.getvalue()
    finally:
        logger.removeHandler(handler)


def test_closing_twice_is_harmless():
    console = RunConsole("t", 4, stream=io.StringIO())
    console.close()
    console.close()
