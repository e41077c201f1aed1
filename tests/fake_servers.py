"""Inference servers without a model, strict about every field, that fail on demand."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import web

from areal.infra.loop_thread import LoopThread

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Schema = dict[str, tuple[type, ...]]

NUM_TOKENS = 97

_threads: list[LoopThread] = []


def _loop_thread() -> LoopThread:
    """Returns the thread that all fakes live in."""
    if not _threads:
        _threads.append(LoopThread("fake-servers"))
        _threads[0].start()
    return _threads[0]


def next_token(position: int) -> int:
    """Returns what the fakes generate at a place of a sequence, whoever asks and however often."""
    return 3 + position * 7 % (NUM_TOKENS - 3)


@dataclass
class Seen:
    """A request as a fake got it."""

    at: float
    endpoint: str
    payload: dict[str, Any]


class FakeServer:
    """Generates ``next_token`` for every place, each with the version held at that moment.

    Attributes:
        token_s: How long a token takes.
        load_s: How long loading weights takes.
        hangs: Nothing is answered any more.
        hangs_on_load: Weights never arrive.
        garbage: Generation answers with nonsense.
        status: Generation answers with it, instead of 200.
        disk_full: Weights cannot be loaded.
        claims_version: Generation names it, instead of the version held.
        seen: All requests that were well-formed.
        adapters: What each loaded adapter's folder held at that moment, by the adapter's name.
    """

    def __init__(self, token_s: float = 0.0, load_s: float = 0.0) -> None:
        self.token_s = token_s
        self.load_s = load_s
        self.hangs = False
        self.hangs_on_load = False
        self.garbage = False
        self.status = 0
        self.disk_full = False
        self.claims_version: int | None = None
        self.seen: list[Seen] = []
        self.version: int | None = None
        self.adapters: dict[str, list[str]] = {}
        self.instance = ""
        self.port = 0
        self._aborts = 0
        self._may_run = asyncio.Event()
        self._runner: web.AppRunner | None = None
        self._listener: asyncio.Server | None = None

    # --- life

    @property
    def address(self) -> str:
        """Returns host and port; they stay through ``die`` and ``restart``."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> str:
        """Starts as a new process would, on the port it had before, and returns the address."""
        self._run(self._start())
        return self.address

    def die(self) -> None:
        """Breaks all connections, as SIGKILL does."""
        self._run(self._die())

    def restart(self) -> None:
        """Dies and comes back as another process with the weights it was first started with."""
        self.die()
        self.start()

    stop = die

    def count(self, endpoint: str) -> int:
        """Returns how often an endpoint was called."""
        return sum(seen.endpoint == endpoint for seen in self.seen)

    def _run(self, coroutine: Any) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, _loop_thread().loop).result(timeout=30)

    async def _start(self) -> None:
        self.instance = uuid.uuid4().hex
        self.version = None
        self.adapters = {}
        self._may_run.set()
        app = web.Application(client_max_size=64 << 20, middlewares=[self._guard])
        app.add_routes([web.get("/health", self._ok), *self.routes()])
        runner = web.AppRunner(
            app, access_log=None, handler_cancellation=True, shutdown_timeout=0.01
        )
        await runner.setup()
        assert runner.server is not None
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(runner.server, "127.0.0.1", self.port)
        self._runner = runner
        self.port = self._listener.sockets[0].getsockname()[1]

    async def _die(self) -> None:
        runner, self._runner = self._runner, None
        if runner is None or runner.server is None or self._listener is None:
            return
        # A connection that is accepted while its server closes is never closed itself (CPython
        # 3.11), so nothing more is accepted first.
        for sock in self._listener.sockets:
            asyncio.get_running_loop().remove_reader(sock.fileno())
        for _ in range(3):
            await asyncio.sleep(0)
        for connection in list(runner.server.connections):
            if connection.transport is not None:
                connection.transport.abort()
        self._listener.close()
        await runner.cleanup()

    def routes(self) -> list[web.RouteDef]:
        """Returns the routes beside ``/health``."""
        raise NotImplementedError

    # --- requests

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if self.hangs:
            await asyncio.sleep(3600)
        return await handler(request)

    async def _ok(self, request: web.Request) -> web.Response:
        return web.Response()

    async def body(
        self, request: web.Request, schema: Schema, required: set[str]
    ) -> dict[str, Any]:
        """Returns the body of a request; 400 for one that is not exactly as it should be."""
        try:
            body = json.loads(await request.read())
        except ValueError:
            raise self.refusal("the body is no JSON") from None
        self.check(body, schema, required)
        self.seen.append(Seen(time.monotonic(), request.path, body))
        return body

    def check(self, body: Any, schema: Schema, required: set[str]) -> None:
        """Refuses unknown, missing and ill-typed fields."""
        if not isinstance(body, dict):
            raise self.refusal("the body is no object")
        for name, value in body.items():
            if name not in schema:
                raise self.refusal(f"unknown field {name}")
            if type(value) not in schema[name]:
                raise self.refusal(f"{name} is a {type(value).__name__}")
            if isinstance(value, list) and name in _LISTS and not _LISTS[name](value):
                raise self.refusal(f"{name} holds something of another type")
        missing = required - body.keys()
        if missing:
            raise self.refusal(f"no {', '.join(sorted(missing))}")

    def refusal(self, message: str) -> web.HTTPBadRequest:
        """Returns an error as this kind of server writes it."""
        text = json.dumps({"error": {"message": message}})
        return web.HTTPBadRequest(text=text, content_type="application/json")

    # --- generation

    async def generate(
        self, context_len: int, max_new: int, stops: list[int]
    ) -> tuple[list[int], list[int], str]:
        """Returns tokens, their versions, and why it ended."""
        await self._may_run.wait()
        if self.status:
            raise _status(self.status)
        tokens: list[int] = []
        versions: list[int] = []
        aborts = self._aborts
        while len(tokens) < max_new:
            if self.token_s:
                await asyncio.sleep(self.token_s)
                if self._aborts != aborts:
                    return tokens, versions, "abort"
                await self._may_run.wait()
            tokens.append(next_token(context_len + len(tokens)))
            held = self.version or 0
            versions.append(held if self.claims_version is None else self.claims_version)
            if tokens[-1] in stops:
                return tokens, versions, "stop"
        return tokens, versions, "length"

    def abort_all(self) -> None:
        """Ends all answers in the making."""
        self._aborts += 1

    def pause(self, aborts: bool) -> None:
        """Holds all answers back."""
        if aborts:
            self.abort_all()
        self._may_run.clear()

    def go_on(self) -> None:
        """Ends ``pause``."""
        self._may_run.set()

    def load_adapter(self, body: dict[str, Any]) -> str | None:
        """Takes an adapter; returns why it cannot: a name is given once."""
        name, folder = body["lora_name"], Path(body["lora_path"])
        if name in self.adapters:
            return f"{name} is loaded already"
        self.adapters[name] = sorted(path.name for path in folder.glob("*"))
        return None

    def check_adapter(self, name: str | None) -> None:
        """Refuses a request for an adapter that is not loaded."""
        if name is not None and name not in self.adapters:
            raise self.refusal(f"{name} is not loaded")

    async def load(self, version: str | None, path: str = "") -> str | None:
        """Takes other weights; returns why it cannot. Below /nowhere there are none."""
        if self.hangs_on_load:
            await asyncio.sleep(3600)
        await asyncio.sleep(self.load_s)
        if self.disk_full:
            return "No space left on device"
        if path.startswith("/nowhere"):
            return "no such folder"
        if version is not None:
            self.version = int(version)
        return None


