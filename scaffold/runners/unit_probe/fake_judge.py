"""A judge for rewards that ask one: an OpenAI-compatible endpoint on this machine.

Its verdicts follow from a hash of the text, and it refuses some requests as a busy endpoint does,
so that the whole way of a reward to its judge and back is tried without one.
"""

from __future__ import annotations

import json
import os
import threading
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

# One request in five is answered with 429, as by a busy server.
REFUSES_ONE_IN = 5
REPLIES = ("It is poor.\nSCORE: 0.25\nVERDICT: no", "It is good.\nSCORE: 0.75\nVERDICT: yes")


class FakeJudge(ThreadingHTTPServer):
    """A server in a thread of its own until the process ends; `count` counts the requests."""

    daemon_threads = True

    def __init__(self) -> None:
        # Port 0: the system chooses a free one.
        super().__init__(("127.0.0.1", 0), _Handler)
        self.count = 0
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def become_the_judge(self) -> None:
        """Send every reward here that takes its judge from the environment.

        No real judge gets a request, for that may cost money, and nothing is kept for later runs.
        """
        base_url = f"http://127.0.0.1:{self.server_port}/v1"
        os.environ.update(JUDGE_BASE_URL=base_url, JUDGE_MODEL="stand-in", JUDGE_CACHE_DIR="")
        os.environ.pop("JUDGE_API_KEY", None)
        # A proxy of the environment would be asked for this machine's own address.
        os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        server: Any = self.server
        server.count += 1
        if server.count % REFUSES_ONE_IN == 0:
            self._answer(429, {"error": {"message": "busy"}})
            return
        try:
            messages = json.loads(body)["messages"]
            text = next(m["content"] for m in reversed(messages) if m["role"] == "user")
        except (LookupError, StopIteration, TypeError, ValueError):
            self._answer(400, {"error": {"message": "no messages of a user"}})
            return
        # crc32 and not hash(), which differs from process to process.
        reply = REPLIES[zlib.crc32(str(text).encode("utf-8", "replace")) % len(REPLIES)]
        message = {"role": "assistant", "content": reply}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        self._answer(200, {"object": "chat.completion", "choices": [choice]})

    def _answer(self, status: int, content: dict[str, Any]) -> None:
        data = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        if status == 429:
            # The client waits as long as the endpoint asks for: not at all.
            self.send_header("Retry-After", "0")
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing: nobody reads what a runner prints."""
