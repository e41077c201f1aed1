"""Judges the numbers of one job by its checksums: a NaN, or replicas whose weights differ."""

from __future__ import annotations

from collections.abc import Mapping

from scaffold.debug.checksums import Checksum, Checksums, Key, key_text
from scaffold.debug.diagnosis import Verdict
from scaffold.debug.wording import ranks_text


def judge_numbers(ranks: Mapping[int, Checksums]) -> Verdict | None:
    """Return what is wrong with the numbers that ranks recorded, or None where nothing is.

    Args:
        ranks: As they were recorded, so that each shard belongs to its rank.
    """
    return _first_nan(ranks) or _unlike_replicas(ranks)


def _first_nan(ranks: Mapping[int, Checksums]) -> Verdict | None:
    if not any(_reaches_the_end(checksums) for checksums in ranks.values()):
        return None
    bad = {
        rank: next(key for key, each in checksums.items() if each.nan)
        for rank, checksums in ranks.items()
        if any(each.nan for each in checksums.values())
    }
    # Ranks make the same steps, so that the earliest row of all is where it comes from.
    places = {rank: [*ranks[rank]].index(key) for rank, key in bad.items()}
    first = min(bad, key=lambda rank: (bad[rank].step, places[rank]))
    key = bad[first]
    who = tuple(rank for rank in bad if bad[rank] == key)
    count = ranks[first][key].nan
    text = f"{ranks_text(who)} has the first NaN: {count} in {key_text(key)}"
    if len(who) > 1:
        text = f"{ranks_text(who)} have the first NaN, in {key_text(key)}"
    clean = [rank for rank in ranks if rank not in who]
    text += f"; {ranks_text(clean)} had none there" if clean else ""
    return Verdict("nan", who, text, hint="look at this module, and at what this rank gave it")


def _reaches_the_end(checksums: Checksums) -> bool:
    """Return whether a NaN is in the last phase that was recorded of any step.

    A masked row may be NaN in between, and a scaler of losses skips gradients that are.
    """
    for phase in ("parameter", "gradient", "backward", "forward"):
        last = [each for key, each in checksums.items() if key.phase == phase]
        if last:
            return any(each.nan for each in last)
    return False


def _unlike_replicas(ranks: Mapping[int, Checksums]) -> Verdict | None:
    first: dict[tuple[tuple[Key, int | None], ...], int] = {}
    for rank, checksums in ranks.items():
        gradients = _plain(checksums, "gradient")
        if not any(each.norm for each in gradients.values()):
            continue
        # Equal to the last bit over different data, so they were summed: the ranks are replicas.
        same = tuple(sorted((key, each.checksum) for key, each in gradients.items()))
        other = first.setdefault(same, rank)
        # A model may be tried out before its weights are loaded; then they agree in the end.
        if not _differing(checksums, ranks[other], "parameter"):
            continue
        for key in _differing(checksums, ranks[other], "start"):
            text = (
                f"{ranks_text((other, rank))} have the same gradients and began with other "
                f"weights: {key_text(key)} is the first"
            )
            hint = "seed all ranks alike before the model is made, or broadcast its parameters"
            return Verdict("replicas", (other, rank), text, hint=hint)
    return None


def _differing(left: Checksums, right: Checksums, phase: str) -> list[Key]:
    mine, others = _plain(left, phase), _plain(right, phase)
    return [key for key in others if key in mine and mine[key].checksum != others[key].checksum]


def _plain(checksums: Checksums, phase: str) -> dict[Key, Checksum]:
    return {
        key: each for key, each in checksums.items() if key.phase == phase and not each.placements
    }
