"""Mathematical equality of a completion's final answer and a gold answer."""

from __future__ import annotations

import ctypes
import functools
import re
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from areal.api.errors import RewardError, RewardTimeoutError
from areal.reward.extraction import final_answer, numbers_equal, read_number
from areal.utils import logging

logger = logging.getLogger("MathVerify")

# math-verify's patterns take more than linear time; an unmarked answer is at the end anyway.
_TAIL_CHARS = 2000
_STOP_PERIOD_S = 0.2
_WORD_PI = re.compile(r"(?<![\\A-Za-z])pi(?![A-Za-z])")
# What the parsers raise for text that no reader could make sense of: too deep, too many digits.
_UNREADABLE = (ValueError, RecursionError, OverflowError)


class _TimeIsUpError(BaseException):
    """Raised inside a grader thread; no base of it is caught by the libraries there."""


class MathVerifyWorker:
    """Compares answers: plain numbers exactly, everything else through ``math-verify``.

    Safe to use from any thread and process.

    Args:
        try_extract_without_anchor: Whether an unmarked number or formula counts as the answer;
            otherwise a box, ``####`` or the word "answer" must point at it.
        precision: Decimal places that must agree where either side is no whole number.
        timeout: Seconds for one comparison; None waits for ever.
        raise_on_error: Whether what keeps it from grading is raised; otherwise it is logged and
            scores 0.0. The rewards here raise, so that a failing grader is counted as one.

    Source: https://github.com/huggingface/Math-Verify for extraction from unmarked text and for
        symbolic comparison.
    """

    def __init__(
        self,
        try_extract_without_anchor: bool = True,
        precision: int = 6,
        timeout: float | None = 5.0,
        raise_on_error: bool = False,
    ) -> None:
        self.try_extract_without_anchor = try_extract_without_anchor
        self.precision = precision
        self.timeout = timeout
        self.raise_on_error = raise_on_error

    def verify(self, response: str, ground_truth: str) -> float:
        """Return 1.0 if the response's final answer equals the gold answer, else 0.0.

        Args:
            response: A completion; its last mark (see ``final_answer``) counts, and without one
                what ``math-verify`` takes for the answer.
            ground_truth: An answer, or a whole solution with a mark.

        Raises:
            RewardError: With ``raise_on_error``: the gold answer is empty or cannot be read.
            RewardTimeoutError: With ``raise_on_error``: the comparison ran past ``timeout``.
        """
        try:
            return self._verify(response, ground_truth)
        except Exception as error:
            if self.raise_on_error:
                raise
            logger.warning("scored 0.0, because it could not be graded: %r", error)
            return 0.0

    def _verify(self, response: str, ground_truth: str) -> float:
        gold = _gold_text(ground_truth)
        answer = final_answer(response)
        if answer is not None or self.try_extract_without_anchor:
            said = response.strip() if answer is None else answer
            if said == gold:
                return 1.0
            gold_number, number = read_number(gold), read_number(said)
            if gold_number is not None and number is not None:
                return float(numbers_equal(number, gold_number, precision=self.precision))
        # Imported here, in the caller's thread, so that its 0.3 s do not count as grading.
        from math_verify import grader, parser

        # math-verify warns, once, that someone else must limit the time: that is done below.
        parser.TIMEOUT_WARNING_SHOWN = grader.TIMEOUT_WARNING_SHOWN = True
        text = _boxed(answer) if answer is not None else response[-_TAIL_CHARS:]
        return float(_within(self.timeout, functools.partial(self._compare, text, gold)))

    def _compare(self, text: str, gold: str) -> bool:
        from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse, verify

        # Its own limits use SIGALRM, which only a main thread may; so they are off (None).
        number = read_number(gold)
        spellings = [gold if _has_math_delimiter(gold) else _boxed(gold)]
        if number is not None and number.is_percent:
            # The sign may be a unit that the answer leaves out.
            spellings.append(_boxed(replace(number, is_percent=False).latex))
        golds = [
            found
            for spelling in spellings
            for found in parse(spelling, parsing_timeout=None, raise_on_error=True)
        ]
        if not golds:
            raise RewardError(f"the gold answer {gold!r} cannot be read as mathematics")
        targets = (
            LatexExtractionConfig(try_extract_without_anchor=self.try_extract_without_anchor),
            ExprExtractionConfig(try_extract_without_anchor=self.try_extract_without_anchor),
        )
        try:
            answers = parse(text, targets, parsing_timeout=None, raise_on_error=True)
        except _UNREADABLE:
            return False
        return verify(
            golds,
            answers,
            float_rounding=self.precision,
            timeout_seconds=None,
            raise_on_error=True,
        )


