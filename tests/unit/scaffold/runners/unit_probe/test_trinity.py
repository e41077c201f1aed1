"""The model that Trinity-RFT's runner is given, from the threads and loops that the runner has."""

from __future__ import annotations

import asyncio
import importlib
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("areal.experimental.trinity")

RUNNERS = Path(__file__).parents[5] / "scaffold" / "runners"
ASK = [{"role": "user", "content": "1+1="}]


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Makes the runner's model, which is served by the loop of another thread."""
    from areal.api.cli_args import GenerationHyperparameters
    from areal.experimental.trinity.package import load_package
    from tests.fakes import InstantEngine, tiny_tokenizer

    monkeypatch.setattr(sys, "path", [str(RUNNERS), *sys.path])
    probe = importlib.import_module("unit_probe.trinity")
    tokenizer = tiny_tokenizer("0123456789+=")
    gconfig = GenerationHyperparameters(max_new_tokens=4)
    setting = SimpleNamespace(tokenizer=tokenizer, arguments=lambda *_: {"gconfig": gconfig})
    engine = InstantEngine(lambda _: [*tokenizer.encode("2"), tokenizer.eos_token_id])
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield probe._runner_model(setting, load_package(), engine, loop)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(30)
        loop.close()


def ask_client(model: Any) -> str:
    client = model.get_openai_client()
    answer = client.chat.completions.create(model=client.model_path, messages=ASK)
    return str(answer.choices[0].message.content)


async def ask_async_client(model: Any) -> str:
    client = model.get_openai_async_client()
    answer = await client.chat.completions.create(model=client.model_path, messages=ASK)
    return str(answer.choices[0].message.content)


async def ask_async(model: Any) -> str:
    return str((await model.chat_async(ASK))[0].response_text)


@pytest.mark.parametrize("ask", [ask_client, lambda model: model.chat(ASK)[0].response_text])
def test_the_runners_model_answers_a_thread(model: Any, ask: Callable[[Any], str]) -> None:
    assert ask(model) == "2"


@pytest.mark.parametrize("ask", [ask_async_client, ask_async])
def test_the_runners_model_answers_another_loop(model: Any, ask: Callable[[Any], Any]) -> None:
    assert asyncio.run(asyncio.wait_for(ask(model), 30)) == "2"
