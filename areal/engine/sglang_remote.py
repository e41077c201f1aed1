"""Rollouts from SGLang servers, and from ``areal serve``, which answers like one."""

from __future__ import annotations

import base64
import subprocess
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np

from areal.api.cli_args import InferenceEngineConfig, SGLangConfig
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
from areal.infra.controller.rollout_controller import RolloutController
from areal.infra.platforms import current_platform
from areal.infra.remote.fleet import BASE_VERSION
from areal.infra.remote_inf_engine import RemoteInfBackendProtocol, RemoteInfEngine


class SGLangBackend:
    """SGLang's wire format.

    Source: SGLang's documentation, "SGLang for RL systems" and "Sampling parameters".

    Args:
        areal_extensions: The servers are AReaL's own build of SGLang, which knows no weight
            versions and pauses in two calls.
        return_routed_experts: Ask for the experts of every token.
        updates_in_place: The servers go on with an answer after a load, as ``areal serve`` does,
            which prefills it again and names the version of every token. SGLang itself would finish
            all answers first.
    """

    def __init__(
        self,
        areal_extensions: bool = False,
        return_routed_experts: bool = False,
        updates_in_place: bool = False,
    ) -> None:
        self.areal_extensions = areal_extensions
        self.return_routed_experts = return_routed_experts
        self.updates_in_place = updates_in_place

    # --- generation

    def build_generation_request(
        self, req: ModelRequest, with_lora: bool, version: int
    ) -> HttpRequest:
        """Return the call that continues ``req.input_ids``.

        Raises:
            ConfigError: Beam search is asked for.
        """
        gconfig = req.gconfig
        if gconfig.use_beam_search:
            raise ConfigError("SGLang has no beam search; set gconfig.use_beam_search=false")
        sampling: dict[str, Any] = {
            "top_p": gconfig.top_p,
            "top_k": gconfig.top_k,
            "max_new_tokens": gconfig.max_new_tokens,
            "temperature": 0.0 if gconfig.greedy else gconfig.temperature,
            "stop_token_ids": gconfig.stop_token_ids,
            "ignore_eos": gconfig.ignore_eos,
            "skip_special_tokens": gconfig.skip_special_tokens,
            "frequency_penalty": gconfig.frequency_penalty,
        }
        if gconfig.min_new_tokens:
            sampling["min_new_tokens"] = gconfig.min_new_tokens
        if gconfig.stop:
            sampling["stop"] = gconfig.stop
        if gconfig.seed is not None:
            sampling["sampling_seed"] = gconfig.seed
        payload: dict[str, Any] = {
            "input_ids": req.input_ids,
            "sampling_params": sampling,
            "return_logprob": True,
            "stream": False,
        }
        if req.image_data:
            payload["image_data"] = req.image_data
        if self.return_routed_experts:
            payload["return_routed_experts"] = True
        if with_lora:
            payload["lora_path"] = get_versioned_lora_name(gconfig.lora_name, version)
        return HttpRequest("/generate", payload)

    def parse_generation_response(self, response: dict[str, Any]) -> HttpGenerationResult:
        """Read the answer to a generation call.

        Raises:
            ValueError: Tokens, log-probabilities and versions do not fit together.
            KeyError: A field is missing.
            TypeError: A field has another type.
        """
        meta = response["meta_info"]
        reason = meta["finish_reason"]
        message = reason.get("message") or ""
        if reason["type"] == "abort" and message.startswith("Abort before prefill"):
            return HttpGenerationResult([], [], "abort", output_versions=[])
        pairs = meta["output_token_logprobs"]
        experts = meta.get("routed_experts")
        return HttpGenerationResult(
            [pair[1] for pair in pairs],
            [pair[0] for pair in pairs],
            reason["type"],
            routed_experts=None if experts is None else _decode_experts(experts, meta),
            output_versions=_token_versions(meta, len(pairs)),
        )

    def build_score_request(
        self, input_ids: list[int], target_len: int, with_lora: bool, version: int
    ) -> HttpRequest:
        """Return the call that scores the last ``target_len`` tokens.

        Raises:
            NotImplementedError: With LoRA.
        """
        if with_lora:
            raise NotImplementedError("SGLang does not score with a LoRA adapter")
        return HttpRequest(
            "/generate",
            {
                "input_ids": input_ids,
                "sampling_params": {"max_new_tokens": 1, "temperature": 0.0},
                "return_logprob": True,
                "logprob_start_len": max(0, len(input_ids) - target_len - 1),
                "stream": False,
            },
        )

    def parse_score_response(self, response: dict[str, Any], target_len: int) -> list[float]:
        """Return the log-probabilities of the last ``target_len`` input tokens."""
        found = response["meta_info"]["input_token_logprobs"]
        return [float(pair[0]) for pair in found[len(found) - target_len :]]

    # --- weights

    def build_disk_weight_update_requests(self, meta: WeightUpdateMeta) -> WeightUpdateRequests:
        """Return the calls that load a folder of safetensors, or a LoRA adapter."""
        if meta.use_lora:
            assert meta.version is not None
            name = get_versioned_lora_name(meta.lora_name, meta.version)
            # A second attempt would otherwise be refused because the name is taken.
            calls = [_unload_lora(name)]
            calls.append(
                HttpRequest("/load_lora_adapter", {"lora_name": name, "lora_path": meta.path})
            )
            old = meta.version - meta.lora_keep_versions
            if meta.lora_keep_versions > 0 and old >= 0:
                calls.append(_unload_lora(get_versioned_lora_name(meta.lora_name, old)))
            return WeightUpdateRequests(calls)
        payload = {"model_path": meta.path, "abort_all_requests": not self.updates_in_place}
        return WeightUpdateRequests(
            [HttpRequest("/update_weights_from_disk", payload | self._label(meta.version))]
        )

    def build_pull_weight_update_requests(self, url: str, version: int) -> WeightUpdateRequests:
        """Return the call by which ``areal serve`` fetches weights; SGLang itself has none."""
        return WeightUpdateRequests(
            [HttpRequest("/pull_weights", {"url": url, "weight_version": str(version)})]
        )

    def build_init_weights_group_request(
        self, addr: str, server_idx: int, meta: WeightUpdateMeta
    ) -> HttpRequest:
        """Return the call that has the ``server_idx``-th server join the weight group.

        Raises:
            NotImplementedError: The generator splits the layers.
        """
        return HttpRequest("/init_weights_update_group", group_payload(server_idx, meta))

    def build_distributed_weight_update_requests(
        self, meta: WeightUpdateMeta, param_specs: Sequence[ParamSpec]
    ) -> WeightUpdateRequests:
        """Return the call that receives one bucket of parameters.

        Raises:
            NotImplementedError: With LoRA.
        """
        if meta.use_lora:
            raise NotImplementedError("SGLang takes LoRA adapters from disk only")
        payload = {
            **spec_payload(param_specs),
            "group_name": meta.nccl_group_name,
            "abort_all_requests": True,
        }
        return WeightUpdateRequests(
            [HttpRequest("/update_weights_from_distributed", payload | self._label(meta.version))]
        )

    def get_group_update_start_requests(self) -> list[HttpRequest]:
        """Return nothing: a bucket needs no introduction."""
        return []

    def get_group_update_end_requests(self, version: int) -> list[HttpRequest]:
        """Return the call by which ``areal serve`` takes what it received.

        SGLang has no such endpoint: there every bucket names the version.
        """
        if self.areal_extensions:
            return []
        payload = {"weight_version": str(version)}
        return [HttpRequest("/finish_weight_update", payload, best_effort=True)]

    def _label(self, version: int | None) -> dict[str, str]:
        if version is None or self.areal_extensions:
            return {}
        return {"weight_version": str(version)}

    # --- administration

    def get_pause_requests(self) -> list[HttpRequest]:
        """Return the calls after which no request is under way and none starts."""
        if self.areal_extensions:
            freeze = HttpRequest("/pause_generation", {"mode": "in_place"})
            return [HttpRequest("/pause_generation", {}), freeze]
        return [HttpRequest("/pause_generation", {"mode": "abort"})]

    def get_resume_request(self) -> HttpRequest:
        """Return the call that ends a pause."""
        return HttpRequest("/continue_generation", {})

    def get_health_check_request(self) -> HttpRequest:
        """Return the call that answers 200 where the server is well."""
        return HttpRequest("/health", {}, "GET")

    def get_identity_requests(self) -> list[HttpRequest]:
        """Return calls that may name the process and its weights; newer endpoints come first."""
        if self.areal_extensions:
            return []
        paths = ("/server_info", "/get_model_info", "/model_info")
        return [HttpRequest(path, {}, "GET") for path in paths]

    def parse_identity(self, response: Any) -> tuple[str | None, int | None]:
        """Return instance and weight version, each None where the answer lacks it."""
        if not isinstance(response, dict):
            return None, None
        instance = response.get("instance")
        label = response.get("weight_version")
        return None if instance is None else str(instance), read_version(label)

    def get_abort_all_request(self) -> HttpRequest:
        """Return the call that ends all answers in the making."""
        return HttpRequest("/abort_request", {"abort_all": True})

    def get_offload_request(self, tags: list[str] | None = None) -> HttpRequest:
        """Return the call that gives device memory back; the tags are "kv_cache", "weights"."""
        return HttpRequest("/release_memory_occupation", {"tags": tags} if tags else {})

    def get_onload_request(self, tags: list[str] | None = None) -> HttpRequest:
        """Return the call that takes device memory again."""
        return HttpRequest("/resume_memory_occupation", {"tags": tags} if tags else {})

    def launch_server(self, server_args: dict[str, Any]) -> subprocess.Popen[Any]:
        """Start a server with the arguments of ``SGLangConfig.build_args``."""
        command = SGLangConfig.build_cmd_from_args(server_args)
        return subprocess.Popen(command, start_new_session=True)