def reads_equal(
    response: str, ground_truth: str, read: Callable[[str], Any], timeout: float | None = 5.0
) -> bool:
    """Return whether a parser reads the same mathematics in a response and in the gold answer.

    Args:
        response: A completion.
        ground_truth: The gold answer.
        read: Text to what ``math_verify.verify`` compares; it has to be safe in any thread.
        timeout: Seconds for both; None waits for ever.

    Raises:
        RewardError: The parser finds nothing in the gold answer.
        RewardTimeoutError: It took longer.
    """
    # Imported here, in the caller's thread, so that its 0.3 s do not count as grading.
    from math_verify import grader, parser, verify

    # math-verify warns, once, that someone else must limit the time: that is done below.
    parser.TIMEOUT_WARNING_SHOWN = grader.TIMEOUT_WARNING_SHOWN = True

    def compare() -> bool:
        gold = read(ground_truth)
        if not gold:
            raise RewardError(f"the gold answer {ground_truth!r} cannot be read as mathematics")
        return verify(gold, read(response), timeout_seconds=None)

    return bool(_within(timeout, compare))


def _gold_text(ground_truth: str) -> str:
    marked = final_answer(ground_truth)
    gold = ground_truth.strip() if marked is None else marked
    if not gold:
        raise RewardError(f"the gold answer {ground_truth!r} is empty")
    return gold


def _boxed(text: str) -> str:
    """Return a formula in a box, which makes ``math-verify`` read all of it."""
    # In LaTeX, "2*pi" has a p and an i, and "**" is nothing.
    formula = _WORD_PI.sub(r"\\pi ", text).replace("**", "^")
    return f"\\boxed{{{formula}}}"


def _has_math_delimiter(text: str) -> bool:
    return any(mark in text for mark in ("$", "\\(", "\\["))


def _within(timeout_s: float | None, compute: Callable[[], Any]) -> Any:
    """Run a computation for a limited time, in any thread.

    The work goes to a thread of its own, because a signal reaches main threads only. When the time
    is up an exception is raised in that thread, so that Python code such as sympy's stops; a
    single call into C goes on to its end, and only the reward pool can kill it.

    Raises:
        RewardTimeoutError: The time is up.
    """
    if timeout_s is None:
        return compute()
    outcome: list[tuple[bool, Any]] = []

    def run() -> None:
        try:
            outcome.append((True, compute()))
        except _TimeIsUpError:
            pass
        except BaseException as error:
            outcome.append((False, error))

    thread = threading.Thread(target=run, name="math-verify", daemon=True)
    thread.start()
    thread.join(timeout_s)
    if not outcome:
        threading.Thread(target=_stop, args=(thread,), name="math-verify-stop", daemon=True).start()
        raise RewardTimeoutError(f"math-verify needed more than {timeout_s} s for one comparison")
    succeeded, result = outcome[0]
    if not succeeded:
        raise result
    return result


def _stop(thread: threading.Thread) -> None:
    """Raise in a thread until it ends.

    Once is not enough: what is raised while a finaliser or a weak reference's callback runs is
    reported by the interpreter and dropped, and the computation would go on for ever.
    """
    _drop_reports()
    while thread.is_alive():
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(thread.ident or 0), ctypes.py_object(_TimeIsUpError)
        )
        thread.join(_STOP_PERIOD_S)


@functools.cache
def _drop_reports() -> None:
    """Keep the interpreter from reporting that a finaliser was stopped, once in a process."""
    report = sys.unraisablehook

    def hook(unraisable: Any, /) -> None:
        if unraisable.exc_type is not _TimeIsUpError:
            report(unraisable)

    sys.unraisablehook = hook


@functools.cache
def get_math_verify_worker(*, raise_on_error: bool = False) -> MathVerifyWorker:
    """Return a worker with default options but for this one, the same one in a process."""
    return MathVerifyWorker(raise_on_error=raise_on_error)


def math_verify_reward_fn(
    prompt: Any, completions: str, prompt_ids: Any, completion_ids: Any, answer: Any, **kwargs: Any
) -> float:
    r"""Score 1.0 for a completion whose final answer equals the gold answer mathematically.

    Args:
        prompt: Not used.
        completions: The completion; see ``MathVerifyWorker.verify`` for where its answer is read.
        prompt_ids: Not used.
        completion_ids: Not used.
        answer: The gold answer: a number, a formula, or a solution with ``\boxed{}`` or ``####``.
        **kwargs: Other columns of the row; not used.

    Returns:
        1.0 or 0.0.

    Raises:
        RewardError: The gold answer is empty or cannot be read.
        RewardTimeoutError: The comparison took too long.
    """
    return get_math_verify_worker(raise_on_error=True).verify(completions, str(answer))