class FakeSGLang(FakeServer):
    """Speaks SGLang's wire as ``areal serve`` does.

    Args:
        names_instance: Whether it names its process, and the version of every token.
        token_s: See ``FakeServer``.
        load_s: See ``FakeServer``.
    """

    def __init__(
        self, names_instance: bool = True, token_s: float = 0.0, load_s: float = 0.0
    ) -> None:
        super().__init__(token_s, load_s)
        self.names_instance = names_instance

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/server_info", self._server_info),
            web.get("/get_model_info", self._model_info),
            web.post("/generate", self._generate),
            web.post("/pause_generation", self._pause),
            web.post("/continue_generation", self._continue),
            web.post("/abort_request", self._abort),
            web.post("/update_weights_from_disk", self._from_disk),
            web.post("/pull_weights", self._pull),
            web.post("/init_weights_update_group", self._join_group),
            web.post("/update_weights_from_distributed", self._from_group),
            web.post("/destroy_weights_update_group", self._leave_group),
            web.post("/load_lora_adapter", self._load_lora),
            web.post("/unload_lora_adapter", self._unload_lora),
            web.post("/release_memory_occupation", self._memory),
            web.post("/resume_memory_occupation", self._memory),
        ]

    @property
    def _label(self) -> str:
        return "default" if self.version is None else str(self.version)

    async def _server_info(self, request: web.Request) -> web.Response:
        found = {"instance": self.instance} if self.names_instance else {}
        return web.json_response({**found, "weight_version": self._label})

    async def _model_info(self, request: web.Request) -> web.Response:
        return web.json_response(
            {"model_path": "fake", "is_generation": True, "weight_version": self._label}
        )

    async def _generate(self, request: web.Request) -> web.Response:
        body = await self.body(
            request,
            {
                "input_ids": (list,),
                "image_data": (list,),
                "sampling_params": (dict,),
                "return_logprob": (bool,),
                "logprob_start_len": (int,),
                "stream": (bool,),
                "return_routed_experts": (bool,),
                "lora_path": (str,),
            },
            {"input_ids", "sampling_params"},
        )
        sampling = body["sampling_params"]
        self.check(sampling, _SGLANG_SAMPLING, {"max_new_tokens"})
        self.check_adapter(body.get("lora_path"))
        context = body["input_ids"]
        tokens, versions, reason = await self.generate(
            len(context), sampling["max_new_tokens"], sampling.get("stop_token_ids", [])
        )
        if self.garbage:
            return web.json_response({"meta_info": {"finish_reason": {"type": "stop"}}})
        meta: dict[str, Any] = {
            "finish_reason": {"type": reason},
            "prompt_tokens": len(context),
            "completion_tokens": len(tokens),
        }
        if self.names_instance:
            meta |= {"weight_version": self._label, "output_token_versions": versions}
        if body.get("return_logprob"):
            meta["output_token_logprobs"] = [[logprob(t), t, None] for t in tokens]
            start = body.get("logprob_start_len", -1)
            if start >= 0:
                scores = [[None if i == 0 else logprob(t), t] for i, t in enumerate(context)]
                meta["input_token_logprobs"] = scores[start:]
        return web.json_response({"text": "", "meta_info": meta})

    async def _pause(self, request: web.Request) -> web.Response:
        body = await self.body(request, {"mode": (str,)}, set())
        mode = body.get("mode", "abort")
        if mode not in ("abort", "retract", "in_place"):
            raise self.refusal("unknown mode")
        self.pause(aborts=mode == "abort")
        return web.json_response({"status": "ok"})

    async def _continue(self, request: web.Request) -> web.Response:
        await self.body(request, {}, set())
        self.go_on()
        return web.json_response({"status": "ok"})

    async def _abort(self, request: web.Request) -> web.Response:
        body = await self.body(request, {"abort_all": (bool,), "rid": (str,)}, set())
        if body.get("abort_all"):
            self.abort_all()
        return web.Response()

    async def _from_disk(self, request: web.Request) -> web.Response:
        fields: Schema = {
            "model_path": (str,),
            "abort_all_requests": (bool,),
            "weight_version": (str,),
        }
        body = await self.body(request, fields, {"model_path"})
        if body.get("abort_all_requests"):
            self.abort_all()
        return self._loaded(await self.load(body.get("weight_version"), body["model_path"]))

    async def _pull(self, request: web.Request) -> web.Response:
        fields: Schema = {"url": (str,), "weight_version": (str,)}
        body = await self.body(request, fields, set(fields))
        self.abort_all()
        return self._loaded(await self.load(body["weight_version"]))

    async def _join_group(self, request: web.Request) -> web.Response:
        fields: Schema = {
            "master_address": (str,),
            "master_port": (int,),
            "rank_offset": (int,),
            "world_size": (int,),
            "group_name": (str,),
            "backend": (str,),
        }
        await self.body(request, fields, set(fields))
        return self._loaded(None)

    async def _from_group(self, request: web.Request) -> web.Response:
        fields: Schema = {
            "names": (list,),
            "dtypes": (list,),
            "shapes": (list,),
            "group_name": (str,),
            "abort_all_requests": (bool,),
            "weight_version": (str,),
        }
        body = await self.body(request, fields, {"names", "dtypes", "shapes", "group_name"})
        return self._loaded(await self.load(body.get("weight_version")))

    async def _leave_group(self, request: web.Request) -> web.Response:
        await self.body(request, {"group_name": (str,)}, {"group_name"})
        return self._loaded(None)

    async def _load_lora(self, request: web.Request) -> web.Response:
        fields: Schema = {"lora_name": (str,), "lora_path": (str,)}
        body = await self.body(request, fields, set(fields))
        version = body["lora_name"].rpartition("-v")[2] if self.names_instance else None
        return self._loaded(self.load_adapter(body) or await self.load(version))

    async def _unload_lora(self, request: web.Request) -> web.Response:
        body = await self.body(request, {"lora_name": (str,)}, {"lora_name"})
        found = self.adapters.pop(body["lora_name"], None)
        return self._loaded("no such adapter" if found is None else None)

    async def _memory(self, request: web.Request) -> web.Response:
        await self.body(request, {"tags": (list,)}, set())
        return web.json_response(None)

    def _loaded(self, trouble: str | None) -> web.Response:
        answer = {"success": trouble is None, "message": trouble or "ok"}
        return web.json_response(answer, status=400 if trouble else 200)


