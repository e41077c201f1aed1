"""The embedded engine behind HTTP: what it answers, and how its weights change."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
import torch

from areal.api.cli_args import InferenceEngineConfig
from areal.api.errors import ConfigError
from areal.engine.loading.huggingface import prepare_model
from areal.engine.local.engine import LocalInferenceEngine
from areal.engine.local.server import InferenceServer
from areal.engine.model.lora import ADAPTER_WEIGHTS, LoraCausalLM, make_config
from areal.engine.model.shared_weights import SharedWeights
from areal.engine.weight_sync import MANIFEST, WeightGroup, write_manifest
from areal.utils.character_tokenizer import character_tokenizer
from areal.utils.network import find_free_ports
from tests.tiny_models import tiny_model

PROMPT = [3, 4, 5]
KEY = "a key of the test"


def make_engine(seed: int = 0) -> LocalInferenceEngine:
    model = prepare_model(
        tiny_model("qwen3", seed=seed, max_position_embeddings=4096), torch.device("cpu")
    )
    return LocalInferenceEngine(InferenceEngineConfig(), SharedWeights(model))


class Client:
    def __init__(self, server: InferenceServer, key: str = "") -> None:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self.url = server.start()
        self.http = httpx.Client(base_url=self.url, headers=headers, timeout=60)

    def post(self, path: str, body: Any) -> tuple[int, dict[str, Any]]:
        answer = self.http.post(path, json=body)
        return answer.status_code, answer.json()

    def generate(self, prompt: list[int] = PROMPT, **sampling: Any) -> dict[str, Any]:
        status, answer = self.post(
            "/generate", {"input_ids": prompt, "sampling_params": {"ignore_eos": True, **sampling}}
        )
        assert status == 200, answer
        return answer

    def updates(self) -> dict[str, Any]:
        return self.http.get("/server_info").json()


@pytest.fixture
def served() -> Iterator[tuple[LocalInferenceEngine, Client]]:
    engine = make_engine()
    engine.initialize()
    server = InferenceServer(engine, character_tokenizer("abcdefghijklmnopqrstuvwxyz"))
    client = Client(server)
    try:
        yield engine, client
    finally:
        client.http.close()
        server.stop()
        engine.destroy()


@pytest.fixture(scope="module")
def other_weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("other")
    make_engine(seed=1).weights.lm.write(folder)
    write_manifest(folder)
    return folder


def logprobs(answer: dict[str, Any]) -> list[float]:
    return [entry[0] for entry in answer["meta_info"]["output_token_logprobs"]]


def begin_long_answer(client: Client, engine: LocalInferenceEngine, tokens: int = 3000) -> Any:
    """Asks for a long answer in a thread and returns its future once it has begun."""
    future = ThreadPoolExecutor(1).submit(client.generate, max_new_tokens=tokens, sampling_seed=3)
    begun = threading.Event()
    hook = engine.weights.module.register_forward_pre_hook(lambda *_: begun.set())
    assert begun.wait(30)
    hook.remove()
    return future


def test_a_greedy_answer_is_that_of_the_model(served: Any) -> None:
    engine, client = served
    answer = client.generate(max_new_tokens=6, temperature=0)
    ids = answer["output_ids"]
    with torch.no_grad():
        tokens = torch.tensor(PROMPT + ids)
        logits = engine.weights.lm.logits(tokens, torch.arange(len(tokens)), [len(tokens)])
    expected = logits[2:-1].log_softmax(-1)
    assert expected.argmax(-1).tolist() == ids
    found = torch.tensor(logprobs(answer))
    torch.testing.assert_close(found, expected.gather(1, tokens[3:, None])[:, 0], atol=1e-5, rtol=0)
    assert answer["meta_info"]["finish_reason"] == {"type": "length"}
    assert answer["meta_info"]["output_token_versions"] == [0] * 6


def test_an_answer_that_is_resumed_goes_on_as_it_would_have(served: Any) -> None:
    _, client = served
    whole = client.generate(max_new_tokens=150, sampling_seed=11)["output_ids"]
    for cut in (1, 61, 63, 64, 100):  # on both sides of a block of the random stream
        rest = client.generate(PROMPT + whole[:cut], max_new_tokens=150 - cut, sampling_seed=11)
        assert rest["output_ids"] == whole[cut:]
    assert client.generate(max_new_tokens=150, sampling_seed=12)["output_ids"] != whole


@pytest.mark.heavy
def test_weights_change_in_the_middle_of_an_answer(served: Any, other_weights: Path) -> None:
    engine, client = served
    future = begin_long_answer(client, engine)
    assert client.post(
        "/update_weights_from_disk", {"model_path": str(other_weights), "weight_version": "4"}
    ) == (200, {"success": True, "message": "ok"})
    versions = future.result(60)["meta_info"]["output_token_versions"]
    assert versions == sorted(versions)
    assert set(versions) == {0, 4}
    assert client.http.get("/get_model_info").json()["weight_version"] == "4"


def test_a_pause_aborts_and_the_next_request_waits_for_its_end(served: Any) -> None:
    engine, client = served
    future = begin_long_answer(client, engine)
    assert client.post("/pause_generation", {})[0] == 200
    aborted = future.result(60)
    assert aborted["meta_info"]["finish_reason"]["type"] == "abort"
    assert 0 < len(aborted["output_ids"]) < 3000
    waiting = ThreadPoolExecutor(1).submit(client.generate, max_new_tokens=2)
    while not engine._waiting:
        assert not waiting.done()
    assert client.post("/continue_generation", {})[0] == 200
    assert len(waiting.result(60)["output_ids"]) == 2


def test_a_request_that_waits_is_aborted_by_its_name(served: Any) -> None:
    engine, client = served
    client.post("/pause_generation", {"mode": "in_place"})
    body = {"input_ids": PROMPT, "rid": "one", "sampling_params": {"max_new_tokens": 2}}
    waiting = ThreadPoolExecutor(1).submit(client.post, "/generate", body)
    while not engine._waiting:
        assert not waiting.done()
    client.post("/abort_request", {"rid": "another"})
    client.post("/abort_request", {"rid": "one"})
    reason = waiting.result(60)[1]["meta_info"]["finish_reason"]
    assert reason == {"type": "abort", "message": "Abort before prefill"}


def test_a_client_that_hangs_up_frees_its_row(served: Any) -> None:
    engine, client = served
    body = {"input_ids": PROMPT, "sampling_params": {"max_new_tokens": 4000, "ignore_eos": True}}
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{client.url}/generate", json=body, timeout=0.3)
    done = threading.Event()

    def look(*_: Any) -> None:
        if len(engine._decoder.rows) <= 1:
            done.set()

    engine.weights.module.register_forward_pre_hook(look)
    client.generate(max_new_tokens=50)
    assert done.wait(10)


@pytest.mark.parametrize("way", ["disk", "http", "group"])
def test_every_way_of_an_update_ends_in_the_same_weights(
    served: Any, other_weights: Path, way: str
) -> None:
    engine, client = served
    other = make_engine(seed=1)
    if way == "disk":
        body = {"model_path": str(other_weights), "weight_version": "7"}
        status, answer = client.post("/update_weights_from_disk", body)
    elif way == "http":
        with files_over_http(other_weights) as url:
            status, answer = client.post("/pull_weights", {"url": url, "weight_version": "7"})
    else:
        status, answer = send_by_group(client, other)
    assert (status, answer) == (200, {"success": True, "message": "ok"})
    expected = other.weights.module.state_dict()
    for name, tensor in engine.weights.module.state_dict().items():
        assert torch.equal(tensor, expected[name]), name
    info = client.updates()
    assert info["weight_version"] == "7"
    assert info["updates"][way] > 10_000
    assert client.generate(max_new_tokens=1)["meta_info"]["output_token_versions"] == [7]


def files_over_http(folder: Path) -> Any:
    import contextlib
    from functools import partial
    from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None: ...

    @contextlib.contextmanager
    def serving() -> Iterator[str]:
        with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as files:
            threading.Thread(target=files.serve_forever, daemon=True).start()
            yield f"http://127.0.0.1:{files.server_address[1]}"
            files.shutdown()

    return serving()


def send_by_group(client: Client, other: LocalInferenceEngine) -> tuple[int, dict[str, Any]]:
    port = find_free_ports(1)[0]
    pool = ThreadPoolExecutor(1)
    place = {"master_address": "127.0.0.1", "master_port": str(port), "group_name": "g"}
    joining = pool.submit(
        client.post,
        "/init_weights_update_group",
        {**place, "rank_offset": 1, "world_size": 2, "backend": "gloo"},
    )
    group = WeightGroup("127.0.0.1", port, 0, 2, "g", torch.device("cpu"))
    assert joining.result(60)[0] == 200
    connections = psutil.Process().net_connections("tcp")
    listening = {c.laddr.ip for c in connections if c.status == psutil.CONN_LISTEN}
    assert listening == {"127.0.0.1"}
    state = other.weights.module.state_dict()
    for names in (list(state)[::2], list(state)[1::2]):
        body = {
            "names": names,
            "dtypes": ["float32"] * len(names),
            "shapes": [list(state[name].shape) for name in names],
            "group_name": "g",
        }
        sending = pool.submit(client.post, "/update_weights_from_distributed", body)
        for name in names:
            group.broadcast(state[name].contiguous())
        answer = sending.result(60)
        assert answer[0] == 200, answer
        assert client.updates()["weight_version"] == "0"
    return client.post("/finish_weight_update", {"weight_version": "7"})


def damage(folder: Path, how: str) -> None:
    weights = folder / "model.safetensors"
    if how == "changed":
        content = bytearray(weights.read_bytes())
        content[-1] ^= 1
        weights.write_bytes(content)
    elif how == "short":
        weights.write_bytes(weights.read_bytes()[:-9])
    elif how == "missing":
        weights.unlink()
    elif how == "manifest":
        (folder / MANIFEST).write_text('{"files": {"../x": {"bytes": 1, "sha256": ""}}}')


@pytest.mark.parametrize("how", ["changed", "short", "missing", "manifest"])
@pytest.mark.parametrize("way", ["disk", "http"])
def test_damaged_weights_are_refused_and_the_old_ones_go_on(
    served: Any, other_weights: Path, tmp_path: Path, how: str, way: str
) -> None:
    engine, client = served
    before = {name: tensor.clone() for name, tensor in engine.weights.module.state_dict().items()}
    for file in other_weights.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    damage(tmp_path, how)
    if way == "disk":
        body = {"model_path": str(tmp_path), "weight_version": "7"}
        status, answer = client.post("/update_weights_from_disk", body)
    else:
        with files_over_http(tmp_path) as url:
            status, answer = client.post("/pull_weights", {"url": url, "weight_version": "7"})
    assert status == 400
    assert answer["success"] is False
    assert answer["message"]
    for name, tensor in engine.weights.module.state_dict().items():
        assert torch.equal(tensor, before[name])
    assert client.generate(max_new_tokens=1)["meta_info"]["output_token_versions"] == [0]


def write_adapter(folder: Path, seed: int, rank: int = 4) -> LocalInferenceEngine:
    """Writes an adapter that changes the served model, and returns an engine that has it."""
    torch.manual_seed(seed)
    engine = make_engine()
    lm = LoraCausalLM(engine.weights.module, make_config("base", rank, 8, ["q_proj", "up_proj"]))
    with torch.no_grad():
        for _, parameter in lm.named_parameters():
            parameter.normal_()
    folder.mkdir()
    lm.write(folder)
    write_manifest(folder)
    engine.weights.lm = lm
    return engine


def test_an_adapter_is_loaded_under_names_with_versions(served: Any, tmp_path: Path) -> None:
    engine, client = served
    plain = client.generate(max_new_tokens=6, temperature=0)
    for version in (1, 2):
        expected = write_adapter(tmp_path / f"v{version}", seed=version)
        body = {"lora_name": f"x-v{version}", "lora_path": str(tmp_path / f"v{version}")}
        assert client.post("/load_lora_adapter", body)[0] == 200
        assert client.post("/load_lora_adapter", body)[0] == 200  # a second attempt
        tokens = torch.tensor(PROMPT)
        arguments = (tokens, torch.arange(3), [3])
        with torch.no_grad():
            found = engine.weights.lm.logits(*arguments)
            torch.testing.assert_close(found, expected.weights.lm.logits(*arguments))
    sampling = {"max_new_tokens": 6, "temperature": 0, "ignore_eos": True}
    body = {"input_ids": PROMPT, "sampling_params": sampling, "lora_path": "x-v2"}
    status, answer = client.post("/generate", body)
    assert status == 200
    assert answer["output_ids"] != plain["output_ids"]
    assert answer["meta_info"]["output_token_versions"] == [2] * 6
    assert client.updates()["weight_version"] == "2"
    files = [path for v in (1, 2) for path in (tmp_path / f"v{v}").iterdir()]
    size = sum(path.stat().st_size for path in files if path.name != MANIFEST)
    assert client.updates()["updates"]["adapter"] == 2 * size
    # The older name leads to what is live, until it is unloaded.
    assert client.post("/generate", body | {"lora_path": "x-v1"})[0] == 200
    assert client.post("/unload_lora_adapter", {"lora_name": "x-v1"})[0] == 200
    status, refusal = client.post("/generate", body | {"lora_path": "x-v1"})
    assert (status, "loaded are: x-v2" in str(refusal)) == (400, True)
    assert client.post("/unload_lora_adapter", {"lora_name": "x-v2"})[0] == 400


def test_an_adapter_that_does_not_fit_leaves_the_last_one(served: Any, tmp_path: Path) -> None:
    engine, client = served
    write_adapter(tmp_path / "good", seed=1)
    write_adapter(tmp_path / "larger", seed=2, rank=8)
    write_adapter(tmp_path / "damaged", seed=3)
    with (tmp_path / "damaged" / ADAPTER_WEIGHTS).open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"!")
    load = {"lora_name": "x-v1", "lora_path": str(tmp_path / "good")}
    assert client.post("/load_lora_adapter", load)[0] == 200
    before = {name: each.clone() for name, each in engine.weights.lm.named_parameters()}
    for name, words in (
        ("larger", "its r is 8, here 4"),
        ("damaged", "differs from its manifest"),
        ("nowhere", "there is no LoRA adapter"),
    ):
        body = {"lora_name": "x-v2", "lora_path": str(tmp_path / name)}
        status, answer = client.post("/load_lora_adapter", body)
        assert (status, words in answer["message"]) == (400, True), answer
    for name, tensor in engine.weights.lm.named_parameters():
        assert torch.equal(tensor, before[name])
    assert client.updates()["weight_version"] == "1"


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("/generate", [], "object"),
        ("/generate", {}, "input_ids"),
        ("/generate", {"input_ids": [1.5]}, "input_ids"),
        ("/generate", {"input_ids": [[1, 2]]}, "input_ids"),
        ("/generate", {"input_ids": [999999]}, "999999"),
        ("/generate", {"input_ids": []}, "empty"),
        ("/generate", {"input_ids": [3], "lora_path": "x-v1"}, "lora_path"),
        ("/generate", {"input_ids": [3], "stream": True}, "stream"),
        ("/generate", {"input_ids": [3], "sampling_params": 5}, "sampling_params"),
        ("/generate", {"input_ids": [3], "sampling_params": {"top_p": "x"}}, "top_p"),
        ("/generate", {"input_ids": [3], "sampling_params": {"top_p": 3.0}}, "top_p"),
        ("/generate", {"input_ids": [3], "sampling_params": {"max_new_tokens": True}}, "max_new"),
        ("/generate", {"input_ids": [3], "sampling_params": {"min_p": 0.1}}, "min_p"),
        ("/generate", {"input_ids": [3] * 5000}, "no room"),
        ("/pause_generation", {"mode": "sleep"}, "sleep"),
        ("/generate", {"input_ids": [3], "sampling_params": {"stop_token_ids": ["a"]}}, "stop_tok"),
        ("/generate", {"input_ids": [3], "sampling_params": {"stop_token_ids": [10**30]}}, "stop_"),
        ("/generate", {"input_ids": [3], "sampling_params": {"stop": [1]}}, "stop"),
        ("/generate", {"input_ids": [3], "sampling_params": {"stop": {"a": 1}}}, "stop"),
        (
            "/generate",
            {"input_ids": [3], "sampling_params": {"temperature": 1e-300}},
            "temperature",
        ),
        ("/generate", {"input_ids": [3], "sampling_params": {"top_p": 1e-300}}, "top_p"),
        (
            "/generate",
            {"input_ids": [3], "sampling_params": {"frequency_penalty": 1e308}},
            "penalty",
        ),
        ("/generate", {"input_ids": [3], "sampling_params": {"sampling_seed": 10**30}}, "seed"),
        ("/generate", {"text": "a" * (2 << 20)}, "characters"),
        ("/finish_weight_update", {"weight_version": "1"}, "nothing has been received"),
        ("/finish_weight_update", {"weight_version": "1" * 400}, "weight_version"),
        ("/v1/completions", {"prompt": [3], "presence_penalty": 1.5}, "presence_penalty"),
        ("/abort_request", {}, "rid"),
        ("/update_weights_from_disk", {}, "model_path"),
        ("/update_weights_from_disk", {"model_path": "x", "weight_version": 3}, "weight_version"),
        ("/pull_weights", {"url": "file:///etc/passwd"}, "url"),
        ("/init_weights_update_group", {"master_address": "127.0.0.1"}, "master_port"),
        ("/v1/completions", {"prompt": [3], "n": 2}, "n:"),
        ("/v1/chat/completions", {"messages": 3}, "messages"),
    ],
)
def test_a_request_that_cannot_be_served_is_refused_by_field(
    served: Any, path: str, body: Any, words: str
) -> None:
    status, answer = served[1].post(path, body)
    assert status == 400
    assert words in str(answer)


def test_a_group_that_is_not_there_is_named(served: Any) -> None:
    body = {"names": [], "dtypes": [], "shapes": [], "group_name": "gone", "weight_version": "1"}
    status, answer = served[1].post("/update_weights_from_distributed", body)
    assert status == 400
    assert "gone" in answer["message"]


def test_a_page_of_another_site_gets_nothing(served: Any) -> None:
    _, client = served
    for headers in ({"Origin": "http://evil.example"}, {"Host": "evil.example"}):
        answer = client.http.post("/pause_generation", json={}, headers=headers)
        assert answer.status_code == 403
    assert client.generate(max_new_tokens=1)["output_ids"]


def test_a_row_that_fails_in_the_middle_costs_no_row_that_comes_later(served: Any) -> None:
    engine, client = served
    append = engine._decoder._append
    calls: list[int] = []

    def append_badly(rows: Any) -> None:
        append(rows)
        calls.append(len(rows))
        if len(calls) == 1:
            raise ValueError("a bad row")

    engine._decoder._append = append_badly
    status, answer = client.post(
        "/generate", {"input_ids": PROMPT, "sampling_params": {"max_new_tokens": 2}}
    )
    assert status == 500  # another server may do better
    assert "a bad row" in str(answer)
    assert not engine._decoder.rows
    assert len(client.generate(max_new_tokens=3)["output_ids"]) == 3


def test_openai_routes_give_tokens_and_logprobs(served: Any) -> None:
    _, client = served
    greedy = client.generate(max_new_tokens=4, temperature=0)
    status, answer = client.post(
        "/v1/completions", {"prompt": PROMPT, "max_tokens": 4, "temperature": 0}
    )
    assert status == 200
    choice = answer["choices"][0]
    count = len(choice["token_ids"])  # the tokenizer's end token may stop it here
    assert choice["token_ids"] == greedy["output_ids"][:count]
    assert choice["logprobs"]["token_logprobs"] == logprobs(greedy)[:count]
    assert answer["usage"]["prompt_tokens"] == 3
    status, answer = client.post(
        "/v1/chat/completions",
        {"messages": [{"role": "user", "content": "abc"}], "max_tokens": 3, "seed": 5},
    )
    assert status == 200
    assert answer["choices"][0]["message"]["role"] == "assistant"
    assert len(answer["choices"][0]["logprobs"]["content"]) == answer["usage"]["completion_tokens"]


def test_other_machines_need_a_key() -> None:
    engine = make_engine()
    for host in ("0.0.0.0", "::", "192.0.2.7", "example.org"):
        with pytest.raises(ConfigError, match="AREAL_SERVER_KEY"):
            InferenceServer(engine, None, host=host)


def test_a_wrong_key_opens_nothing_but_the_health_check() -> None:
    engine = make_engine()
    engine.initialize()
    server = InferenceServer(engine, None, api_key=KEY)
    client = Client(server)
    try:
        assert client.http.get("/health").status_code == 200
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": KEY[:-1]}):
            for path in ("/generate", "/update_weights_from_disk", "/pause_generation"):
                assert client.http.post(path, json={}, headers=headers).status_code == 401
        opened = client.http.get("/server_info", headers={"Authorization": f"Bearer {KEY}"})
        assert opened.status_code == 200
    finally:
        client.http.close()
        server.stop()
        engine.destroy()


def test_a_port_that_is_taken_is_named(served: Any) -> None:
    engine, client = served
    port = int(client.url.rpartition(":")[2])
    with pytest.raises(ConfigError, match=str(port)):
        InferenceServer(engine, None, port=port).start()
