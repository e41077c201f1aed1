"""The embedded engine as a server: speaking SGLang, with weights that follow a trainer.

Beyond SGLang's fields an answer of ``/generate`` holds ``meta_info.output_token_versions``, the
weight version of every output token: an update in the middle of an answer changes it in place.

One LoRA adapter at a time is live in the model, the one that was loaded last. All names that were
loaded and not unloaded lead to it, as an update in the middle of answers would have it.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import ipaddress
import logging
import re
import secrets
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from aiohttp import web

from areal.api.config.generation import GenerationHyperparameters
from areal.api.errors import ArealError, ConfigError, NoRoomError
from areal.api.io_struct import ModelRequest, ModelResponse
from areal.engine.local.engine import LocalInferenceEngine
from areal.engine.local.receiver import WeightReceiver
from areal.engine.local.sampling import check_generation
from areal.infra.loop_thread import LoopThread

logger = logging.getLogger("InferenceServer")

# A million token ids, as JSON writes them, fit.
MAX_BODY_BYTES = 16 << 20
# A tokenizer needs seconds for more, and others wait for the interpreter meanwhile.
MAX_TEXT_CHARACTERS = 1 << 20
_OPEN_ROUTES = frozenset({"/health"})

# What a request may ask of the sampler: the name here, its kind, and the name on the wire.
_SAMPLING: dict[str, tuple[str, tuple[type, ...]]] = {
    "frequency_penalty": ("frequency_penalty", (int, float)),
    "ignore_eos": ("ignore_eos", (bool,)),
    "max_new_tokens": ("max_new_tokens", (int,)),
    "min_new_tokens": ("min_new_tokens", (int,)),
    "sampling_seed": ("seed", (int,)),
    "skip_special_tokens": ("skip_special_tokens", (bool,)),
    "stop_token_ids": ("stop_token_ids", (list, type(None))),
    "temperature": ("temperature", (int, float)),
    "top_k": ("top_k", (int,)),
    "top_p": ("top_p", (int, float)),
}
_GENERATE_FIELDS = frozenset(
    {
        "input_ids",
        "logprob_start_len",
        "lora_path",
        "return_logprob",
        "rid",
        "sampling_params",
        "stream",
        "text",
    }
)
# What changes nothing about the tokens that are drawn.
_OPENAI_FIELDS = frozenset(
    {
        "logprobs",
        "messages",
        "model",
        "n",
        "prompt",
        "return_token_ids",
        "return_tokens_as_token_ids",
        "stream",
        "user",
    }
)
_PAUSE_MODES = ("abort", "in_place", "retract")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class BadRequestError(ArealError, ValueError):
    """A request that no retry can fix; the message names the field."""


class InferenceServer:
    """Serves one embedded engine.

    Args:
        engine: Is initialised and destroyed by whoever made it.
        tokenizer: For stop strings, text prompts and the routes of OpenAI.
        model_path: What ``/get_model_info`` reports.
        host: Where to listen; anything but a loopback address needs a key.
        port: 0 takes a free one.
        api_key: What requests carry as ``Authorization: Bearer KEY``; "" lets everybody in.

    Raises:
        ConfigError: The address is open to other machines and there is no key.
    """

    def __init__(
        self,
        engine: LocalInferenceEngine,
        tokenizer: Any,
        model_path: str = "",
        host: str = "127.0.0.1",
        port: int = 0,
        api_key: str = "",
    ) -> None:
        require_key(host, api_key)
        self.engine = engine
        self.tokenizer = tokenizer
        self.model_path = model_path
        # A client that finds another instance at an address knows that its weights are gone.
        self.instance = secrets.token_hex(8)
        self.weight_version = str(engine.get_version())
        self._receiver = WeightReceiver(engine.weights, self._take_version, api_key)
        self._place = (host, port)
        self._api_key = api_key
        self._updating = asyncio.Lock()
        self._adapters: list[str] = []  # their names; the last one is live
        self._thread = LoopThread("areal-serve")
        self._runner: web.AppRunner | None = None
        self.url = ""

    # --- life

    def start(self) -> str:
        """Serve in a thread of its own and return the base URL.

        Raises:
            ConfigError: The port is taken, or the address is not this machine's.
        """
        try:
            host, port = self._thread.start_with(self._listen())
        except (OSError, OverflowError) as error:  # the second of a number that is no port
            raise ConfigError(
                f"cannot listen on {self._place[0]}:{self._place[1]}, which is taken or not this "
                "machine's; choose another port, or 0 for a free one"
            ) from error
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        return self.url

    def stop(self) -> None:
        """Stop serving; requests under way are cut off. A second call does nothing."""
        runner, self._runner = self._runner, None
        if runner is None:
            return
        closing = asyncio.run_coroutine_threadsafe(runner.cleanup(), self._thread.loop)
        with contextlib.suppress(TimeoutError):
            closing.result(timeout=10)
        self._thread.stop()
        self._receiver.close()

    async def _listen(self) -> tuple[str, int]:
        app = web.Application(
            client_max_size=MAX_BODY_BYTES, middlewares=[_answer_errors, self._check_key]
        )
        app.add_routes(
            [
                web.get("/health", self._health),
                web.get("/get_model_info", self._model_info),
                web.get("/model_info", self._model_info),
                web.get("/server_info", self._server_info),
                web.get("/get_server_info", self._server_info),
                web.post("/generate", self._generate),
                web.post("/abort_request", self._abort),
                web.post("/pause_generation", self._pause),
                web.post("/continue_generation", self._continue),
                web.post("/update_weights_from_disk", self._update_from_disk),
                web.post("/pull_weights", self._pull),
                web.post("/load_lora_adapter", self._load_adapter),
                web.post("/unload_lora_adapter", self._unload_adapter),
                web.post("/init_weights_update_group", self._init_group),
                web.post("/update_weights_from_distributed", self._update_from_group),
                web.post("/finish_weight_update", self._finish_update),
                web.post("/destroy_weights_update_group", self._destroy_group),
                web.get("/v1/models", self._models),
                web.post("/v1/completions", self._completions),
                web.post("/v1/chat/completions", self._chat),
            ]
        )
        # A client that hangs up wants no answer: its generation is cancelled with the handler.
        runner = web.AppRunner(
            app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1
        )
        await runner.setup()
        await web.TCPSite(runner, *self._place).start()
        self._runner = runner
        address: tuple[str, int] = runner.addresses[0][:2]
        return address

    @web.middleware
    async def _check_key(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if not self._api_key and not _is_from_here(request):
            return _failure(403, "without a key this server takes requests of this machine alone")
        if self._api_key and request.path not in _OPEN_ROUTES:
            given = request.headers.get("Authorization", "").removeprefix("Bearer ").strip()
            if not hmac.compare_digest(given.encode(), self._api_key.encode()):
                return _failure(401, "this server needs its key as 'Authorization: Bearer KEY'")
        return await handler(request)

    # --- what it is

    async def _health(self, _: web.Request) -> web.Response:
        if not self.engine.initialized or not self.engine.is_alive:
            return _failure(503, "the decode thread has ended")
        return web.json_response({"status": "ok"})

    async def _model_info(self, _: web.Request) -> web.Response:
        return web.json_response(
            {
                "model_path": self.model_path,
                "is_generation": True,
                "weight_version": self.weight_version,
            }
        )

    async def _server_info(self, _: web.Request) -> web.Response:
        return web.json_response(
            {
                "instance": self.instance,
                "model_path": self.model_path,
                "weight_version": self.weight_version,
                "is_paused": self.engine.is_paused,
                "updates": self._receiver.counts(),
            }
        )

    async def _models(self, _: web.Request) -> web.Response:
        model = {"id": self.model_path or "default", "object": "model", "owned_by": "areal"}
        return web.json_response({"object": "list", "data": [model]})

    # --- generation

    async def _generate(self, request: web.Request) -> web.Response:
        body = await _body(request)
        if unknown := sorted(body.keys() - _GENERATE_FIELDS):
            raise BadRequestError(f"{', '.join(unknown)}: not available here; leave it out")
        if body.get("stream"):
            raise BadRequestError("stream: not available here; set it to false")
        adapter = body.get("lora_path")
        if adapter is not None and adapter not in self._adapters:
            known = ", ".join(self._adapters) or "none"
            raise BadRequestError(f"lora_path: found {adapter!r}, loaded are: {known}")
        prompt, rid = await self._prompt(body), str(body.get("rid") or "")
        answer = await self._answer(prompt, self._sampling(_object(body, "sampling_params")), rid)
        found = self._to_sglang(answer, rid)
        start = body.get("logprob_start_len", -1)
        if type(start) is not int or start >= len(prompt):
            raise BadRequestError(f"logprob_start_len: found {start!r}, no place in the prompt")
        if start >= 0:
            scores = await asyncio.to_thread(self.engine.score, prompt)
            found["meta_info"]["input_token_logprobs"] = [
                # The first has nothing before it to follow from, in SGLang at any start.
                [None if i == start else scores[i - 1], prompt[i], None]
                for i in range(start, len(prompt))
            ]
        return web.json_response(found)

    async def _answer(
        self, prompt: list[int], gconfig: GenerationHyperparameters, rid: str
    ) -> ModelResponse:
        request = ModelRequest(input_ids=prompt, gconfig=gconfig, tokenizer=self.tokenizer)
        if rid:
            request.rid = rid
        try:
            return await self.engine.agenerate(request)
        except NoRoomError as error:
            # No other server can fix it; what goes wrong in a step another one may do.
            raise BadRequestError(str(error)) from error

    async def _prompt(self, body: Mapping[str, Any]) -> list[int]:
        ids, text = body.get("input_ids"), body.get("text")
        if ids is None and isinstance(text, str):
            if len(text) > MAX_TEXT_CHARACTERS:
                raise BadRequestError(f"text: {len(text)} characters; send input_ids")
            return await asyncio.to_thread(self._encode, text)
        if not isinstance(ids, list) or not all(type(token) is int for token in ids):
            raise BadRequestError("input_ids: must be a list of whole numbers, of one prompt")
        return ids

    def _encode(self, text: str) -> list[int]:
        try:
            ids: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        except ValueError as error:  # half of a surrogate pair, or a character without a token
            raise BadRequestError(f"text: cannot be encoded: {error}") from error
        return ids

    def _sampling(self, given: Mapping[str, Any]) -> GenerationHyperparameters:
        # As SGLang's: what a request leaves out is not a limit of this server.
        options: dict[str, Any] = {"max_new_tokens": 128, "max_tokens": self.engine.max_length}
        for name, value in given.items():
            if name == "stop":
                options["stop"] = [value] if isinstance(value, str) else value
                if not isinstance(options["stop"], (list, type(None))):
                    raise BadRequestError(f"sampling_params.stop: found {value!r:.200}, no list")
                continue
            if name not in _SAMPLING:
                raise BadRequestError(f"sampling_params.{name}: not available here; leave it out")
            target, kinds = _SAMPLING[name]
            is_flag = isinstance(value, bool) and bool not in kinds
            if is_flag or not isinstance(value, kinds):
                raise BadRequestError(
                    f"sampling_params.{name}: found {value!r}, no {kinds[0].__name__}"
                )
            options[target] = value
        # As in SGLang, where ignore_eos leaves the request's own stop tokens alone.
        stops = list(options.get("stop_token_ids") or [])
        end = getattr(self.tokenizer, "eos_token_id", None)
        if end is not None and not options.pop("ignore_eos", False):
            stops.append(end)
        options |= {"stop_token_ids": stops, "ignore_eos": False}
        if options.get("temperature") == 0:
            options |= {"greedy": True, "temperature": 1.0}
        if options.get("top_k") == -1:
            options.pop("top_k")
        gconfig = GenerationHyperparameters(**options)
        # Here and not in the decode thread, where it would cost the rows of all.
        check_generation(gconfig)
        return gconfig

    def _to_sglang(self, answer: ModelResponse, rid: str) -> dict[str, Any]:
        reason: dict[str, Any] = {"type": answer.stop_reason}
        if answer.stop_reason == "stop" and answer.output_tokens:
            reason["matched"] = answer.output_tokens[-1]
        if answer.stop_reason == "abort":
            # SGLang's words for a request that has not begun; clients look for them.
            begun = bool(answer.output_tokens)
            reason["message"] = "Aborted" if begun else "Abort before prefill"
        return {
            "text": "",
            "output_ids": answer.output_tokens,
            "meta_info": {
                "id": rid,
                "finish_reason": reason,
                "prompt_tokens": answer.input_len,
                "completion_tokens": answer.output_len,
                "weight_version": self.weight_version,
                "output_token_logprobs": [
                    [logprob, token, None]
                    for logprob, token in zip(
                        answer.output_logprobs, answer.output_tokens, strict=True
                    )
                ],
                "output_token_versions": answer.output_versions,
                "e2e_latency": answer.latency,
            },
        }

    async def _abort(self, request: web.Request) -> web.Response:
        body = await _body(request)
        rid = body.get("rid")
        if not body.get("abort_all") and not isinstance(rid, str):
            raise BadRequestError("rid: name a request, or set abort_all")
        self.engine.abort_requests(None if body.get("abort_all") else rid)
        return web.json_response({"success": True})

    async def _pause(self, request: web.Request) -> web.Response:
        mode = (await _body(request)).get("mode", "abort")
        if mode not in _PAUSE_MODES:
            raise BadRequestError(f"mode: found {mode!r}, known are {', '.join(_PAUSE_MODES)}")
        was_paused = self.engine.is_paused
        self.engine.pause_generation()
        if mode == "abort" and not was_paused:
            # What has come since an earlier pause waits for its end.
            self.engine.abort_requests()
        # Answers that stay are prefilled again after an update: "retract" and "in_place" agree.
        return web.json_response({"status": "ok", "message": f"paused ({mode})"})

    async def _continue(self, _: web.Request) -> web.Response:
        self.engine.continue_generation()
        return web.json_response({"status": "ok", "message": "continues"})

    # --- weights

    async def _update_from_disk(self, request: web.Request) -> web.Response:
        body = await _body(request)
        folder = body.get("model_path")
        if not isinstance(folder, str) or not folder:
            raise BadRequestError("model_path: name the folder of the weights")
        return await self._update(
            body, lambda version: self._receiver.load_folder(Path(folder), version)
        )

    async def _pull(self, request: web.Request) -> web.Response:
        body = await _body(request)
        url = body.get("url")
        if not isinstance(url, str) or not url.startswith(("http://", "https://")):
            raise BadRequestError(f"url: found {url!r}, name where the weights are served")
        return await self._update(body, lambda version: self._receiver.pull(url, version))

    async def _load_adapter(self, request: web.Request) -> web.Response:
        body = await _body(request)
        name, folder = body.get("lora_name"), body.get("lora_path")
        if not isinstance(name, str) or not isinstance(folder, str) or not name or not folder:
            raise BadRequestError("lora_name, lora_path: name the adapter and its folder")
        # Trainers put the version behind the name, as ``get_versioned_lora_name`` does.
        found = re.search(r"-v(\d{1,18})$", name)
        version = int(found[1]) if found else None

        def load() -> None:
            self._receiver.load_adapter(Path(folder), version)
            self._adapters = [*(each for each in self._adapters if each != name), name]

        return await self._try(load)

    async def _unload_adapter(self, request: web.Request) -> web.Response:
        name = (await _body(request)).get("lora_name")
        if name not in self._adapters[:-1]:
            raise BadRequestError(
                f"lora_name: found {name!r}; of {', '.join(self._adapters) or 'no adapters'} all "
                "but the last one, which is live, can be unloaded"
            )
        self._adapters = [each for each in self._adapters if each != name]
        return web.json_response({"success": True, "message": "ok"})

    async def _init_group(self, request: web.Request) -> web.Response:
        body = await _body(request)
        with _naming_fields():
            options: dict[str, Any] = {
                "host": str(body["master_address"]),
                "port": int(body["master_port"]),
                "rank": int(body["rank_offset"]),
                "world_size": int(body["world_size"]),
                "name": str(body["group_name"]),
            }
        return await self._try(lambda: self._receiver.join(**options))

    async def _destroy_group(self, request: web.Request) -> web.Response:
        name = str((await _body(request)).get("group_name"))
        return await self._try(lambda: self._receiver.leave(name))

    async def _update_from_group(self, request: web.Request) -> web.Response:
        body = await _body(request)
        with _naming_fields():
            specs = list(zip(body["names"], body["dtypes"], body["shapes"], strict=True))
            group = str(body["group_name"])
        # The weights change when all of them are here, which the trainer reports afterwards.
        return await self._try(lambda: self._receiver.receive(group, specs))

    async def _finish_update(self, request: web.Request) -> web.Response:
        return await self._update(await _body(request), self._receiver.load_received)

    async def _update(
        self, body: Mapping[str, Any], load: Callable[[int | None], None]
    ) -> web.Response:
        version = body.get("weight_version")
        is_text = isinstance(version, str) and version.isdecimal() and len(version) < 19
        if version is not None and not is_text:
            raise BadRequestError(f"weight_version: found {version!r}, no whole number as text")
        if body.get("abort_all_requests"):
            self.engine.abort_requests()
        return await self._try(lambda: load(None if version is None else int(version)))

    def _take_version(self, version: int | None) -> None:
        if version is not None:
            self.engine.set_version(version)
        self.weight_version = str(self.engine.get_version())

    async def _try(self, action: Callable[[], None]) -> web.Response:
        async with self._updating:
            try:
                await asyncio.to_thread(action)
            except (ArealError, OSError, RuntimeError, ValueError) as error:
                logger.warning("an update failed: %s", error)
                return web.json_response({"success": False, "message": str(error)}, status=400)
        return web.json_response({"success": True, "message": "ok"})

    # --- OpenAI's routes

    async def _completions(self, request: web.Request) -> web.Response:
        body = await _body(request)
        prompt = body.get("prompt")
        named = {"text": prompt} if isinstance(prompt, str) else {"input_ids": prompt}
        prompt = await self._prompt(named)
        answer = await self._answer(prompt, self._openai_sampling(body), "")
        text = self.tokenizer.decode(answer.output_tokens, skip_special_tokens=True)
        choice = {
            "index": 0,
            "text": text,
            "finish_reason": "length" if answer.stop_reason == "abort" else answer.stop_reason,
            "token_ids": answer.output_tokens,
            "logprobs": {
                "tokens": [f"token_id:{token}" for token in answer.output_tokens],
                "token_logprobs": answer.output_logprobs,
            },
        }
        return web.json_response(self._openai_answer("text_completion", answer, choice))

    async def _chat(self, request: web.Request) -> web.Response:
        body = await _body(request)
        messages = body.get("messages")
        try:
            prompt: list[int] = self.tokenizer.apply_chat_template(
                messages, add_generation_prompt=True, tokenize=True, return_dict=False
            )
        except Exception as error:  # a template is a program of the model's makers
            raise BadRequestError(f"messages: the chat template refused them: {error}") from error
        answer = await self._answer(prompt, self._openai_sampling(body), "")
        text = self.tokenizer.decode(answer.output_tokens, skip_special_tokens=True)
        content = [
            {"token": f"token_id:{token}", "logprob": logprob}
            for token, logprob in zip(answer.output_tokens, answer.output_logprobs, strict=True)
        ]
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": text},
            "finish_reason": "length" if answer.stop_reason == "abort" else answer.stop_reason,
            "token_ids": answer.output_tokens,
            "logprobs": {"content": content},
        }
        return web.json_response(self._openai_answer("chat.completion", answer, choice))

    def _openai_sampling(self, body: Mapping[str, Any]) -> GenerationHyperparameters:
        if body.get("stream"):
            raise BadRequestError("stream: not available here; set it to false")
        if body.get("n", 1) != 1:
            raise BadRequestError(f"n: found {body['n']!r}, one answer a request is made")
        names = {"seed": "sampling_seed", "max_tokens": "max_new_tokens"}
        names["max_completion_tokens"] = "max_new_tokens"
        wanted = {*_SAMPLING, *names, "stop"}
        for name, value in body.items():
            if name not in wanted | _OPENAI_FIELDS and value not in (None, False, 0, {}, [], ""):
                raise BadRequestError(f"{name}: not available here; leave it out")
        given = {names.get(k, k): v for k, v in body.items() if k in wanted and v is not None}
        return self._sampling(given).new_with_stop_and_pad_token_ids(self.tokenizer)

    def _openai_answer(
        self, kind: str, answer: ModelResponse, choice: dict[str, Any]
    ) -> dict[str, Any]:
        return {
            "id": f"{kind}-{secrets.token_hex(12)}",
            "object": kind,
            "model": self.model_path or "default",
            "choices": [choice],
            "prompt_token_ids": answer.input_tokens,
            "weight_version": self.weight_version,
            "usage": {
                "prompt_tokens": answer.input_len,
                "completion_tokens": answer.output_len,
                "total_tokens": answer.input_len + answer.output_len,
            },
        }


def _is_from_here(request: web.Request) -> bool:
    """Return False for what a page of another site has a browser on this machine send."""
    if "Origin" in request.headers:
        return False
    return _is_loopback((request.url.host or "").strip("[]"))


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def require_key(host: str, api_key: str) -> None:
    """Refuse to listen where other machines can connect without a key.

    Raises:
        ConfigError: It names the address.
    """
    if not _is_loopback(host) and not api_key:
        raise ConfigError(
            f"{host} is open to other machines, and whoever connects could use and replace the "
            "model; set a key in AREAL_SERVER_KEY, or listen on 127.0.0.1"
        )


@contextlib.contextmanager
def _naming_fields() -> Any:
    try:
        yield
    except KeyError as error:
        raise BadRequestError(f"{error.args[0]}: is missing") from error
    except (TypeError, ValueError) as error:
        raise BadRequestError(f"the body is malformed: {error}") from error


async def _body(request: web.Request) -> dict[str, Any]:
    try:
        body = await request.json() if request.can_read_body else {}
    except (ValueError, RecursionError) as error:
        raise BadRequestError(f"the body is not valid JSON: {error}") from error
    if not isinstance(body, dict):
        raise BadRequestError(f"the body must be an object, not {type(body).__name__}")
    return body


def _object(body: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = body.get(name) or {}
    if not isinstance(value, dict):
        raise BadRequestError(f"{name}: must be an object, not {value!r}")
    return value


def _failure(status: int, message: str) -> web.Response:
    return web.json_response({"error": {"message": message}}, status=status)


@web.middleware
async def _answer_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except web.HTTPException as error:  # no such route, a body too large
        return _failure(error.status, f"{request.method} {request.path}: {error.reason}")
    except (ArealError, ValueError) as error:
        return _failure(400, str(error))
    except Exception as error:
        logger.warning("a request to %s failed", request.path, exc_info=True)
        return _failure(500, f"{type(error).__name__}: {error}")
