"""Rollouts from vLLM servers."""

from __future__ import annotations

import copy
import os
import subprocess
from collections.abc import Sequence
from typing import Any

from areal.api.cli_args import InferenceEngineConfig, vLLMConfig
from areal.api.errors import ConfigError
from areal.api.io_struct import (
    HttpGenerationResult,
    HttpRequest,
    ModelRequest,
    ParamSpec,
    WeightUpdateMeta,
    WeightUpdateRequests,
    get_versioned_lora_name,
)
from areal.engine.sglang_remote import (
    NamedServersEngine,
    group_payload,
    read_version,
    spec_payload,
)

# What vLLM puts where a log-probability is minus infinity, or missing.
_NO_LOGPROB = -9999.0
_TOKEN_PREFIX = "token_id:"
_MAX_SEED = 1 << 63


class VLLMBackend:
    """vLLM's wire format.

    The native endpoints for training need ``VLLM_SERVER_DEV_MODE=1`` in the server's environment;
    updates by group also the server's flag ``--weight-transfer-config``. Log-probabilities leave
    the temperature out unless the server was started with ``--logprobs-mode processed_logprobs``.

    Source: vLLM's documentation, "OpenAI-compatible server", "Weight transfer", "Async RL".

    Args:
        areal_extensions: The servers are AReaL's own build of vLLM, with endpoints ``/areal_*``.
    """

    def __init__(self, areal_extensions: bool = False) -> None:
        self.areal_extensions = areal_extensions

    # --- generation

    def build_generation_request(
        self, req: ModelRequest, with_lora: bool, version: int
    ) -> HttpRequest:
        """Return the call that continues ``req.input_ids``, or answers the messages of a chat."""
        gconfig = req.gconfig
        payload: dict[str, Any] = {
            "top_p": gconfig.top_p,
            "top_k": gconfig.top_k,
            "max_tokens": gconfig.max_new_tokens,
            "temperature": 0.0 if gconfig.greedy else gconfig.temperature,
            "stop_token_ids": gconfig.stop_token_ids,
            "ignore_eos": gconfig.ignore_eos,
            "skip_special_tokens": gconfig.skip_special_tokens,
            "frequency_penalty": gconfig.frequency_penalty,
            # Left out, vLLM takes them from the model's generation_config.json.
            "repetition_penalty": 1.0,
            "min_p": 0.0,
            "use_beam_search": gconfig.use_beam_search,
            "return_tokens_as_token_ids": True,
            "stream": False,
        }
        if gconfig.min_new_tokens:
            payload["min_tokens"] = gconfig.min_new_tokens
        if gconfig.stop:
            payload["stop"] = gconfig.stop
        if gconfig.seed is not None:
            # A stream of vLLM restarts with each request; so a resumed one gets its own.
            payload["seed"] = (gconfig.seed + len(req.input_ids)) % _MAX_SEED
        if with_lora:
            payload["model"] = get_versioned_lora_name(gconfig.lora_name, version)
        if req.vision_msg_vllm:
            payload |= {"messages": _chat_messages(req), "logprobs": True}
            return HttpRequest("/v1/chat/completions", payload)
        payload |= {"prompt": req.input_ids, "logprobs": 0}
        return HttpRequest("/v1/completions", payload)

    def parse_generation_response(self, response: dict[str, Any]) -> HttpGenerationResult:
        """Read the answer to a generation call.

        Raises:
            ValueError: A token is no id, or its log-probability is missing.
            KeyError: A field is missing.
            TypeError: A field has another type.
        """
        choice = response["choices"][0]
        found = choice["logprobs"]
        if "content" in found:
            names = [entry["token"] for entry in found["content"]]
            logprobs = [entry["logprob"] for entry in found["content"]]
        else:
            names, logprobs = found["tokens"], list(found["token_logprobs"])
        if _NO_LOGPROB in logprobs:
            raise ValueError(f"a log-probability is {_NO_LOGPROB}, which means none")
        return HttpGenerationResult(
            [_token_id(name) for name in names], logprobs, choice["finish_reason"]
        )

    def build_score_request(
        self, input_ids: list[int], target_len: int, with_lora: bool, version: int
    ) -> HttpRequest:
        """Return the call that scores the prompt.

        Raises:
            NotImplementedError: With LoRA.
        """
        if with_lora:
            raise NotImplementedError("vLLM does not score with a LoRA adapter")
        payload = {
            "prompt": input_ids,
            "max_tokens": 1,
            "temperature": 0.0,
            "logprobs": 1,
            "prompt_logprobs": 1,
            "echo": True,
        }
        return HttpRequest("/v1/completions", payload)

    def parse_score_response(self, response: dict[str, Any], target_len: int) -> list[float]:
        """Return the log-probabilities of the last ``target_len`` prompt tokens."""
        found = response["choices"][0]["prompt_logprobs"]
        # vLLM lists the prompt's own token first, whatever its rank.
        return [
            float(next(iter(entry.values()))["logprob"])
            for entry in found[len(found) - target_len :]
        ]

    # --- weights

    def build_disk_weight_update_requests(self, meta: WeightUpdateMeta) -> WeightUpdateRequests:
        """Return the calls that load a folder of safetensors, or a LoRA adapter."""
        if meta.use_lora:
            assert meta.version is not None
            name = get_versioned_lora_name(meta.lora_name, meta.version)
            # A second attempt would otherwise be refused because the name is taken.
            calls = [_unload_lora(name)]
            calls.append(
                HttpRequest("/v1/load_lora_adapter", {"lora_name": name, "lora_path": meta.path})
            )
            old = meta.version - meta.lora_keep_versions
            if meta.lora_keep_versions > 0 and old >= 0:
                calls.append(_unload_lora(get_versioned_lora_name(meta.lora_name, old)))
            return WeightUpdateRequests(calls)
        if self.areal_extensions:
            return WeightUpdateRequests(
                [HttpRequest("/areal_update_weights", {"model_path": meta.path})]
            )
        reload = {"method": "reload_weights", "kwargs": {"weights_path": meta.path}}
        calls = [*self.get_pause_requests(), HttpRequest("/collective_rpc", reload)]
        if meta.version is not None:
            label = {"new_version": str(meta.version)}
            calls.append(HttpRequest("/update_weight_version", label, best_effort=True))
        return WeightUpdateRequests([*calls, self.get_resume_request()])

    def build_pull_weight_update_requests(self, url: str, version: int) -> WeightUpdateRequests:
        """Refuse: vLLM fetches no weights over HTTP.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError("vLLM does not fetch weights over HTTP; update from disk")

    def build_init_weights_group_request(
        self, addr: str, server_idx: int, meta: WeightUpdateMeta
    ) -> HttpRequest:
        """Return the call that has the ``server_idx``-th server join the weight group.

        Raises:
            NotImplementedError: The generator splits the layers.
        """
        payload = group_payload(server_idx, meta)
        if self.areal_extensions:
            return HttpRequest("/areal_init_weights_update_group", payload)
        del payload["group_name"], payload["backend"]
        return HttpRequest("/init_weight_transfer_engine", {"init_info": payload})

    def build_distributed_weight_update_requests(
        self, meta: WeightUpdateMeta, param_specs: Sequence[ParamSpec]
    ) -> WeightUpdateRequests:
        """Return the calls that receive one bucket of parameters."""
        specs = spec_payload(param_specs)
        if not self.areal_extensions:
            if meta.use_lora:
                raise NotImplementedError("vLLM takes LoRA adapters from disk only")
            info = {"dtype_names": specs.pop("dtypes"), **specs}
            return WeightUpdateRequests([HttpRequest("/update_weights", {"update_info": info})])
        specs["group_name"] = meta.nccl_group_name
        if not meta.use_lora:
            announce = HttpRequest("/areal_set_update_weight_meta", specs)
            return WeightUpdateRequests([announce, HttpRequest("/areal_update_weights_xccl", {})])
        assert meta.version is not None
        peft = meta.peft_config
        specs |= {
            "lora_name": get_versioned_lora_name(meta.lora_name, meta.version),
            "lora_int_id": meta.lora_int_id,
            "lora_target_modules": peft["target_modules"],
            "lora_rank": peft["r"],
            "lora_alpha": peft["lora_alpha"],
            "lora_bias": peft["bias"],
            "base_model_name": meta.base_model_name,
        }
        announce = HttpRequest("/areal_set_update_weight_meta_lora", specs)
        return WeightUpdateRequests([announce, HttpRequest("/areal_update_weights_lora_xccl", {})])

    def get_group_update_start_requests(self) -> list[HttpRequest]:
        """Return the call that comes before the first bucket."""
        return [] if self.areal_extensions else [HttpRequest("/start_weight_update", {})]

    def get_group_update_end_requests(self, version: int) -> list[HttpRequest]:
        """Return the call that comes after the last bucket."""
        if self.areal_extensions:
            return []
        return [HttpRequest("/finish_weight_update", {"weight_version": str(version)})]

    # --- administration

    def get_pause_requests(self) -> list[HttpRequest]:
        """Return the calls after which no request is under way and none starts."""
        path = "/areal_pause_generation" if self.areal_extensions else "/pause?mode=abort"
        return [HttpRequest(path, {})]

    def get_resume_request(self) -> HttpRequest:
        """Return the call that ends a pause."""
        return HttpRequest("/areal_continue_generation" if self.areal_extensions else "/resume", {})

    def get_health_check_request(self) -> HttpRequest:
        """Return the call that answers 200 where the server is well."""
        return HttpRequest("/health", {}, "GET")

    def get_identity_requests(self) -> list[HttpRequest]:
        """Return calls that may name the weights; vLLM does not name its process."""
        return [] if self.areal_extensions else [HttpRequest("/weight_info", {}, "GET")]

    def parse_identity(self, response: Any) -> tuple[str | None, int | None]:
        """Return no instance, and the weight version, None where the answer lacks it."""
        label = response.get("weight_version") if isinstance(response, dict) else None
        return None, read_version(label)

    def get_abort_all_request(self) -> HttpRequest:
        """Return the call that ends all answers in the making.

        Raises:
            NotImplementedError: AReaL's build of vLLM has none.
        """
        if self.areal_extensions:
            raise NotImplementedError("AReaL's vLLM cannot abort all requests without a pause")
        return HttpRequest("/abort_requests", {})

    def get_offload_request(self, tags: list[str] | None = None) -> HttpRequest:
        """Return the call that gives device memory back; vLLM knows no tags here."""
        return HttpRequest("/sleep", {})

    def get_onload_request(self, tags: list[str] | None = None) -> HttpRequest:
        """Return the call that takes device memory again."""
        query = "&".join(f"tags={tag}" for tag in tags or ())
        return HttpRequest(f"/wake_up?{query}" if query else "/wake_up", {})

    def launch_server(self, server_args: dict[str, Any]) -> subprocess.Popen[Any]:
        """Start a server with the arguments of ``vLLMConfig.build_args``."""
        switches = {"VLLM_SERVER_DEV_MODE": "1", "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True"}
        return subprocess.Popen(
            vLLMConfig.build_cmd_from_args(server_args),
            env=switches | os.environ,
            start_new_session=True,
        )


class RemotevLLMEngine(NamedServersEngine):
    """Rollouts from vLLM servers."""

    server_kind = "vllm"

    @staticmethod
    def _make_backend(config: InferenceEngineConfig) -> VLLMBackend:
        return VLLMBackend()


def _chat_messages(req: ModelRequest) -> list[dict[str, Any]]:
    """Return the messages of a chat with its images in place.

    Raises:
        ConfigError: There are more places than images, or fewer.
    """
    messages: list[dict[str, Any]] = copy.deepcopy((req.vision_msg_vllm or [[]])[0])
    images = list(req.image_data or ())
    places = [
        part
        for message in messages
        if isinstance(message.get("content"), list)
        for part in message["content"]
        if part.get("type") in ("image", "image_url")
    ]
    if len(places) != len(images):
        raise ConfigError(f"the messages have {len(places)} images and image_data {len(images)}")
    for part, image in zip(places, images, strict=True):
        part.clear()
        part |= {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{image}"}}
    return messages


def _token_id(name: str) -> int:
    if not name.startswith(_TOKEN_PREFIX):
        raise ValueError("a token is not an id: the server ignores return_tokens_as_token_ids")
    return int(name.removeprefix(_TOKEN_PREFIX))


def _unload_lora(name: str) -> HttpRequest:
    return HttpRequest("/v1/unload_lora_adapter", {"lora_name": name}, best_effort=True)
