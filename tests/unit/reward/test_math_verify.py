from __future__ import annotations

import logging
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from areal.api.errors import RewardError, RewardTimeoutError
from areal.reward import MathVerifyWorker, get_math_verify_worker
from areal.reward.math_verify import _within, math_verify_reward_fn, reads_equal


@pytest.mark.parametrize(
    ("completion", "gold", "reward"),
    [
        (r"\boxed{72}", "72", 1.0),
        (r"\boxed{72}", "#### 72", 1.0),
        (r"\boxed{72}", r"Therefore \boxed{72}", 1.0),
        (r"\boxed{73}", "72", 0.0),
        ("She has 48 and 24, which makes 72 clips.", "72", 1.0),
        ("The answer is 72, from 48 and 24.", "72", 1.0),
        ("I do not know", "72", 0.0),
        ("", "72", 0.0),
        (r"\boxed{\frac{144}{2}}", "72", 1.0),
        (r"\boxed{0.5}", r"\frac{1}{2}", 1.0),
        (r"\boxed{\sqrt{12}}", r"2\sqrt{3}", 1.0),
        (r"\boxed{\sqrt{12}}", r"2 \sqrt { 3 }", 1.0),
        (r"\boxed{\sqrt{13}}", r"2\sqrt{3}", 0.0),
        (r"$\sqrt{12}$", r"$2\sqrt{3}$", 1.0),
        (r"\boxed{x+1}", "1+x", 1.0),
        (r"\boxed{x-1}", "1+x", 0.0),
        (r"\boxed{x=72}", "72", 1.0),
        (r"\boxed{(1,2)}", "(1,2)", 1.0),
        (r"\boxed{(2,1)}", "(1,2)", 0.0),
        (r"\boxed{\{2,1\}}", r"\{1,2\}", 1.0),
        (r"\boxed{71, 72}", "72", 0.0),
        (r"\boxed{50\%}", "50", 1.0),
        ("6.82%", "6.82", 1.0),
        ("6.82", "6.82%", 1.0),
        ("That makes 6.82 in all.", "6.82%", 1.0),
        ("6.82%", "6.83", 0.0),
        (r"\boxed{2\pi}", "2*pi", 1.0),
        (r"\boxed{pi/2}", r"\frac{\pi}{2}", 1.0),
        (r"\boxed{8}", "2**3", 1.0),
        ("(1,2]", "(1,2]", 1.0),
        (r"\boxed{" + "9" * 5000 + "}", "72", 0.0),
        ("9" * 5000, "72", 0.0),
        (r"\boxed{\frac{1}{0}}", "72", 0.0),
        (r"\boxed{\begin{pmatrix}1\\2\end{pmatrix}}", "72", 0.0),
    ],
)
def test_a_completion_is_compared_mathematically(completion: str, gold: str, reward: float) -> None:
    assert math_verify_reward_fn("p", completion, [1], [2], answer=gold, extra="ignored") == reward


@pytest.mark.parametrize("gold", ["", "   ", r"\boxed{}"])
def test_an_empty_gold_answer_is_an_error(gold: str) -> None:
    with pytest.raises(RewardError, match="empty"):
        math_verify_reward_fn("p", r"\boxed{72}", [], [], answer=gold)


def test_a_gold_answer_that_is_no_mathematics_is_an_error() -> None:
    with pytest.raises(RewardError, match="cannot be read"):
        math_verify_reward_fn("p", "nothing", [], [], answer="a price of $ only")


def test_a_comparison_past_its_time_limit_is_an_error_and_the_next_one_works() -> None:
    MathVerifyWorker().verify(r"\boxed{\frac{1}{2}}", "0.5")  # builds the parser's tables
    worker = MathVerifyWorker(timeout=1.0, raise_on_error=True)
    with pytest.raises(RewardTimeoutError, match=r"1(\.0)? s"):
        # A finite sum that sympy expands term by term.
        worker.verify(r"\boxed{\sum_{k=1}^{99999999} \frac{\sin(k)}{k}}", "72")
    assert worker.verify(r"\boxed{\frac{144}{2}}", "72") == 1.0


