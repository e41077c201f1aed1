"""Options of inference servers, under the names that the servers give them."""

from __future__ import annotations

import dataclasses
import sys
from dataclasses import dataclass
from typing import Any

# Lives in AReaL's own vLLM server; the real one would fail to import it.
_AREAL_WORKER_EXTENSION = "areal.engine.vllm_ext.vllm_worker_extension.VLLMWorkerExtension"


def _command(module: str, args: dict[str, Any]) -> list[str]:
    """Return ``python -m module`` with a flag for every argument that is set.

    True is a bare flag, a list one flag with several values; None, False and what is empty are left
    out.
    """
    command = [sys.executable, "-m", module]
    for name, value in args.items():
        if value is None or value is False or value == "" or value == []:
            continue
        command.append(f"--{name.replace('_', '-')}")
        if isinstance(value, list):
            command += map(str, value)
        elif value is not True:
            command.append(str(value))
    return command


@dataclass
class vLLMConfig:  # noqa: N801  (AReaL's spelling)
    """Sets a vLLM server.

    Source: vLLM's engine arguments.
    """

    model: str = ""
    seed: int = 1
    skip_tokenizer_init: bool = False
    enforce_eager: bool = False
    dtype: str = "bfloat16"
    distributed_executor_backend: str = "mp"
    max_num_seqs: int = 256
    block_size: int = 16
    cpu_offload_gb: float = 0
    disable_sliding_window: bool = True
    max_model_len: int | None = 32768
    no_enable_chunked_prefill: bool = False
    no_enable_prefix_caching: bool = True
    gpu_memory_utilization: float = 0.9
    worker_extension_cls: str = _AREAL_WORKER_EXTENSION
    enable_sleep_mode: bool = False
    uvicorn_log_level: str = "warning"
    gdn_prefill_backend: str | None = None
    enable_lora: bool = False
    max_lora_rank: int = 16
    max_loras: int = 8
    lora_modules: list[str] | None = None

    @staticmethod
    def build_args(
        vllm_config: vLLMConfig,
        tp_size: int,
        pp_size: int = 1,
        host: str | None = None,
        port: int | None = None,
        dist_init_addr: str | None = None,
        n_nodes: int = 1,
        node_rank: int = 0,
    ) -> dict[str, Any]:
        """Return the arguments of one server.

        Args:
            vllm_config: Its settings.
            tp_size: How many devices share a matrix.
            pp_size: How many stages the layers are split into.
            host: Where it listens; None takes the server's default.
            port: None takes the server's default.
            dist_init_addr: Where the processes of a server on several nodes meet, "host:port".
            n_nodes: How many nodes the server runs on.
            node_rank: Which of them this is.
        """
        args = dataclasses.asdict(vllm_config)
        if args["worker_extension_cls"] == _AREAL_WORKER_EXTENSION:
            del args["worker_extension_cls"]
        args |= {"tensor_parallel_size": tp_size, "pipeline_parallel_size": pp_size}
        args |= {"host": host, "port": port}
        if n_nodes > 1 and dist_init_addr is not None:
            address, _, master_port = dist_init_addr.rpartition(":")
            args |= {"nnodes": n_nodes, "node_rank": node_rank}
            args |= {"master_addr": address, "master_port": master_port}
        return args

    @staticmethod
    def build_cmd_from_args(args: dict[str, Any]) -> list[str]:
        """Return the command line of ``build_args``."""
        return _command("vllm.entrypoints.openai.api_server", args)

    @staticmethod
    def build_cmd(vllm_config: vLLMConfig, tp_size: int, **options: Any) -> list[str]:
        """Return the command line of a server; the options are those of ``build_args``."""
        return vLLMConfig.build_cmd_from_args(
            vLLMConfig.build_args(vllm_config, tp_size, **options)
        )


