"""A server without a model, in a process of its own: PORT SLOTS LATENCY_S.

It speaks SGLang's wire as ``areal serve`` does. Every answer takes the same time, and no more of
them than there are slots are in the making at once; the others wait.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from contextlib import nullcontext

from aiohttp import web


class InstantServer:
    """Answers with as many tokens as were asked for.

    Args:
        slots: Answers at once; 0 sets no limit.
        latency_s: Of an answer, once it has a slot.
    """

    def __init__(self, slots: int, latency_s: float) -> None:
        self._limit = asyncio.Semaphore(slots) if slots else nullcontext()
        self._latency_s = latency_s
        self._answers: dict[int, bytes] = {}

    def app(self) -> web.Application:
        app = web.Application(client_max_size=16 << 20)
        app.add_routes(
            [
                web.get("/health", self._health),
                web.get("/server_info", self._info),
                web.post("/generate", self._generate),
            ]
        )
        return app

    async def _health(self, _: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    async def _info(self, _: web.Request) -> web.Response:
        return web.json_response({"instance": "instant", "weight_version": "0"})

    async def _generate(self, request: web.Request) -> web.Response:
        body = json.loads(await request.read())
        count = body["sampling_params"]["max_new_tokens"]
        if count not in self._answers:
            self._answers[count] = _answer(count)
        async with self._limit:
            if self._latency_s:
                await asyncio.sleep(self._latency_s)
        return web.Response(body=self._answers[count], content_type="application/json")


def _answer(count: int) -> bytes:
    rng = random.Random(count)
    # As long as those of a real model are: digits cost time to read.
    pairs = [[-3 * rng.random(), rng.randrange(10, 150_000), None] for _ in range(count)]
    meta = {
        "finish_reason": {"type": "length"},
        "completion_tokens": count,
        "output_token_logprobs": pairs,
        "output_token_versions": [0] * count,
    }
    tokens = [pair[1] for pair in pairs]
    return json.dumps({"text": "", "output_ids": tokens, "meta_info": meta}).encode()


def main() -> None:
    port, slots, latency_s = sys.argv[1:]
    server = InstantServer(int(slots), float(latency_s))
    web.run_app(server.app(), host="127.0.0.1", port=int(port), access_log=None, print=None)


if __name__ == "__main__":
    main()
