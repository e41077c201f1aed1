from __future__ import annotations

import statistics

import pytest
import torch

from areal.api.cli_args import NormConfig
from areal.utils.data import Normalization, resolve_group_sizes


def random_rewards(n: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def reference(rewards: list[float], sizes: list[int], config: NormConfig) -> list[float]:
    """Row by row, with the standard library's statistics."""
    out, start = [], 0
    for size in sizes:
        for i in range(start, start + size):
            pools = {"batch": rewards, "group": rewards[start : start + size]}
            value = rewards[i]
            if config.mean_level:
                pool = pools[config.mean_level]
                if config.mean_leave1out:
                    first = 0 if config.mean_level == "batch" else start
                    pool = [r for j, r in enumerate(pool, start=first) if j != i]
                value -= statistics.fmean(pool) if pool else value
            if config.std_level:
                pool = pools[config.std_level]
                deviate = statistics.stdev if config.std_unbiased else statistics.pstdev
                value /= (deviate(pool) if len(pool) > 1 else 0.0) + config.eps
            out.append(value)
        start += size
    return out


@pytest.mark.parametrize("std_unbiased", [True, False])
@pytest.mark.parametrize("std_level", [None, "batch", "group"])
@pytest.mark.parametrize(
    ("mean_level", "leave1out"),
    [(None, False), ("batch", False), ("group", False), ("batch", True), ("group", True)],
)
@pytest.mark.parametrize("sizes", [[4, 4, 4], [1, 5, 2]])
def test_rewards_equal_the_loop(
    sizes: list[int],
    mean_level: str | None,
    leave1out: bool,
    std_level: str | None,
    std_unbiased: bool,
) -> None:
    config = NormConfig(
        mean_level=mean_level,
        mean_leave1out=leave1out,
        std_level=std_level,
        std_unbiased=std_unbiased,
        eps=1e-3,
    )
    rewards = random_rewards(sum(sizes))
    ours = Normalization(config)(rewards, group_sizes=sizes)
    expected = torch.tensor(reference(rewards.tolist(), sizes, config), dtype=torch.float64)
    torch.testing.assert_close(ours, expected, rtol=1e-10, atol=1e-12)


def test_advantages_count_kept_tokens_only() -> None:
    mask = torch.tensor([[1, 1, 0], [1, 0, 0], [1, 1, 1], [0, 0, 0]])
    values = torch.where(mask.bool(), random_rewards(12).view(4, 3), torch.nan)
    config = NormConfig(mean_level="group", std_level="batch", group_size=2, eps=0.0)
    ours = Normalization(config)(values, mask)
    kept = values[mask.bool()]
    means = torch.tensor([kept[:3].mean(), kept[:3].mean(), kept[3:].mean(), 0.0]).double()
    expected = torch.where(mask.bool(), (values - means[:, None]) / kept.std(), 0.0)
    torch.testing.assert_close(ours, expected)


def test_equal_rewards_become_zero_even_without_eps() -> None:
    config = NormConfig(mean_level="group", std_level="group", group_size=3, eps=0.0)
    out = Normalization(config)(torch.tensor([0.1, 0.1, 0.1, 1.0, 1.0, 1.0]))
    assert out.tolist() == [0.0] * 6


def test_keeps_the_type_and_the_precision_of_large_offsets() -> None:
    rewards = torch.tensor([1e6, 1e6 + 1, 1e6 + 2, 1e6 + 3])
    out = Normalization(NormConfig(eps=0.0))(rewards)
    assert out.dtype == torch.float32
    expected = torch.tensor([-1.5, -0.5, 0.5, 1.5]) / torch.tensor([0.0, 1, 2, 3]).std()
    torch.testing.assert_close(out, expected)


def test_group_sizes_must_make_up_the_rows() -> None:
    assert resolve_group_sizes(6, 3) == [3, 3]
    assert resolve_group_sizes(6, 3, [1, 5]) == [1, 5]
    with pytest.raises(ValueError, match="groups of 4"):
        resolve_group_sizes(6, 4)
    with pytest.raises(ValueError, match="sum to 5"):
        resolve_group_sizes(6, 3, [2, 3])


@pytest.mark.parametrize("sizes", [[3, 0], [4, -1], [0, 3]])
def test_a_group_has_rows(sizes: list[int]) -> None:
    normalize = Normalization(NormConfig(mean_level="group"))
    with pytest.raises(ValueError, match="at least one row"):
        normalize(torch.arange(3.0), group_sizes=sizes)
    with pytest.raises(ValueError, match="group_size must be at least 1"):
        NormConfig(group_size=min(sizes))


def test_without_a_mean_there_is_none_to_be_left_out_of() -> None:
    x = torch.tensor([1.0, 2.0, 6.0])
    plain, left = (NormConfig(None, std_level="batch", mean_leave1out=b) for b in (False, True))
    torch.testing.assert_close(Normalization(left)(x), Normalization(plain)(x))
