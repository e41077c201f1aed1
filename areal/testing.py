"""Stand-ins for tests of workflows, agents and datasets: nothing is downloaded, no model runs."""

from __future__ import annotations

import contextlib
import itertools
import json
import threading
import unittest
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

    from areal.api import ModelRequest, ModelResponse

CHAT = (
    "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}<eos>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


def make_tokenizer(chat_template: str = CHAT) -> PreTrainedTokenizerFast:
    """Make a byte tokenizer with a chat template."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    specials = ["<pad>", "<eos>", "<system>", "<user>", "<assistant>"]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {token: index for index, token in enumerate([*specials, *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocab, []))
    tokenizer.add_special_tokens(specials)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        eos_token="<eos>",
        chat_template=chat_template,
    )


class ScriptedEngine:
    """Answer with prepared texts in turn, over and over, and keep the requests and the answers.

    Version and log-probabilities differ from answer to answer, so that a mix-up shows.

    Args:
        tokenizer: Encodes the texts.
        *replies: Each ends in the end of sequence; None is a completion without any token.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerFast, *replies: str | None) -> None:
        self.tokenizer = tokenizer
        self.replies = itertools.cycle(replies)
        self.requests: list[ModelRequest] = []
        self.responses: list[ModelResponse] = []

    def get_version(self) -> int:
        """Return the version of the first answer."""
        return 7

    async def agenerate(self, req: ModelRequest) -> ModelResponse:
        """Answer with the next text."""
        from areal.api import ModelResponse

        reply, turn = next(self.replies), len(self.responses)
        text = "" if reply is None else f"{reply}<eos>"
        tokens = self.tokenizer.encode(text, add_special_tokens=False)
        response = ModelResponse(
            input_tokens=list(req.input_ids),
            output_tokens=tokens,
            output_logprobs=[-0.1 - 0.01 * n - 0.001 * turn for n in range(len(tokens))],
            output_versions=[7 + turn] * len(tokens),
            stop_reason="stop",
            tokenizer=req.tokenizer,
        )
        self.requests.append(req.copy())
        self.responses.append(response)
        return response


class InlineReward:
    """Call a reward in this process, in the place of ``AsyncRewardWrapper`` and its workers."""

    def __init__(self, reward_fn: Callable[..., float]) -> None:
        self.reward_fn = reward_fn

    async def __call__(self, *args: Any, **kwargs: Any) -> float:
        return self.reward_fn(*args, **kwargs)


def is_right(
    prompt: str,
    completions: str,
    prompt_ids: list[int],
    completion_ids: list[int],
    answer: str,
    **kwargs: Any,
) -> float:
    """Give 1.0 to a completion that is the answer."""
    return float(completions == answer)


HOSTILE_TEXTS = [
    "",
    " \n\t",
    "\x00",
    "\\",
    "\\boxed{",
    "\\frac{1}{0}",
    "{{ answer }}",
    "{fence} {0}",
    '\'"""',
    "\N{GRINNING FACE}" * 99,
    "9" * 9_999,
]
"""Completions that break what reads them carelessly."""


def score(reward_fn: Callable[..., Any], completion: str, **columns: Any) -> Any:
    """Call a reward as a workflow does, with a column that it does not know."""
    return reward_fn("a question", completion, [1, 2], [3], **{"level": "extra", **columns})


def check_hostile_texts(reward_fn: Callable[..., Any], **columns: Any) -> None:
    """Assert that a reward gives a plain, finite float to any text."""
    for text in HOSTILE_TEXTS:
        reward = score(reward_fn, text, **columns)
        assert type(reward) is float, repr(text)
        assert reward - reward == 0.0, repr(text)  # neither infinite nor no number


def expected_rows(engine: ScriptedEngine) -> dict[str, list[float]]:
    """Return the rows of a trajectory that trains on what an engine generated and nothing else.

    Each completion begins where the prompt of its request ends.
    """
    last = engine.responses[-1]
    length = last.input_len + last.output_len
    rows: dict[str, list[float]] = {
        "input_ids": last.input_tokens + last.output_tokens,
        "loss_mask": [0] * length,
        "logprobs": [0.0] * length,
        "versions": [-1] * length,
        "turn_ids": [-1] * length,
    }
    for turn, response in enumerate(engine.responses):
        part = slice(response.input_len, response.input_len + response.output_len)
        rows["loss_mask"][part] = [1] * response.output_len
        rows["logprobs"][part] = response.output_logprobs
        rows["versions"][part] = response.output_versions
        rows["turn_ids"][part] = [turn] * response.output_len
    return rows