@dataclass
class SGLangConfig:
    """Sets an SGLang server.

    Source: SGLang's server arguments.
    """

    model_path: str = ""
    random_seed: int = 1
    skip_tokenizer_init: bool = False
    disable_cuda_graph: bool = False
    disable_radix_cache: bool = True
    disable_cuda_graph_padding: bool = False
    enable_nccl_nvls: bool = False
    disable_outlines_disk_cache: bool = False
    disable_custom_all_reduce: bool = False
    disable_overlap_schedule: bool = False
    enable_mixed_chunk: bool = False
    enable_dp_attention: bool = False
    enable_ep_moe: bool = False
    enable_torch_compile: bool = False
    torch_compile_max_bs: int = 32
    cuda_graph_max_bs: int | None = None
    cuda_graph_bs: list[int] | None = None
    torchao_config: str = ""
    enable_nan_detection: bool = False
    enable_p2p_check: bool = False
    triton_attention_reduce_in_fp32: bool = False
    triton_attention_num_kv_splits: int = 8
    num_continuous_decode_steps: int = 1
    load_format: str = "auto"
    enable_memory_saver: bool = False
    allow_auto_truncate: bool = False
    attention_backend: str | None = "fa3"
    enable_deterministic_inference: bool = False
    enable_multimodal: bool = False
    sampling_backend: str | None = None
    context_length: int | None = 32768
    mem_fraction_static: float | None = 0.9
    max_running_requests: int | None = None
    chunked_prefill_size: int | None = -1
    max_prefill_tokens: int = 32768
    schedule_policy: str = "lpm"
    schedule_conservativeness: float = 1.0
    cpu_offload_gb: int = 0
    dtype: str = "bfloat16"
    kv_cache_dtype: str = "auto"
    dp_size: int = 1
    ep_size: int = 1
    enable_lora: bool | None = None
    max_lora_rank: int | None = None
    max_loaded_loras: int = 8
    lora_paths: list[str] | None = None
    lora_backend: str = "triton"
    log_level: str = "warning"
    log_level_http: str | None = "warning"
    log_requests: bool = False
    log_requests_level: int = 0
    show_time_cost: bool = False
    enable_metrics: bool = True
    decode_log_interval: int = 1
    enable_multithread_load: bool = False
    enable_return_routed_experts: bool = False

    @staticmethod
    def build_args(
        sglang_config: SGLangConfig,
        tp_size: int,
        base_gpu_id: int = 0,
        host: str | None = None,
        port: int | None = None,
        dist_init_addr: str | None = None,
        n_nodes: int = 1,
        node_rank: int = 0,
        pp_size: int = 1,
    ) -> dict[str, Any]:
        """Return the arguments of one server.

        Args:
            sglang_config: Its settings.
            tp_size: How many devices share a matrix.
            base_gpu_id: The first of its devices.
            host: Where it listens; None takes the server's default.
            port: None takes the server's default.
            dist_init_addr: Where its processes meet, "host:port".
            n_nodes: How many nodes the server runs on.
            node_rank: Which of them this is.
            pp_size: How many stages the layers are split into.
        """
        args = dataclasses.asdict(sglang_config)
        if args.pop("enable_multithread_load"):
            args["model_loader_extra_config"] = '{"enable_multithread_load": true}'
        args |= {"tp_size": tp_size, "pp_size": pp_size, "base_gpu_id": base_gpu_id}
        args |= {"host": host, "port": port, "dist_init_addr": dist_init_addr}
        return args | {"nnodes": n_nodes, "node_rank": node_rank}

    @staticmethod
    def build_cmd_from_args(args: dict[str, Any]) -> list[str]:
        """Return the command line of ``build_args``."""
        return _command("sglang.launch_server", args)

    @staticmethod
    def build_cmd(sglang_config: SGLangConfig, tp_size: int, **options: Any) -> list[str]:
        """Return the command line of a server; the options are those of ``build_args``."""
        return SGLangConfig.build_cmd_from_args(
            SGLangConfig.build_args(sglang_config, tp_size, **options)
        )