class NamedServersEngine(RemoteInfEngine):
    """What the engines under AReaL's names share; each is made of a configuration alone.

    Args:
        config: Rollout settings.
        seed: Of the sampling streams.
    """

    server_kind: ClassVar[str]

    def __init__(self, config: InferenceEngineConfig, seed: int = 1) -> None:
        super().__init__(config, self._make_backend(config), seed)

    @staticmethod
    @abstractmethod
    def _make_backend(config: InferenceEngineConfig) -> RemoteInfBackendProtocol:
        """Return what speaks to servers of this kind."""

    @classmethod
    def from_pretrained(
        cls,
        tokenizer_path: str | None = None,
        dp_size: int = 1,
        max_concurrent_rollouts: int | None = None,
        **config_fields: Any,
    ) -> Self:
        """Return an engine for ``dp_size`` servers; further fields are those of the config."""
        config_fields.setdefault("backend", f"{cls.server_kind}:d{dp_size}")
        return cls(
            InferenceEngineConfig(
                tokenizer_path=tokenizer_path or "",
                max_concurrent_rollouts=max_concurrent_rollouts,
                **config_fields,
            )
        )

    @classmethod
    def as_controller(cls, config: InferenceEngineConfig, scheduler: Any) -> RolloutController:
        """Return a controller that starts servers and generates with them."""
        return RolloutController(cls, config, scheduler)


