"""avg@k and pass@k beside what they mean."""

from __future__ import annotations

import itertools
import math
import random

import pytest

from areal.trainer.scores import RowScore, by_source, pass_at_k, source_of, summarize


@pytest.mark.parametrize("num_episodes", [1, 2, 5, 8])
def test_pass_at_k_is_the_share_of_draws_with_a_pass(num_episodes: int) -> None:
    for num_passed, k in itertools.product(range(num_episodes + 1), range(1, num_episodes + 1)):
        episodes = [i < num_passed for i in range(num_episodes)]
        draws = list(itertools.combinations(episodes, k))
        share = sum(any(draw) for draw in draws) / len(draws)
        assert pass_at_k(num_episodes, num_passed, k) == pytest.approx(share, abs=1e-12)


def test_more_draws_than_episodes_are_refused() -> None:
    with pytest.raises(ValueError, match="pass@4 needs 4 episodes of a row, there are 2"):
        pass_at_k(2, 1, 4)


def test_every_row_counts_alike() -> None:
    rows = [RowScore(0, rewards=[1.0] * 8), RowScore(1, rewards=[0.0, 0.5])]
    found = summarize(rows)
    assert found["reward"] == 0.625
    assert (found["n_rows"], found["n_seqs"], found["n_failed"]) == (2, 10, 0)
    assert (found["pass@1"], found["pass@2"]) == (0.5, 0.5)
    assert "pass@4" not in found  # the second row has no four
    assert summarize(rows, threshold=0.5)["pass@1"] == 0.75


def test_the_standard_error_is_that_of_rows() -> None:
    # Episodes of one row are alike, so more of them make nothing surer.
    generator = random.Random(0)
    means = [generator.random() for _ in range(40)]
    once = summarize([RowScore(i, rewards=[mean]) for i, mean in enumerate(means)])
    often = summarize([RowScore(i, rewards=[mean] * 16) for i, mean in enumerate(means)])
    assert often["reward_stderr"] == pytest.approx(once["reward_stderr"])
    mean = sum(means) / 40
    expected = math.sqrt(sum((each - mean) ** 2 for each in means) / 39 / 40)
    assert once["reward_stderr"] == pytest.approx(expected)


def test_pass_at_k_is_given_for_powers_of_two_and_all_episodes_or_as_asked() -> None:
    rows = [RowScore(0, rewards=[1.0, 0.0, 0.0, 0.0, 0.0]), RowScore(1, rewards=[0.0] * 5)]
    found = {name: value for name, value in summarize(rows).items() if name.startswith("pass@")}
    assert found == pytest.approx({"pass@1": 0.1, "pass@2": 0.2, "pass@4": 0.4, "pass@5": 0.5})
    asked = summarize([*rows, RowScore(2, rewards=[1.0] * 4, num_failed=1)], ks=[3, 5])
    assert [name for name in asked if name.startswith("pass@")] == ["pass@3", "pass@5"]
    assert asked["pass@3"] == pytest.approx((0.6 + 0 + 1) / 3)
    assert math.isnan(asked["pass@5"])  # one row has but four


def test_rows_of_which_nothing_is_left_are_counted_apart() -> None:
    found = summarize([RowScore(0, rewards=[1.0], num_failed=1), RowScore(1, num_failed=2)])
    assert (found["reward"], found["n_rows"], found["n_failed"]) == (1.0, 1, 3)
    nothing = summarize([RowScore(0, num_failed=2)])
    assert math.isnan(nothing["reward"])
    assert nothing["n_seqs"] == 0


def test_sources_have_a_table_where_there_are_several() -> None:
    rows = [RowScore(0, "math", [1.0]), RowScore(1, "code", [0.0]), RowScore(2, "math", [0.0])]
    found = by_source(rows)
    assert list(found) == ["code", "math"]
    assert found["math"]["reward"] == 0.5
    assert by_source(rows[:1]) == {}
    assert source_of({"data_source": "gsm8k", "source": "x"}) == "gsm8k"
    assert source_of({"source": None, "topic": 3}) == ""
    assert source_of({"source": None, "topic": 3}, "topic") == "3"