def check_trajectory(engine: ScriptedEngine, trajectory: dict[str, Any]) -> None:
    """Assert that one sequence trains on what the engine generated and on nothing else."""
    assert trajectory["attention_mask"].all()
    for key, row in expected_rows(engine).items():
        found = trajectory[key].tolist()
        # float32 keeps seven digits.
        assert [[round(each, 6) for each in each_row] for each_row in found] == [
            [round(each, 6) for each in row]
        ], key


def check_turns(engine: ScriptedEngine, trajectory: dict[str, Any]) -> None:
    """Assert that there is a sequence for each completion, in turn, trained on it alone."""
    assert len(trajectory["input_ids"]) == len(engine.responses)
    for turn, response in enumerate(engine.responses):
        length = response.input_len + response.output_len
        assert trajectory["attention_mask"][turn].tolist() == [
            place < length for place in range(trajectory["attention_mask"].shape[1])
        ]
        before = response.input_len
        for key, row in {
            "input_ids": response.input_tokens + response.output_tokens,
            "loss_mask": [0] * before + [1] * response.output_len,
            "logprobs": [0.0] * before + response.output_logprobs,
            "versions": [-1] * before + response.output_versions,
            "turn_ids": [-1] * before + [turn] * response.output_len,
        }.items():
            found = trajectory[key][turn, :length].tolist()
            assert [round(each, 6) for each in found] == [round(each, 6) for each in row], key


class ChatServer(ThreadingHTTPServer):
    """Serve the OpenAI interface on this machine, with prepared answers.

    Args:
        *replies: Texts, or (status, body, headers), given in turn; the last one again and again.
    """

    daemon_threads = True

    def __init__(self, *replies: Any) -> None:
        super().__init__(("127.0.0.1", 0), _ChatHandler)
        self.replies = list(replies)
        self.requests: list[dict[str, Any]] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    @contextlib.contextmanager
    def running(self) -> Iterator[ChatServer]:
        """Serve from another thread while the context is open."""
        thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield self
        finally:
            self.shutdown()
            thread.join()
            self.server_close()

    def answer(self, request: dict[str, Any]) -> tuple[int, bytes, dict[str, str]]:
        """Return status, body and headers of the next answer."""
        self.requests.append(request)
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if isinstance(reply, tuple):
            return reply
        message = {"role": "assistant", "content": reply}
        choice = {"index": 0, "finish_reason": "stop", "message": message, "logprobs": None}
        head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 0, "model": "default"}
        return 200, json.dumps({**head, "choices": [choice]}).encode(), {}


class _ChatHandler(BaseHTTPRequestHandler):
    server: ChatServer

    def do_POST(self) -> None:  # the name that the base class asks for
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        about = {"path": self.path, "authorization": self.headers["Authorization"]}
        status, body, headers = self.server.answer({**request, **about})
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        """Print nothing."""


def write_rows(folder: Path, rows: list[dict[str, Any]], suffix: str = "jsonl") -> str:
    """Write rows as the training split of a folder, which is made, and return its path."""
    folder.mkdir()
    path = folder / f"train.{suffix}"
    if suffix == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    else:
        from datasets import Dataset

        getattr(Dataset.from_list(rows), f"to_{suffix}")(path)
    return str(folder)


def check_loader(load: Callable[..., Any], rows: list[dict[str, Any]], folder: Path) -> None:
    """Assert that a loader gives the same of every form of file, and refuses what has no rows.

    Args:
        load: Called as (path, split, tokenizer).
        rows: Of the source, with columns of text or of messages.
        folder: An empty one.
    """
    tokenizer = make_tokenizer()
    found = list(load(write_rows(folder / "jsonl", rows), "train", tokenizer))
    has_text = all(isinstance(value, str) for row in rows for value in row.values())
    with mock.patch("datasets.config.HF_DATASETS_CACHE", folder / "cache"):
        for suffix in ("json", "parquet", *["csv"] * has_text):
            place = write_rows(folder / suffix, rows, suffix)
            assert list(load(place, "train", tokenizer)) == found, suffix
            assert list(load(f"{place}/train.{suffix}", None, tokenizer)) == found, suffix
    for name, refused in {
        "lacks the column": {"something": "else"},
        "no rows with values": dict.fromkeys(rows[0], ""),
    }.items():
        place = write_rows(folder / name.replace(" ", "_"), [refused])
        with unittest.TestCase().assertRaisesRegex(ValueError, name):  # noqa: PT027  (no pytest here)
            load(place, "train", tokenizer)