class RemoteSGLangEngine(NamedServersEngine):
    """Rollouts from SGLang servers."""

    server_kind = "sglang"

    @staticmethod
    def _make_backend(config: InferenceEngineConfig) -> SGLangBackend:
        return SGLangBackend(return_routed_experts=config.return_routed_experts)


# --- shared with vLLM


def read_version(label: Any) -> int | None:
    """Return a server's version label as a number.

    A label that is no number, such as SGLang's "default", is that of the weights which the server
    was started with.
    """
    if label is None:
        return None
    text = str(label)
    return int(text) if text.isdecimal() else BASE_VERSION


def group_payload(server_idx: int, meta: WeightUpdateMeta) -> dict[str, Any]:
    """Return which ranks a server takes in a weight group whose rank 0 is the trainer.

    Raises:
        ConfigError: ``meta.gen_allocation`` is missing.
        NotImplementedError: The generator splits the layers.
    """
    if meta.gen_allocation is None:
        raise ConfigError("a weight group needs meta.gen_allocation")
    parallel = meta.gen_allocation.parallel
    if parallel.pp_size > 1:
        raise NotImplementedError(
            f"the generator has {parallel.pp_size} pipeline stages, which take no weights by "
            "group; update from disk, or use p1"
        )
    return {
        "master_address": meta.nccl_master_address,
        "master_port": meta.nccl_master_port,
        "rank_offset": 1 + server_idx * parallel.tp_size,
        "world_size": 1 + parallel.dp_size * parallel.tp_size,
        "group_name": meta.nccl_group_name,
        "backend": current_platform.communication_backend,
    }


def spec_payload(param_specs: Sequence[ParamSpec]) -> dict[str, Any]:
    """Return names, dtypes and shapes of a bucket."""
    return {
        "names": [spec.name for spec in param_specs],
        "dtypes": [spec.dtype.removeprefix("torch.") for spec in param_specs],
        "shapes": [list(spec.shape) for spec in param_specs],
    }


def _unload_lora(name: str) -> HttpRequest:
    return HttpRequest("/unload_lora_adapter", {"lora_name": name}, best_effort=True)


def _token_versions(meta: dict[str, Any], count: int) -> list[int] | None:
    versions = meta.get("output_token_versions")
    if versions is not None:
        if not set(map(type, versions)) <= {int}:
            raise ValueError("output_token_versions has values that are not integers")
        return list(versions)
    label = str(meta.get("weight_version"))
    return [int(label)] * count if label.isdecimal() else None


def _decode_experts(text: str, meta: dict[str, Any]) -> np.ndarray:
    """Return the experts of all tokens but the last, int32 [prompt + completion - 1, ...]."""
    num_rows = meta["prompt_tokens"] + meta["completion_tokens"] - 1
    return np.frombuffer(base64.b64decode(text), dtype=np.int32).reshape(num_rows, -1)
