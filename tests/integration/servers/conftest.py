"""A vLLM server of this machine's own, and two sets of weights that it can load."""

from __future__ import annotations

import asyncio
import signal
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from areal.api.cli_args import vLLMConfig
from areal.api.errors import ArealError
from areal.engine import VLLMBackend
from areal.infra.managed_process import ManagedProcess
from areal.utils.network import find_free_ports
from tests.fakes import tiny_tokenizer
from tests.integration.servers.install import PYTHON, why_missing
from tests.server_checks import PROMPT, VLLM_LACKS, RunningServer
from tests.tiny_models import tiny_model
from tests.tiny_runs import CHARACTERS

# The first start compiles kernels, and other tests may have the cores.
START_TIMEOUT_S = 280
ENVIRONMENT = {
    "VLLM_SERVER_DEV_MODE": "1",  # the endpoints for training
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GB
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # it would take cores that are not this process's
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
}


class VLLM(RunningServer):
    """A server as a process, which can be killed and started again on its port.

    Args:
        folder: Gets two models, ``0`` and ``1``, and the log.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (port,) = find_free_ports(1)
        weights = str(folder / "1")
        super().__init__(f"127.0.0.1:{port}", VLLMBackend(), weights, lacks=VLLM_LACKS)
        tokenizer = tiny_tokenizer(CHARACTERS)
        for seed in (0, 1):
            model = small_model(seed)
            # What the authors of a model advise must not change what is sampled.
            model.generation_config.update(do_sample=True, repetition_penalty=5.0, min_p=0.5)
            model.save_pretrained(folder / str(seed))
            tokenizer.save_pretrained(folder / str(seed))
        config = vLLMConfig(
            model=str(folder / "0"),
            dtype="float32",
            enforce_eager=True,
            max_model_len=2048,
            block_size=128,  # what its attention on CPUs can do
        )
        args = vLLMConfig.build_args(config, tp_size=1, host="127.0.0.1", port=port)
        command = vLLMConfig.build_cmd_from_args(args | {"logprobs_mode": "processed_logprobs"})
        command[0] = str(PYTHON)
        self.process = ManagedProcess("vllm", command, ENVIRONMENT, folder / "server.log")

    def start(self) -> None:
        """Starts it and returns when it has generated something."""
        self.process.start()
        give_up_at = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                asyncio.run(self.generate(PROMPT, 2))
                return
            except ArealError as error:
                words = f"{error}\n{self.process.last_words()}"
                assert self.process.exit_code() is None, words
                assert time.monotonic() < give_up_at, words
            time.sleep(0.2)

    def kill(self) -> None:
        """Ends it and all of its processes as the kernel does where memory is short."""
        self.process.signal(signal.SIGKILL)
        self.process.stop()

    def is_working(self) -> bool:
        """Returns whether it generates now, by its own count of requests."""
        with urllib.request.urlopen(f"http://{self.address}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        counts = [line.split() for line in lines if line.startswith("vllm:num_requests_running{")]
        return any(float(count) for *_, count in counts)

    def rewind(self) -> None:
        """Gives it the weights that it was started with, as version 0."""
        asyncio.run(self.update(0, str(self.folder / "0")))


def small_model(seed: int) -> Any:
    """Makes a model of which vLLM has kernels for CPUs: they want heads of 32 and more."""
    return tiny_model(
        "qwen3",
        seed=seed,
        vocab_size=len(tiny_tokenizer(CHARACTERS)),
        hidden_size=64,
        head_dim=64,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=2048,
    )


@pytest.fixture(scope="session")
def vllm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VLLM]:
    """Yields a server that runs, or skips."""
    reason = why_missing()
    if reason is not None:
        pytest.skip(reason)
    server = VLLM(tmp_path_factory.mktemp("vllm"))
    try:
        server.start()
        yield server
    finally:
        server.process.stop()