class FakeVLLM(FakeServer):
    """Speaks the wire of a vLLM server in development mode.

    As vLLM does, it drops its weights before it looks for new ones: where it finds none, it dies of
    the next request that it works on.
    """

    _has_weights = True

    async def _start(self) -> None:
        self._has_weights = True
        await super()._start()

    async def generate(
        self, context_len: int, max_new: int, stops: list[int]
    ) -> tuple[list[int], list[int], str]:
        await self._may_run.wait()
        if not self._has_weights:
            self._death = asyncio.create_task(self._die())
            raise _status(500)
        return await super().generate(context_len, max_new, stops)

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/weight_info", self._weight_info),
            web.post("/v1/completions", self._complete),
            web.post("/v1/chat/completions", self._chat),
            web.post("/pause", self._pause),
            web.post("/resume", self._resume),
            web.post("/abort_requests", self._abort),
            web.post("/collective_rpc", self._rpc),
            web.post("/update_weight_version", self._set_label),
            web.post("/init_weight_transfer_engine", self._join_group),
            web.post("/start_weight_update", self._empty),
            web.post("/update_weights", self._from_group),
            web.post("/finish_weight_update", self._finish),
            web.post("/v1/load_lora_adapter", self._load_lora),
            web.post("/v1/unload_lora_adapter", self._unload_lora),
            web.post("/sleep", self._empty),
            web.post("/wake_up", self._empty),
        ]

    async def _weight_info(self, request: web.Request) -> web.Response:
        label = "default" if self.version is None else str(self.version)
        return web.json_response({"weight_version": label})

    async def _complete(self, request: web.Request) -> web.Response:
        body = await self.body(
            request,
            _VLLM_SAMPLING
            | {"prompt": (list,), "logprobs": (int,), "prompt_logprobs": (int,), "echo": (bool,)},
            {"prompt", "max_tokens"},
        )
        # vLLM would take these from the model's generation_config.json.
        left_out = {"temperature", "top_p", "top_k", "min_p", "repetition_penalty"} - body.keys()
        if left_out and "prompt_logprobs" not in body:
            raise self.refusal(f"no {', '.join(sorted(left_out))}")
        self.check_adapter(body.get("model"))
        context = body["prompt"]
        tokens, _, reason = await self.generate(
            len(context), body["max_tokens"], body.get("stop_token_ids", [])
        )
        if self.garbage:
            return web.json_response({"choices": []})
        names = [f"token_id:{t}" for t in tokens]
        if not body.get("return_tokens_as_token_ids"):
            names = [chr(t) for t in tokens]
        found = {"tokens": names, "token_logprobs": [logprob(t) for t in tokens]}
        choice: dict[str, Any] = {"index": 0, "text": "", "finish_reason": reason}
        choice["logprobs"] = found
        if body.get("prompt_logprobs"):
            scores = [{str(t): {"logprob": logprob(t)}, "0": {"logprob": -0.1}} for t in context]
            choice["prompt_logprobs"] = [None, *scores[1:]]
        return web.json_response({"choices": [choice]})

    async def _chat(self, request: web.Request) -> web.Response:
        fields = _VLLM_SAMPLING | {"messages": (list,), "logprobs": (bool,)}
        body = await self.body(request, fields, {"messages", "max_tokens"})
        tokens, _, reason = await self.generate(
            0, body["max_tokens"], body.get("stop_token_ids", [])
        )
        content = [{"token": f"token_id:{t}", "logprob": logprob(t)} for t in tokens]
        choice = {"index": 0, "finish_reason": reason, "logprobs": {"content": content}}
        return web.json_response({"choices": [choice]})

    async def _pause(self, request: web.Request) -> web.Response:
        await self.body(request, {}, set())
        mode = request.query.get("mode", "abort")
        if mode not in ("abort", "wait", "keep"):
            raise self.refusal("unknown mode")
        self.pause(aborts=mode == "abort")
        return web.json_response({"status": "paused"})

    async def _resume(self, request: web.Request) -> web.Response:
        await self.body(request, {}, set())
        self.go_on()
        return web.json_response({"status": "resumed"})

    async def _abort(self, request: web.Request) -> web.Response:
        await self.body(request, {"request_ids": (list,)}, set())
        self.abort_all()
        return web.json_response({"status": "aborted"})

    async def _rpc(self, request: web.Request) -> web.Response:
        body = await self.body(request, {"method": (str,), "kwargs": (dict,)}, {"method"})
        if body["method"] != "reload_weights" or set(body["kwargs"]) != {"weights_path"}:
            raise self.refusal("no such method")
        self._has_weights = False
        if await self.load(None, body["kwargs"]["weights_path"]):
            raise _status(500)
        self._has_weights = True
        return web.json_response({"results": [None]})

    async def _set_label(self, request: web.Request) -> web.Response:
        body = await self.body(request, {"new_version": (str,)}, {"new_version"})
        self.version = int(body["new_version"])
        return web.json_response({"success": True, "new_version": body["new_version"]})

    async def _join_group(self, request: web.Request) -> web.Response:
        body = await self.body(request, {"init_info": (dict,)}, {"init_info"})
        fields: Schema = {
            "master_address": (str,),
            "master_port": (int,),
            "rank_offset": (int,),
            "world_size": (int,),
        }
        self.check(body["init_info"], fields, set(fields))
        return web.json_response({"message": "ok"})

    async def _from_group(self, request: web.Request) -> web.Response:
        body = await self.body(request, {"update_info": (dict,)}, {"update_info"})
        fields: Schema = {"names": (list,), "dtype_names": (list,), "shapes": (list,)}
        self.check(body["update_info"], fields, set(fields))
        if await self.load(None):
            raise _status(500)
        return web.json_response({"message": "ok"})

    async def _finish(self, request: web.Request) -> web.Response:
        body = await self.body(request, {"weight_version": (str,)}, set())
        if "weight_version" in body:
            self.version = int(body["weight_version"])
        return web.json_response({"message": "ok"})

    async def _load_lora(self, request: web.Request) -> web.Response:
        fields: Schema = {"lora_name": (str,), "lora_path": (str,)}
        body = await self.body(request, fields, set(fields))
        if trouble := self.load_adapter(body):
            raise self.refusal(trouble)
        return web.Response(text="Success")

    async def _unload_lora(self, request: web.Request) -> web.Response:
        body = await self.body(request, {"lora_name": (str,)}, {"lora_name"})
        if self.adapters.pop(body["lora_name"], None) is None:
            raise self.refusal("no such adapter")
        return web.Response(text="Success")

    async def _empty(self, request: web.Request) -> web.Response:
        await self.body(request, {}, set())
        return web.Response()


