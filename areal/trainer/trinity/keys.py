"""Every key of a Trinity-RFT YAML, and what becomes of it here.

Source:
    The configuration classes of the installed package trinity-rft 0.6.0; a test compares them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MAPPED, IGNORED, REFUSED = "mapped", "ignored", "refused"


@dataclass(frozen=True, slots=True)
class Key:
    """What becomes of one key.

    Attributes:
        use: "mapped" to a key of ours, "ignored" as it changes no result here, or "refused" as it
            would, with any value but those of ``neutral``.
        note: Our key, the reason, or what to do.
        neutral: Values that ask for nothing; for "refused".
    """

    use: str
    note: str
    neutral: tuple[Any, ...] = ()


def _mapped(note: str) -> Key:
    return Key(MAPPED, note)


def _ignored(note: str) -> Key:
    return Key(IGNORED, note)


def _refused(note: str, *neutral: Any) -> Key:
    return Key(REFUSED, note, (None, *neutral))


_PLACEMENT = _ignored("where engines run follows from actor.backend and rollout.backend")
_SERVER = _ignored("the embedded engine has no such setting")
_RAY = _ignored("nothing here runs on Ray")
_MEMORY = _ignored("memory alone; see actor.* of areal")
_RETRY = _ignored("a row that gives nothing is replaced by the next one")
_PAGE = _ignored("a run writes its own log and report, and TensorBoard")
_NO_IMAGES = _refused("images and videos are not carried; leave it out")
_FILE_ONLY = _refused("rows are read from files; set storage_type: file", "file", "FILE")
_ORDER = _mapped("train_dataset.shuffle")

FORMAT: dict[str, Key] = {
    "prompt_type": _mapped("format_args.prompt_type; for SFT and DPO how rows are read"),
    "prompt_key": _mapped("format_args.prompt_key"),
    "response_key": _mapped("format_args.response_key"),
    "system_prompt_key": _mapped("format_args.system_prompt_key"),
    "system_prompt": _mapped("format_args.system_prompt"),
    "messages_key": _mapped("format_args.messages_key"),
    "tools_key": _mapped("format_args.tools_key"),
    "image_key": _NO_IMAGES,
    "video_key": _NO_IMAGES,
    "reply_prefix": _mapped("format_args.reply_prefix"),
    "workflow_key": _mapped("format_args.workflow_key"),
    "reward_fn_key": _mapped("format_args.reward_fn_key"),
    "chosen_key": _mapped("how pairs of DPO are read"),
    "rejected_key": _mapped("how pairs of DPO are read"),
    "enable_concatenated_multi_turn": _refused("each row is one conversation here", False),
    "chat_template": _mapped("format_args.chat_template"),
    "enable_thinking": _mapped("format_args.enable_thinking"),
}
_ROLLOUT: dict[str, Key] = {
    "temperature": _mapped("gconfig.temperature and actor.temperature; eval_gconfig"),
    "top_p": _mapped("gconfig.top_p; eval_gconfig"),
    "top_k": _mapped("gconfig.top_k; eval_gconfig"),
    "logprobs": _ignored("log-probabilities are always kept"),
    "max_tokens": _mapped("gconfig.max_new_tokens; eval_gconfig"),
    "n": _refused(
        "a run would make n experiences, and repeat_times makes as many runs; leave n out", 1
    ),
}
_SELECTOR: dict[str, Key] = {
    "selector_type": _ORDER,
    "seed": _mapped("seed"),
    "feature_keys": _refused("it belongs to a selector that there is not; leave it out", []),
    "kwargs": _refused("it belongs to a selector that there is not; leave it out", {}),
}


def _below(prefix: str, keys: Mapping[str, Key]) -> dict[str, Key]:
    return {f"{prefix}.{name}": key for name, key in keys.items()}


_STORE: dict[str, Key] = {
    "name": _ignored("a name for logs"),
    "storage_type": _FILE_ONLY,
    "path": _mapped("train_dataset.path; valid_dataset.path"),
    "split": _mapped("train_dataset.split; valid_dataset.split"),
    "subset_name": _mapped("dataset_kwargs.subset_name"),
    **_below("format", FORMAT),
    "max_retry_times": _RETRY,
    "max_retry_interval": _RETRY,
    "enable_progress_bar": _PAGE,
    "index": _ignored("the package fills it in"),
    "batch_size": _ignored("the package fills it in from buffer"),
    "total_epochs": _ignored("the package fills it in from buffer"),
    "total_steps": _ignored("the package fills it in from buffer"),
    "ray_namespace": _RAY,
    "data_selector": _ORDER,
    **_below("data_selector", _SELECTOR),
}
TASKSET: dict[str, Key] = {
    **_STORE,
    "default_workflow_type": _mapped("run.workflow_kwargs.workflow_type"),
    "default_reward_fn_type": _mapped("run.workflow_kwargs.reward_fn_type"),
    "rollout_args": _mapped("gconfig; eval_gconfig"),
    **_below("rollout_args", _ROLLOUT),
    "workflow_args": _mapped("run.workflow_kwargs.workflow_args"),
    "reward_fn_args": _mapped("run.workflow_kwargs.reward_fn_args"),
    "task_selector": _ORDER,
    **_below("task_selector", _SELECTOR),
    "repeat_times": _mapped("eval_gconfig.n_samples of a taskset for evaluation"),
    "is_eval": _ignored("the package fills it in"),
}
_EXPERIENCE_BUFFER: dict[str, Key] = {
    **_STORE,
    "storage_type": _ignored("rows of SFT and DPO come from files, others from the rollout"),
    "capacity": _ignored("rollouts go to the trainer without a buffer"),
    "max_read_timeout": _ignored("rollouts go to the trainer without a buffer"),
    "replay_buffer": _refused("no row is trained on twice here; leave it out", {}),
    "replay_buffer.enable": _refused("no row is trained on twice here; set it to false", False),
    "replay_buffer.priority_fn": _ignored("there is no replay buffer"),
    "replay_buffer.reuse_cooldown_time": _ignored("there is no replay buffer"),
    "replay_buffer.priority_fn_args": _ignored("there is no replay buffer"),
    "schema_type": _ignored("it follows from algorithm_type"),
    "tokenizer_path": _mapped("tokenizer_path"),
}

_SAMPLES = "data_processor changes rows or experiences; prepare the files before the run"
_INFERENCE: dict[str, Key] = {
    "temperature": _mapped("gconfig.temperature and actor.temperature"),
    "top_p": _mapped("gconfig.top_p"),
    "top_k": _mapped("gconfig.top_k"),
    "max_response_tokens": _mapped("gconfig.max_new_tokens"),
    "max_prompt_tokens": _mapped("gconfig.max_tokens"),
    "max_model_len": _mapped("gconfig.max_tokens"),
    "min_response_tokens": _mapped("gconfig.min_new_tokens"),
    "enable_thinking": _mapped("format_args.enable_thinking"),
    "chat_template": _mapped("format_args.chat_template"),
    "seed": _mapped("seed"),
    "logprobs": _ignored("log-probabilities are always kept"),
    "enable_prompt_truncation": _ignored("a prompt that is too long rejects its episode"),
    "repetition_penalty": _refused("the engine has none; set it to 1.0", 1.0, 1),
    "ignore_eos": _refused("answers end at end-of-sequence; set it to false", False),
    "enable_history": _ignored("the history is always on"),
    "enable_openai_api": _ignored("the clients are always there"),
    "enable_multimodal": _refused("images and videos are not carried; set it to false", False),
    "tool_call_parser": _ignored("calls are found in the form of Qwen"),
    "reasoning_parser": _ignored("reasoning stays in the text"),
    "enable_auto_tool_choice": _ignored("a template shows tools where a request has some"),
    "enable_return_routed_experts": _refused("routing is not replayed; set it to false", False),
    "trust_remote_code": _refused("no code of a model is executed; set it to false", False),
    "model_path": _refused("the model that is trained generates; set model.model_path alone"),
    "rope_scaling": _refused("it changes the model; change its config.json"),
    "rope_theta": _refused("it changes the model; change its config.json"),
    "enable_lora": _refused("adapters are set in actor.use_lora of areal; set it to false", False),
    "enable_runtime_lora_updating": _refused("see enable_lora; set it to false", False),
    "lora_modules": _refused("see enable_lora; leave it out", []),
    "lora_kwargs": _refused("see enable_lora; leave it out", {}),
    **dict.fromkeys(
        (
            "api_key",
            "base_port",
            "bundle_indices",
            "checkpoint_job_dir",
            "cuda_visible_devices",
            "data_parallel_size",
            "dtype",
            "enable_chunked_prefill",
            "enable_expert_parallel",
            "enable_log_requests",
            "enable_prefix_caching",
            "enforce_eager",
            "engine_id",
            "engine_num",
            "engine_type",
            "extra_engine_args",
            "gpu_memory_utilization",
            "gpu_per_engine",
            "name",
            "nnodes",
            "node_rank",
            "pipeline_parallel_size",
            "ray_actor_name",
            "ray_namespace",
            "sync_method",
            "tensor_parallel_size",
            "use_v1",
            "weight_sync_buffer_size",
        ),
        _SERVER,
    ),
    **dict.fromkeys(
        (
            "external_model_config",
            "external_model_config.enable",
            "external_model_config.base_url_env",
            "external_model_config.api_key_env",
            "external_model_config.model_name",
        ),
        _ignored("the model that is trained generates"),
    ),
}
_NO_KL = "areal has one KL penalty; set kl_penalty_fn or kl_loss_fn to none"

KEYS: dict[str, Key] = {
    "mode": _mapped("both: run.algorithm; train: SFT and DPO"),
    "project": _mapped("experiment_name"),
    "group": _ignored("a name for monitors"),
    "name": _mapped("trial_name"),
    "checkpoint_root_dir": _mapped("cluster.fileroot"),
    "checkpoint_job_dir": _ignored("the package fills it in"),
    "ray_namespace": _RAY,
    "continue_from_checkpoint": _mapped("recover.mode"),
    "ignore_validator_suggestions": _ignored("it silences the package's own checks"),
    # --- what is optimised
    "algorithm.algorithm_type": _mapped("run.algorithm, train_dataset.type"),
    "algorithm.repeat_times": _mapped("gconfig.n_samples"),
    "algorithm.optimizer.lr": _mapped("actor.optimizer.lr"),
    "algorithm.optimizer.lr_warmup_steps": _mapped("actor.optimizer.warmup_steps"),
    "algorithm.optimizer.lr_warmup_steps_ratio": _mapped("actor.optimizer.warmup_steps_proportion"),
    "algorithm.optimizer.min_lr_ratio": _mapped("actor.optimizer.min_lr_ratio"),
    "algorithm.optimizer.warmup_style": _mapped("actor.optimizer.lr_scheduler_type"),
    "algorithm.optimizer.lr_scheduler_type": _mapped("actor.optimizer.lr_scheduler_type"),
    "algorithm.optimizer.optimizer_type": _mapped("actor.optimizer.type"),
    "algorithm.optimizer.betas": _mapped("actor.optimizer.beta1, beta2"),
    "algorithm.optimizer.weight_decay": _mapped("actor.optimizer.weight_decay"),
    "algorithm.optimizer.clip_grad": _mapped("actor.optimizer.gradient_clipping"),
    "algorithm.sample_strategy": _refused("what was rolled out is trained on; leave it", "default"),
    "algorithm.sample_strategy_args": _refused("it has no strategy to set; leave it out", {}),
    "algorithm.advantage_fn": _mapped("what run.algorithm has; another one is refused"),
    "algorithm.advantage_fn_args": _mapped("actor.reward_norm, actor.gae_lambda, actor.discount"),
    "algorithm.kl_penalty_fn": _mapped("actor.kl_estimator, run.kl_placement reward"),
    "algorithm.kl_penalty_fn_args": _mapped("actor.kl_ctl"),
    "algorithm.policy_loss_fn": _mapped("what run.algorithm has; another one is refused"),
    "algorithm.policy_loss_fn_args": _mapped("actor.eps_clip, actor.c_clip, run.loss_aggregation"),
    "algorithm.kl_loss_fn": _mapped("actor.kl_estimator, run.kl_placement loss"),
    "algorithm.kl_loss_fn_args": _mapped("actor.kl_ctl"),
    "algorithm.entropy_loss_fn": _refused("there is no entropy bonus", "default", "none"),
    "algorithm.entropy_loss_fn_args": _refused(
        "there is no entropy bonus; set entropy_coef: 0.0", {}, {"entropy_coef": 0.0}
    ),
    "algorithm.loss_agg_mode": _mapped("run.loss_aggregation"),
    "algorithm.enable_router_replay": _refused("routing is not replayed; set it to false", False),
    "algorithm.bypass_old_logprobs": _mapped("actor.recompute_logprob"),
    "algorithm.rollout_correction": _refused("see actor.rejection_sampling of areal; leave it out"),
    # --- what changes rows on their way
    "data_processor": _refused(_SAMPLES, {}),
    "data_processor.task_pipeline": _refused(_SAMPLES, {}),
    "data_processor.experience_pipeline": _refused(_SAMPLES, {}),
    "data_processor.experience_pipeline.operators": _refused(_SAMPLES, []),
    "data_processor.experience_pipeline.save_input": _ignored("episodes.jsonl has a sample"),
    "data_processor.experience_pipeline.input_save_path": _ignored("episodes.jsonl has a sample"),
    "data_processor.experience_pipeline.inputs": _refused(_SAMPLES, {}),
    "data_processor.experience_pipeline.output": _refused(_SAMPLES),
    # --- the model
    "model.model_path": _mapped("actor.path"),
    "model.trust_remote_code": _INFERENCE["trust_remote_code"],
    "model.critic_model_path": _mapped("critic.path"),
    "model.custom_chat_template": _mapped("format_args.chat_template"),
    "model.chat_template_path": _mapped("format_args.chat_template"),
    "model.temperature": _INFERENCE["temperature"],
    "model.top_p": _INFERENCE["top_p"],
    "model.top_k": _INFERENCE["top_k"],
    "model.logprobs": _INFERENCE["logprobs"],
    "model.max_model_len": _INFERENCE["max_model_len"],
    "model.max_prompt_tokens": _INFERENCE["max_prompt_tokens"],
    "model.max_response_tokens": _INFERENCE["max_response_tokens"],
    "model.min_response_tokens": _INFERENCE["min_response_tokens"],
    "model.enable_prompt_truncation": _INFERENCE["enable_prompt_truncation"],
    "model.repetition_penalty": _INFERENCE["repetition_penalty"],
    "model.enable_thinking": _INFERENCE["enable_thinking"],
    "model.lora_configs": _refused("adapters are set in actor.use_lora of areal; leave it out", []),
    "model.fully_sharded_loras": _SERVER,
    "model.max_cpu_loras": _SERVER,
    "model.rope_scaling": _INFERENCE["rope_scaling"],
    "model.rope_theta": _INFERENCE["rope_theta"],
    "model.tinker": _refused("training on Tinker is a service; leave it out", {}),
    "model.tinker.enable": _refused("training on Tinker is a service; set it to false", False),
    **dict.fromkeys(
        [f"model.tinker.{x}" for x in ("rank", "seed", "train_mlp", "train_attn", "train_unembed")],
        _ignored("there is no Tinker"),
    ),
    "model.tinker.base_url": _ignored("there is no Tinker"),
    "model.external_model": _refused("the model that is trained generates; leave it out", {}),
    "model.external_model.enable": _refused("the model that is trained generates", False),
    **dict.fromkeys(
        [f"model.external_model.{x}" for x in ("base_url_env", "api_key_env", "model_name")],
        _ignored("there is no external model"),
    ),
    # --- where
    **dict.fromkeys(
        [
            f"cluster.{name}"
            for name in (
                "node_num",
                "gpu_per_node",
                "total_gpu_num",
                "rollout_gpu_num",
                "auxiliary_model_gpu_num",
                "explorer_gpu_num",
                "trainer_gpu_num",
                "trainer_node_num",
                "trainer_gpu_num_per_node",
            )
        ],
        _PLACEMENT,
    ),
    "cluster.ray_address": _RAY,
    # --- rows
    "buffer.batch_size": _mapped("train_dataset.batch_size, in tasks"),
    "buffer.train_batch_size": _mapped("batch_size x repeat_times experiences, or refused"),
    "buffer.total_epochs": _mapped("total_train_epochs"),
    "buffer.total_steps": _mapped("total_train_steps"),
    "buffer.explorer_input.taskset": _mapped("train_dataset"),
    **_below("buffer.explorer_input.taskset", TASKSET),
    "buffer.explorer_input.tasksets": _mapped("train_dataset; several are refused"),
    **_below("buffer.explorer_input.tasksets[]", TASKSET),
    "buffer.explorer_input.eval_tasksets": _mapped("valid_dataset; several are refused"),
    **_below("buffer.explorer_input.eval_tasksets[]", TASKSET),
    "buffer.explorer_input.default_workflow_type": TASKSET["default_workflow_type"],
    "buffer.explorer_input.default_eval_workflow_type": _mapped("run.eval_workflow_kwargs"),
    "buffer.explorer_input.default_reward_fn_type": TASKSET["default_reward_fn_type"],
    "buffer.trainer_input.experience_buffer": _mapped("train_dataset of SFT and DPO"),
    **_below("buffer.trainer_input.experience_buffer", _EXPERIENCE_BUFFER),
    "buffer.trainer_input.auxiliary_buffers": _refused("one set of rows is trained on", {}),
    "buffer.explorer_output": _ignored("episodes.jsonl has a sample"),
    "buffer.tokenizer_path": _mapped("tokenizer_path"),
    "buffer.cache_dir": _ignored("the package fills it in"),
    # --- rollouts
    "explorer.rollout_model": _mapped("gconfig"),
    **_below("explorer.rollout_model", _INFERENCE),
    "explorer.auxiliary_models": _mapped("run.workflow_kwargs.auxiliary_models; see its keys"),
    **_below(
        "explorer.auxiliary_models[]",
        {
            **dict.fromkeys(_INFERENCE, _ignored("its server decides")),
            "engine_type": _refused(
                "auxiliary models are servers here: set engine_type: external and "
                "external_model_config",
                "external",
            ),
            "external_model_config.base_url_env": _mapped("auxiliary_models[].base_url"),
            "external_model_config.api_key_env": _mapped("auxiliary_models[].api_key"),
            "external_model_config.model_name": _mapped("auxiliary_models[].model"),
            "model_path": _mapped("auxiliary_models[].model"),
        },
    ),
    "explorer.eval_interval": _mapped("evaluator.freq_steps"),
    "explorer.eval_on_startup": _mapped("evaluator.eval_before_train"),
    "explorer.max_timeout": _mapped("rollout.request_timeout"),
    "explorer.max_retry_times": _RETRY,
    "explorer.concurrent_mode": _ignored("all episodes of a step run at once, each by itself"),
    "explorer.env_vars": _refused("set them in the shell of the run", {}),
    "explorer.over_rollout": _refused("each step waits for its batch; leave it out", {}),
    "explorer.over_rollout.ratio": _refused("each step waits for its batch; set it to 0.0", 0, 0.0),
    "explorer.over_rollout.wait_after_min": _ignored("there is no over-rollout"),
    "explorer.over_rollout.return_partial_tasks": _ignored("there is no over-rollout"),
    **dict.fromkeys(
        [
            f"explorer.{name}"
            for name in (
                "name",
                "runner_per_model",
                "runner_prepare_concurrency",
                "runner_prepare_max_retries",
                "max_repeat_times_per_runner",
                "runner_num",
                "bench_on_latest_checkpoint",
                "proxy_port",
                "listen_address",
                "service_status_check_interval",
                "min_running_model_num",
                "db_url",
                "dynamic_timeout",
                "dynamic_timeout.enable",
                "dynamic_timeout.warmup_min_steps",
                "dynamic_timeout.ratio",
                "runner_state_report_interval",
                "max_inflight_batches",
            )
        ],
        _ignored("episodes run in one executor, whose limits are rollout.* of areal"),
    ),
    # --- updates
    "trainer.name": _ignored("a name for logs"),
    "trainer.trainer_type": _ignored("areal trains"),
    "trainer.trainer_strategy": _PLACEMENT,
    "trainer.save_interval": _mapped("saver.freq_steps, recover.freq_steps"),
    "trainer.total_steps": _mapped("total_train_steps"),
    "trainer.grad_clip": _mapped("actor.optimizer.gradient_clipping"),
    "trainer.max_token_len_per_gpu": _mapped("actor.mb_spec.max_tokens_per_mb"),
    "trainer.critic_warmup": _refused("critic and actor train from the first step; set 0", 0),
    "trainer.trust_remote_code": _INFERENCE["trust_remote_code"],
    "trainer.trainer_config": _refused("these are settings of verl; leave it out", {}),
    "trainer.trainer_config_path": _refused("these are settings of verl; leave it out", ""),
    **dict.fromkeys(
        [
            f"trainer.{name}"
            for name in (
                "use_dynamic_bsz",
                "use_remove_padding",
                "balance_batch",
                "ulysses_sequence_parallel_size",
                "fix_actor_microbatch_loss_scale",
                "param_offload",
                "optimizer_offload",
                "grad_offload",
                "offload_policy",
                "megatron",
                "megatron.tensor_model_parallel_size",
                "megatron.pipeline_model_parallel_size",
                "megatron.virtual_pipeline_model_parallel_size",
                "megatron.expert_model_parallel_size",
                "megatron.expert_tensor_parallel_size",
                "megatron.context_parallel_size",
                "megatron.sequence_parallel",
            )
        ],
        _MEMORY,
    ),
    **dict.fromkeys(
        [
            f"trainer.{name}"
            for name in (
                "enable_preview",
                "save_hf_checkpoint",
                "save_strategy",
                "max_checkpoints_to_keep",
            )
        ],
        _PAGE,
    ),
    "monitor.monitor_type": _PAGE,
    "monitor.monitor_args": _PAGE,
    "monitor.detailed_stats": _PAGE,
    "monitor.enable_ray_timeline": _RAY,
    "monitor.cache_dir": _PAGE,
    # --- how far rollouts run ahead
    "synchronizer.sync_interval": _refused("weights follow every step; set it to 1", 1),
    "synchronizer.explorer_sync_interval": _refused("weights follow every step; set it to 1", 1),
    "synchronizer.trainer_sync_interval": _refused("weights follow every step; set it to 1", 1),
    "synchronizer.sync_offset": _mapped("rollout.max_head_offpolicyness"),
    "synchronizer.sync_style": _refused(
        "rollouts run ahead by a fixed number of steps; set fixed and sync_offset", "fixed", "FIXED"
    ),
    **dict.fromkeys(
        [
            f"synchronizer.{name}"
            for name in (
                "sync_method",
                "sync_timeout",
                "group_name",
                "wait_for_checkpoint",
                "explorer_world_size",
                "ray_namespace",
            )
        ],
        _ignored("the engine shares the trainer's weights; see actor.weight_update_mode"),
    ),
    "service.data_juicer": _refused(_SAMPLES),
    "log.level": _PAGE,
    "log.group_by_node": _PAGE,
    "log.save_dir": _PAGE,
    "stages": _refused("one stage is one run; write a file for each", []),
}

# Whose keys are the user's own.
FREE = frozenset(
    {
        "algorithm.advantage_fn_args",
        "algorithm.entropy_loss_fn_args",
        "algorithm.kl_loss_fn_args",
        "algorithm.kl_penalty_fn_args",
        "algorithm.policy_loss_fn_args",
        "algorithm.rollout_correction",
        "algorithm.sample_strategy_args",
        "buffer.explorer_output",
        "buffer.trainer_input.auxiliary_buffers",
        "data_processor.experience_pipeline.inputs",
        "data_processor.experience_pipeline.operators",
        "data_processor.experience_pipeline.output",
        "data_processor.task_pipeline",
        "explorer.env_vars",
        "model.lora_configs",
        "monitor.monitor_args",
        "service.data_juicer",
        "stages",
        "trainer.trainer_config",
    }
)
_FREE_ENDS = (
    ".workflow_args",
    ".reward_fn_args",
    "_selector.kwargs",
    ".priority_fn_args",
    ".extra_engine_args",
    ".lora_kwargs",
    ".lora_modules",
    ".rope_scaling",
)


def is_free(key: str) -> bool:
    """Return whether what is below a key is the user's own."""
    return key in FREE or key.endswith(_FREE_ENDS)
