"""Options of inference servers, under the names that the servers give them."""

from __future__ import annotations

from dataclasses import dataclass


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
    worker_extension_cls: str = "areal.engine.vllm_ext.vllm_worker_extension.VLLMWorkerExtension"
    enable_sleep_mode: bool = False
    uvicorn_log_level: str = "warning"
    gdn_prefill_backend: str | None = None
    enable_lora: bool = False
    max_lora_rank: int = 16
    max_loras: int = 8
    lora_modules: list[str] | None = None


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