@pytest.mark.parametrize(
    ("completion", "gold", "cause"),
    [
        (r"\boxed{72}", "", "is empty"),
        (r"\boxed{72}", "  ", "is empty"),
        ("nothing", "a price of $ only", "cannot be read"),
        (None, "72", "TypeError"),
        (r"\boxed{72}", None, "TypeError"),
        (r"\boxed{\sum_{k=1}^{99999999} \frac{\sin(k)}{k}}", "72", "RewardTimeoutError"),
    ],
)
def test_what_cannot_be_graded_scores_zero_with_a_warning(
    completion: Any, gold: Any, cause: str, caplog: pytest.LogCaptureFixture
) -> None:
    # Builds the parser's tables.
    assert MathVerifyWorker().verify(r"\boxed{\frac{1}{2}}", "0.5") == 1.0
    with caplog.at_level(logging.WARNING):
        assert MathVerifyWorker(timeout=0.5).verify(completion, gold) == 0.0
    assert cause in caplog.text
    with pytest.raises((RewardError, TypeError)):
        MathVerifyWorker(timeout=0.5, raise_on_error=True).verify(completion, gold)


def test_without_a_time_limit_the_answer_is_the_same() -> None:
    assert MathVerifyWorker(timeout=None).verify(r"\boxed{\frac{144}{2}}", "72") == 1.0


def test_works_in_threads_that_are_not_the_main_one() -> None:
    def grade(number: int) -> tuple[bool, float]:
        in_main_thread = threading.current_thread() is threading.main_thread()
        worker = get_math_verify_worker()
        return in_main_thread, worker.verify(rf"\boxed{{\frac{{{2 * number}}}{{2}}}}", str(number))

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(grade, range(16))) == [(False, 1.0)] * 16


@pytest.mark.parametrize(
    ("completion", "anchored_only"),
    [("some 72 clips", 0.0), ("the answer is 72", 1.0), (r"\boxed{72}", 1.0), ("#### 72", 1.0)],
)
def test_unmarked_numbers_count_only_if_asked(completion: str, anchored_only: float) -> None:
    assert MathVerifyWorker().verify(completion, "72") == 1.0
    assert MathVerifyWorker(False).verify(completion, "72") == anchored_only


def test_precision_is_in_decimal_places() -> None:
    assert MathVerifyWorker(precision=2).verify(r"\boxed{3.14}", "3.1415") == 1.0
    assert MathVerifyWorker(precision=6).verify(r"\boxed{3.14}", "3.1415") == 0.0
    assert MathVerifyWorker(precision=2).verify(r"\boxed{3.14}", r"\pi") == 1.0


def test_a_computation_is_stopped_though_a_callback_swallows_the_first_attempt() -> None:
    threads: list[threading.Thread] = []
    is_free = threading.Event()

    class Thing:
        pass

    def in_callback(_: object) -> None:
        while not is_free.is_set():  # what is raised here, the interpreter drops
            pass

    def compute() -> None:
        threads.append(threading.current_thread())
        thing = Thing()
        seen = weakref.ref(thing, in_callback)
        del thing
        while seen() is None:
            pass

    with pytest.raises(RewardTimeoutError):
        _within(0.2, compute)
    is_free.set()
    threads[0].join(10)
    assert not threads[0].is_alive()


def test_any_parser_reads_both_sides_and_has_to_find_a_gold_answer() -> None:
    assert reads_equal("4", " 4 ", str.strip)
    assert not reads_equal("5", "4", str.strip)
    with pytest.raises(RewardError, match="'  ' cannot be read"):
        reads_equal("4", "  ", str.strip)


def test_one_worker_serves_a_process() -> None:
    assert get_math_verify_worker() is get_math_verify_worker()
    raising = get_math_verify_worker(raise_on_error=True)
    assert raising is get_math_verify_worker(raise_on_error=True)
    assert (raising.raise_on_error, get_math_verify_worker().raise_on_error) == (True, False)
