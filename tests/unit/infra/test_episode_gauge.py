from __future__ import annotations

from areal.infra import EpisodeGauge


def test_a_step_needs_every_live_episode() -> None:
    gauge = EpisodeGauge()
    first, second = gauge.lease(2), gauge.lease(1)
    assert gauge.live == 3
    assert [gauge.may_step(n) for n in (2, 3)] == [False, True]
    first.release_one()
    assert gauge.live == 2
    second.close()
    first.close()
    assert gauge.live == 0


def test_the_last_episode_of_a_row_goes_only_with_its_row() -> None:
    gauge = EpisodeGauge()
    lease = gauge.lease(2)
    lease.release_one()
    lease.release_one()
    assert gauge.live == 1
    lease.close()
    lease.close()
    assert gauge.live == 0


def test_no_step_while_a_batch_is_being_submitted() -> None:
    gauge = EpisodeGauge()
    with gauge.hold():
        with gauge.hold():
            gauge.lease(1)
        assert gauge.held
        assert not gauge.may_step(1)
    assert not gauge.held
    assert gauge.may_step(1)


def test_the_listener_hears_of_what_may_allow_a_step() -> None:
    gauge = EpisodeGauge()
    seen: list[tuple[int, bool]] = []
    gauge.set_listener(lambda: seen.append((gauge.live, gauge.held)))
    with gauge.hold():
        lease = gauge.lease(2)
    lease.release_one()
    lease.close()
    assert seen == [(2, False), (1, False), (0, False)]
