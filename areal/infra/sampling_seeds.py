"""Names for the random streams of requests, so that every engine draws the same for one episode."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np

from areal.infra import workflow_context

# Episodes whose request counters are remembered, for the streams of deterministic sampling.
MAX_KNOWN_EPISODES = 1 << 16


class SamplingSeeds:
    """Names the stream of each request by the episode that asks, or by the request's own seed.

    Args:
        seed: Of the run.
        is_deterministic: Gives each turn of each episode a stream of its own; without it a request
            without a seed has none.
    """

    def __init__(self, seed: int, is_deterministic: bool) -> None:
        self._seed = seed
        self._is_deterministic = is_deterministic
        self._num_requests: OrderedDict[tuple[int, int], int] = OrderedDict()

    def key_of(self, request_seed: int | None) -> tuple[int, ...] | None:
        """Return the integers that name the stream of a new request; None where it has none.

        Samples of one prompt, and the requests of one episode, differ although they share a seed.
        Outside of an episode the same seed is the same stream.
        """
        context = workflow_context.get()
        task, sample = context.task_id, context.sample_idx
        own_seed = () if request_seed is None else (request_seed,)
        if task is None or not (own_seed or self._is_deterministic):
            return own_seed or None
        episode = (task, sample or 0)
        turn = self._num_requests.pop(episode, 0)
        self._num_requests[episode] = turn + 1
        if len(self._num_requests) > MAX_KNOWN_EPISODES:
            self._num_requests.popitem(last=False)
        if self._is_deterministic:
            return (self._seed, int(context.is_eval), *episode, turn, *own_seed)
        # The first request of a lone episode draws what it would draw outside of one.
        return (*own_seed, sample or 0, turn) if sample or turn else own_seed

    def of(self, request_seed: int | None) -> int | None:
        """Return the same name as one integer, as servers take it; None where there is none."""
        key = self.key_of(request_seed)
        return None if key is None else stream_seed(key)


def stream_seed(key: tuple[int, ...]) -> int:
    """Return one integer below 2**63 for a name; a single integer is its own."""
    if len(key) == 1:
        return key[0]
    # JSON readers and servers take signed 64-bit integers.
    return int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0] >> np.uint64(1))