def logprob(token: int) -> float:
    """Returns a log-probability that tells tokens apart."""
    return -0.25 - token / 128


def _status(status: int) -> web.HTTPException:
    kinds = {400: web.HTTPBadRequest, 429: web.HTTPTooManyRequests, 503: web.HTTPServiceUnavailable}
    return kinds.get(status, web.HTTPInternalServerError)(text="on demand")


def _all(*kinds: type) -> Callable[[list[Any]], bool]:
    return lambda values: all(type(value) in kinds for value in values)


_LISTS: dict[str, Callable[[list[Any]], bool]] = {
    "input_ids": _all(int),
    "prompt": _all(int),
    "stop_token_ids": _all(int),
    "stop": _all(str),
    "image_data": _all(str),
    "messages": _all(dict),
    "names": _all(str),
    "dtypes": _all(str),
    "dtype_names": _all(str),
    "shapes": lambda values: all(_all(int)(value) for value in values),
    "tags": _all(str),
}

_SGLANG_SAMPLING: Schema = {
    "top_p": (float, int),
    "top_k": (int,),
    "max_new_tokens": (int,),
    "min_new_tokens": (int,),
    "temperature": (float, int),
    "stop_token_ids": (list,),
    "stop": (list,),
    "ignore_eos": (bool,),
    "skip_special_tokens": (bool,),
    "frequency_penalty": (float, int),
    "sampling_seed": (int,),
}

_VLLM_SAMPLING: Schema = {
    "model": (str,),
    "top_p": (float, int),
    "top_k": (int,),
    "max_tokens": (int,),
    "min_tokens": (int,),
    "temperature": (float, int),
    "stop_token_ids": (list,),
    "stop": (list,),
    "ignore_eos": (bool,),
    "skip_special_tokens": (bool,),
    "frequency_penalty": (float, int),
    "repetition_penalty": (float, int),
    "min_p": (float, int),
    "use_beam_search": (bool,),
    "seed": (int,),
    "stream": (bool,),
    "return_tokens_as_token_ids": (bool,),
}
