"""What becomes of every configuration field, by the class that declares it.

A field is read by a module, refused where it is set to another value than its default, or ignored
for a reason for which that is harmless. ``docs/en/configuration.md`` is written from this table.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Read(NamedTuple):
    """A module gives the field its effect.

    Attributes:
        module: Where the field is read.
        refused: Values that are legal in AReaL and not available here, with what to do instead.
    """

    module: str
    refused: tuple[tuple[Any, str], ...] = ()


class Refused(NamedTuple):
    """A value other than the default raises, as it would change the run and cannot.

    Attributes:
        instead: Why, and what to do.
        accepted: Values beside the default that ask for nothing else.
    """

    instead: str
    accepted: tuple[Any, ...] = ()


class Ignored(NamedTuple):
    """The field has no effect, and a run without it is the one that was asked for."""

    reason: str


Entry = Read | Refused | Ignored

_ACTIVATIONS = Read("areal.engine.model.archon")
_ADVANTAGES = Read("areal.trainer.advantages")
_AGENTS = Read("areal.experimental.openai.proxy.proxy_gateway")
_BASE = Read("areal.trainer.base")
_CRITIC = Read("areal.trainer.ppo.critic")
_DECODER = Read("areal.engine.local.decoder")
_DPO = Read("areal.trainer.dpo")
_EXECUTOR = Read("areal.infra.workflow_executor")
_LOCAL_ENGINE = Read("areal.engine.local.engine")
_MICRO_BATCHES = Read("areal.utils.data.microbatch")
_MODEL_MADE = Read("areal.engine.loading.huggingface")
_NORM = Read("areal.utils.data.normalization")
_OPTIMIZER = Read("areal.engine.training.optimizer")
_PIPELINE = Read("areal.experimental.models.archon.pipeline_parallel")
_POLICY_LOSS = Read("areal.trainer.ppo.policy_loss")
_PPO = Read("areal.trainer.ppo.trainer")
_REJECTION = Read("areal.utils.functional.rejection")
_REMOTE_ENGINE = Read("areal.infra.remote_inf_engine")
_ROWS = Read("areal.dataset.rows")
_RUNTIME = Read("areal.trainer.runtime")
_SAMPLING = Read("areal.engine.local.sampling")
_TIMER = Read("areal.utils.timeutil")
_TRACER = Read("areal.utils.perf_tracer")
_TRACKERS = Read("areal.trainer.report.trackers")
_TRAIN_ENGINE = Read("areal.engine.training.engine")
_WARMUP = Read("areal.utils.lr_scheduler")

_NO_TEACHER = Refused("there is no distillation; leave teacher null")

_STRATEGY = Ignored("for controllers; `areal train` places servers and ranks itself")
_LAUNCHING = Read("areal.trainer.launching")
_SCHEDULER = Read("areal.infra.scheduler.base")
_SLURM = Read("areal.infra.scheduler.slurm")
_LORA = Read("areal.engine.loading.lora")
_NAMES = Ignored("a run has one name and one folder: experiment_name, trial_name, cluster.fileroot")
_NO_LOOKUP = Ignored("addresses are passed on, or written to the run's folder")
_NO_RPC = Ignored("for worker processes called over HTTP; there are none")
_NO_SCALING = Ignored("for Megatron's float16 engine; no loss is scaled here")
_SCHEDULER_SERVICE = Ignored("for services that are not used")
_SERVER = Ignored("a server keeps the options that it was started with")

FIELD_TABLE: dict[str, dict[str, Entry]] = {
    "BaseExperimentConfig": {
        "experiment_name": _RUNTIME,
        "trial_name": _RUNTIME,
        "cluster": _RUNTIME,
        "allocation_mode": Refused("set rollout.backend and actor.backend instead"),
        "seed": _BASE,
        "enable_offload": Ignored("saves memory; models stay on their devices"),
        "total_train_epochs": _BASE,
        "total_train_steps": _BASE,
        "total_train_n_seqs": _BASE,
        "tokenizer_path": _RUNTIME,
        "train_dataset": _BASE,
        "valid_dataset": Read("areal.trainer.run"),
        "saver": _BASE,
        "evaluator": _BASE,
        "stats_logger": _TRACKERS,
        "perf_tracer": _BASE,
        "memory_profiler": Ignored("only records memory"),
        "recover": _BASE,
        "sglang": _SERVER,
        "vllm": _SERVER,
        "scheduler": _LAUNCHING,
        "post_exit_hook": Refused("no hook runs after a run; run it after `areal train`"),
        "run": _RUNTIME,
    },
    "SFTConfig": {"actor": _BASE},
    "RWConfig": {"actor": _BASE},
    "DPOConfig": {"actor": _BASE, "ref": _DPO},
    "PPOConfig": {
        "gconfig": _PPO,
        "eval_gconfig": _PPO,
        "rollout": _PPO,
        "actor": _PPO,
        "ref": _PPO,
        "critic": _PPO,
        "teacher": _NO_TEACHER,
        "dynamic_bs": _PPO,
    },
    "GRPOConfig": {},
    "RunConfig": {
        "algorithm": Read("areal.api.config.load"),
        "workflow": _PPO,
        "workflow_kwargs": _PPO,
        "eval_workflow": _PPO,
        "eval_workflow_kwargs": _PPO,
        "reward_fn": _PPO,
        "dynamic_filter": _PPO,
        "agent_host": _PPO,
        "model": _RUNTIME,
        "loss_aggregation": _POLICY_LOSS,
        "loss_norm_length": _POLICY_LOSS,
        "kl_placement": _POLICY_LOSS,
        "stop_at_reward": _PPO,
        "stop_at_accuracy": Read("areal.trainer.pairs"),
        "max_token_age": _EXECUTOR,
    },
    "ModelSpecConfig": {
        "architecture": _MODEL_MADE,
        "hidden_size": _MODEL_MADE,
        "intermediate_size": _MODEL_MADE,
        "num_hidden_layers": _MODEL_MADE,
        "num_attention_heads": _MODEL_MADE,
        "num_key_value_heads": _MODEL_MADE,
        "head_dim": _MODEL_MADE,
        "max_position_embeddings": _MODEL_MADE,
        "tie_word_embeddings": _MODEL_MADE,
        "characters": _RUNTIME,
        "seed": _MODEL_MADE,
        "vision": _RUNTIME,
    },
    "VisionSpecConfig": {
        "hidden_size": _MODEL_MADE,
        "num_hidden_layers": _MODEL_MADE,
        "num_attention_heads": _MODEL_MADE,
        "patch_size": _MODEL_MADE,
        "merge_size": _MODEL_MADE,
        "max_pixels": _RUNTIME,
    },
    "_DatasetConfig": {
        "split": Read("areal.dataset"),
        "path": Read("areal.dataset"),
        "type": Read("areal.dataset"),
        "batch_size": Read("areal.utils.dataloader"),
        "shuffle": Read("areal.utils.dataloader"),
        "pin_memory": Read("areal.utils.dataloader"),
        "num_workers": Read("areal.utils.dataloader"),
        "num_dataset_workers": Ignored("for AReaL's data service; rows are read in the trainer"),
        "drop_last": Read("areal.utils.dataloader"),
        "max_length": Read("areal.dataset"),
        "dataset_kwargs": Read("areal.dataset"),
        "scheduling_spec": Ignored("for AReaL's data service; rows are read in the trainer"),
        "setup_timeout": Ignored("for AReaL's data service; rows are read in the trainer"),
    },
    "TrainDatasetConfig": {},
    "ValidDatasetConfig": {
        "split": Read("areal.dataset"),
        "shuffle": Read("areal.utils.dataloader"),
        "drop_last": Read("areal.utils.dataloader"),
    },
    "_Timer": {
        "experiment_name": _NAMES,
        "trial_name": _NAMES,
        "fileroot": _NAMES,
        "freq_epochs": _TIMER,
        "freq_steps": _TIMER,
        "freq_secs": _TIMER,
    },
    "EvaluatorConfig": {"eval_before_train": _BASE},
    "SaverConfig": {"mode": _BASE},
    "RecoverConfig": {
        "mode": Read("areal.api.config.timers"),
        "retries": Read("areal.trainer.launching"),
        "no_save_optim": _BASE,
        "no_load_optim": _BASE,
    },
    "StatsLoggerConfig": {
        "experiment_name": _NAMES,
        "trial_name": _NAMES,
        "fileroot": _NAMES,
        "wandb": _TRACKERS,
        "swanlab": _TRACKERS,
        "tensorboard": _TRACKERS,
        "trackio": _TRACKERS,
    },
    "WandBConfig": {
        "mode": _TRACKERS,
        "wandb_base_url": _TRACKERS,
        "wandb_api_key": _TRACKERS,
        "entity": _TRACKERS,
        "project": _TRACKERS,
        "name": _TRACKERS,
        "job_type": _TRACKERS,
        "group": _TRACKERS,
        "notes": _TRACKERS,
        "tags": _TRACKERS,
        "config": _TRACKERS,
        "id_suffix": _TRACKERS,
    },
    "SwanlabConfig": {
        "project": _TRACKERS,
        "name": _TRACKERS,
        "config": _TRACKERS,
        "logdir": _TRACKERS,
        "mode": _TRACKERS,
        "api_key": _TRACKERS,
    },
    "TensorBoardConfig": {"path": _TRACKERS},
    "TrackioConfig": {
        "mode": _TRACKERS,
        "project": _TRACKERS,
        "name": _TRACKERS,
        "space_id": _TRACKERS,
    },
    "PerfTracerConfig": {
        "experiment_name": _TRACER,
        "trial_name": _TRACER,
        "fileroot": _TRACER,
        "enabled": _TRACER,
        "save_interval": _TRACER,
        "profile_steps": _TRACER,
        "session_tracer": _TRACER,
    },
    "SessionTracerConfig": {"enabled": _TRACER, "flush_threshold": _TRACER},
    "MemoryProfilerConfig": {
        "profile_steps": Ignored("only records memory"),
        "max_entries": Ignored("only records memory"),
    },
    "ClusterSpecConfig": {
        "name_resolve": _NO_LOOKUP,
        "cluster_name": Ignored("only a label"),
        "fileroot": _RUNTIME,
        "n_nodes": Refused(
            "a run has one machine unless scheduler.type is ray or slurm; set it to 1"
        ),
        "n_gpus_per_node": _LAUNCHING,
    },
    "NameResolveConfig": {
        "type": _NO_LOOKUP,
        "nfs_record_root": _NO_LOOKUP,
        "etcd3_addr": _NO_LOOKUP,
        "ray_actor_name": _NO_LOOKUP,
    },
    "SchedulerConfig": {
        "type": _LAUNCHING,
        "endpoint": _SCHEDULER_SERVICE,
        "deploy_mode": _SCHEDULER_SERVICE,
        "functioncall_service_domain": _SCHEDULER_SERVICE,
        "reward_functioncall_config": _SCHEDULER_SERVICE,
        "reward_model_path": Refused("no service scores answers; set run.reward_fn"),
        "reward_model_service_url": _SCHEDULER_SERVICE,
    },
    "SchedulingSpec": {
        "cpu": Read("areal.infra.cluster_launch"),
        "gpu": Read("areal.infra.cluster_launch"),
        "mem": Read("areal.infra.cluster_launch"),
        "port_count": _SCHEDULER,
        "image": _SLURM,
        "task_type": Ignored("only a label"),
        "env_vars": _SCHEDULER,
        "cmd": _SCHEDULER,
        "srun_additional_args": _SLURM,
        "additional_bash_cmds": _SLURM,
        "container_type": _SLURM,
        "mount": _SLURM,
        "nodelist": _SLURM,
        "reservation": _SLURM,
        "exclusive": _SLURM,
        "exclude": _SLURM,
        "ray_placement_strategy": Ignored("workers are packed onto as few nodes as possible"),
    },
    "SchedulingStrategy": {"type": _STRATEGY, "target": _STRATEGY, "fork": _STRATEGY},
    "TrainEngineConfig": {
        "experiment_name": _NAMES,
        "trial_name": _NAMES,
        "path": _RUNTIME,
        "attn_impl": Ignored("kernels are chosen by device; all compute the same attention"),
        "use_kernels": Ignored("kernels are chosen by device; all compute the same model"),
        "init_from_scratch": _RUNTIME,
        "is_critic": _TRAIN_ENGINE,
        "temperature": _TRAIN_ENGINE,
        "logprobs_chunk_size": _TRAIN_ENGINE,
        "mb_spec": _TRAIN_ENGINE,
        "pad_to_maximum": Ignored("padding carries no loss; batches are packed"),
        "disable_dropout": _TRAIN_ENGINE,
        "gradient_checkpointing": _TRAIN_ENGINE,
        "dtype": _RUNTIME,
        "grad_reduce_dtype": _TRAIN_ENGINE,
        "optimizer_dtype": Refused("weights and optimiser state have actor.dtype; leave it out"),
        "optimizer": _TRAIN_ENGINE,
        "weight_update_mode": Read(
            "areal.trainer.ppo.trainer", (("awex", "use disk, http or xccl"),)
        ),
        "enable_delta_weight_update": Ignored("only shortens transfers; all weights are sent"),
        "weight_update_delta_method": Ignored("only shortens transfers; all weights are sent"),
        "weight_update_anchor_interval": Ignored("only shortens transfers; all weights are sent"),
        "fsdp": _TRAIN_ENGINE,
        "archon": Read("areal.engine.training.archon"),
        "megatron": Refused("there is no Megatron engine; use archon or fsdp"),
        "offload": Ignored("saves memory; models stay on their devices"),
        "use_lora": _TRAIN_ENGINE,
        "lora_rank": _LORA,
        "lora_alpha": _LORA,
        "target_modules": _LORA,
        "peft_type": Read("areal.engine.training.backends"),
        "enable_tree_training": Refused("there is no tree attention; set it to false"),
        "scheduling_spec": _LAUNCHING,
        "backend": _RUNTIME,
        "_version": Refused("v1 is the only version"),
        "admin_api_key": _NO_RPC,
        "log_level": _NO_RPC,
        "request_timeout": _NO_RPC,
        "setup_timeout": _NO_RPC,
        "workers_ready_timeout": _NO_RPC,
        "scheduling_strategy": _STRATEGY,
    },
    "FSDPEngineConfig": {
        "wrap_policy": Refused("every decoder layer is wrapped separately; leave it null"),
        "offload_params": _TRAIN_ENGINE,
        "memory_efficient_load": Ignored("saves memory while a model is loaded"),
        "per_layer_optim_step": Ignored("saves memory in a step, whose result is the same"),
        "optim_step_prefetch_layers": Ignored("for per_layer_optim_step"),
        "shard_vision_across_sp": Ignored("saves memory in a step, whose result is the same"),
    },
    "ArchonEngineConfig": {
        "attn_type": Read(
            "areal.engine.loading.archon", (("tree", "there is no tree attention; use varlen"),)
        ),
        "offload_params": Read("areal.engine.training.archon"),
        "enable_compile": _ACTIVATIONS,
        "ac_mode": _ACTIVATIONS,
        "selective_ac_option": _ACTIVATIONS,
        "ac_memory_budget": _ACTIVATIONS,
        "ac_preserve_rng_state": _ACTIVATIONS,
        "ac_debug": _ACTIVATIONS,
        "pp_schedule": Read("areal.engine.model.pipeline"),
        "pp_layers_per_stage": _PIPELINE,
        "pp_first_stage_less_layers": _PIPELINE,
        "pp_last_stage_less_layers": _PIPELINE,
        "reshard_after_forward_policy": _ACTIVATIONS,
        "fp8_config": Refused("there is no training in 8-bit floating point; leave it null"),
        "use_deterministic_algorithms": Read("areal.engine.training.archon"),
        "moe_router_dtype": Read("areal.engine.loading.archon"),
    },
    "MicroBatchSpec": {
        "n_mbs": _MICRO_BATCHES,
        "granularity": _MICRO_BATCHES,
        "max_tokens_per_mb": _MICRO_BATCHES,
        "n_mbs_divisor": _MICRO_BATCHES,
        "packing_algorithm": _MICRO_BATCHES,
    },
    "OptimizerConfig": {
        "type": Read("areal.engine.training.optimizer", (("adam_bf16", "use adam or sgd"),)),
        "lr": _OPTIMIZER,
        "weight_decay": _OPTIMIZER,
        "beta1": _OPTIMIZER,
        "beta2": _OPTIMIZER,
        "eps": _OPTIMIZER,
        "min_lr_ratio": _OPTIMIZER,
        "lr_scheduler_type": _OPTIMIZER,
        "warmup_steps_proportion": _WARMUP,
        "warmup_steps": _WARMUP,
        "initial_loss_scale": _NO_SCALING,
        "min_loss_scale": _NO_SCALING,
        "loss_scale_window": _NO_SCALING,
        "hysteresis": _NO_SCALING,
        "gradient_clipping": _TRAIN_ENGINE,
    },
    "PPOActorConfig": {
        "ppo_n_minibatches": _PPO,
        "eps_clip": _POLICY_LOSS,
        "eps_clip_higher": _POLICY_LOSS,
        "c_clip": _POLICY_LOSS,
        "m2_threshold": _POLICY_LOSS,
        "reward_norm": _ADVANTAGES,
        "reward_scaling": _ADVANTAGES,
        "reward_bias": _ADVANTAGES,
        "reward_clip": _ADVANTAGES,
        "overlong_reward_penalty": _ADVANTAGES,
        "overlong_tokens": _ADVANTAGES,
        "overlong_penalty_factor": _ADVANTAGES,
        "mask_no_eos_with_zero": _ADVANTAGES,
        "discount": _ADVANTAGES,
        "gae_lambda": _ADVANTAGES,
        "gae_lambda_kwargs": _ADVANTAGES,
        "gae_timestep_unit": _ADVANTAGES,
        "adv_norm": _ADVANTAGES,
        "kl_ctl": _ADVANTAGES,
        "kl_estimator": _ADVANTAGES,
        "use_sapo_loss": _POLICY_LOSS,
        "sapo_tau_pos": _POLICY_LOSS,
        "sapo_tau_neg": _POLICY_LOSS,
        "use_cispo_loss": _POLICY_LOSS,
        "recompute_logprob": _POLICY_LOSS,
        "use_decoupled_loss": _POLICY_LOSS,
        "rejection_sampling": _POLICY_LOSS,
        "importance_sampling_level": _POLICY_LOSS,
        "prox_logp_method": _POLICY_LOSS,
        "log_agent_stats": Ignored("statistics only; workflows record numbers with stats_tracker"),
        "log_agent_stats_keys": Ignored("for log_agent_stats"),
        "max_new_tokens": _ADVANTAGES,
    },
    "NormConfig": {
        "mean_level": _NORM,
        "mean_leave1out": _NORM,
        "std_level": _NORM,
        "std_unbiased": _NORM,
        "eps": _NORM,
        "group_size": _NORM,
    },
    "RejectionSamplingConfig": {
        "level": _REJECTION,
        "action": _REJECTION,
        "metric": _REJECTION,
        "agg": _REJECTION,
        "upper": _REJECTION,
        "lower": _REJECTION,
    },
    "PPOCriticConfig": {
        "is_critic": Read("areal.trainer.ppo.checks"),
        "ppo_n_minibatches": _CRITIC,
        "eps_clip": _CRITIC,
        "mask_no_eos_with_zero": Ignored(
            "rewards are computed once, for actor and critic: actor.mask_no_eos_with_zero"
        ),
    },
    "TeacherConfig": {
        "engine_type": _NO_TEACHER,
        "rollout": _NO_TEACHER,
        "train": _NO_TEACHER,
        "path": _NO_TEACHER,
        "offload": _NO_TEACHER,
        "rl_loss_weight": _NO_TEACHER,
        "distill_loss_weight": _NO_TEACHER,
    },
    "DPOEngineConfig": {"beta": _DPO, "loss_type": _DPO},
    "GenerationHyperparameters": {
        "n_samples": _PPO,
        "max_new_tokens": _LOCAL_ENGINE,
        "min_new_tokens": _DECODER,
        "max_tokens": _LOCAL_ENGINE,
        "greedy": _SAMPLING,
        "top_p": _SAMPLING,
        "top_k": _SAMPLING,
        "temperature": _SAMPLING,
        "stop_token_ids": _DECODER,
        "ignore_eos": _DECODER,
        "skip_special_tokens": Read("areal.engine.sglang_remote"),
        "stop": _DECODER,
        "frequency_penalty": _SAMPLING,
        "seed": _LOCAL_ENGINE,
        "lora_name": _PPO,
        "use_beam_search": _SAMPLING,
        "reward_normalization": _PPO,
        "drop_incomplete_group": _PPO,
    },
    "InferenceEngineConfig": {
        "experiment_name": _NAMES,
        "trial_name": _NAMES,
        "fileroot": _NAMES,
        "max_concurrent_rollouts": _EXECUTOR,
        "queue_size": _EXECUTOR,
        "consumer_batch_size": _EXECUTOR,
        "max_head_offpolicyness": _EXECUTOR,
        "enable_rollout_tracing": _EXECUTOR,
        "deterministic_sampling": _EXECUTOR,
        "serialize_group_samples": _EXECUTOR,
        "check_trajectory_format": _EXECUTOR,
        "tokenizer_path": Ignored("engines take token ids; the tokenizer is the run's"),
        "dump_to_file": Ignored("the report keeps episodes of every step"),
        "setup_timeout": _REMOTE_ENGINE,
        "workers_ready_timeout": _NO_RPC,
        "request_timeout": _REMOTE_ENGINE,
        "request_retries": _REMOTE_ENGINE,
        "pause_grace_period": _REMOTE_ENGINE,
        "scheduling_spec": _LAUNCHING,
        "backend": _RUNTIME,
        "scheduling_strategy": _STRATEGY,
        "use_lora": _PPO,
        "lora_name": Ignored("servers know the adapter by gconfig.lora_name"),
        "agent": _PPO,
        "return_routed_experts": Refused("routing is not replayed in training; set it to false"),
        "_version": Refused("v1 is the only version"),
        "model": Ignored("servers get token ids, whatever their model is called"),
        "routing_strategy": Ignored("requests go to the server with the fewest tokens to generate"),
        "poll_interval": _REMOTE_ENGINE,
        "admin_api_key": _NO_RPC,
        "api_url": Refused("rollouts come from the trained model; set rollout.backend"),
        "provider_api_key": Read("areal.engine.remote"),
    },
    "AgentConfig": {
        "agent_cls_path": Refused("name the agent in run.workflow", accepted=("",)),
        "admin_api_key": _AGENTS,
        "scheduling_spec": Ignored("agents run in the first process"),
        "mode": _AGENTS,
        "tool_call_parser": _AGENTS,
        "reasoning_parser": _AGENTS,
        "chat_template_type": _AGENTS,
        "engine_max_tokens": _AGENTS,
        "turn_discount": _AGENTS,
        "export_style": _AGENTS,
        "message_preprocessors": Refused("messages reach the model as they are; leave it out"),
        "prefix_matcher": Refused("prefixes are matched by tokens; leave it out"),
        "subproc_max_workers": _AGENTS,
        "drop_retry_orphans": _AGENTS,
        "session_timeout_seconds": _AGENTS,
        "set_reward_finish_timeout": Refused("an episode ends with its reward; leave it out"),
    },
    "SGLangConfig": dict.fromkeys(
        (
            "model_path",
            "random_seed",
            "skip_tokenizer_init",
            "disable_cuda_graph",
            "disable_radix_cache",
            "disable_cuda_graph_padding",
            "enable_nccl_nvls",
            "disable_outlines_disk_cache",
            "disable_custom_all_reduce",
            "disable_overlap_schedule",
            "enable_mixed_chunk",
            "enable_dp_attention",
            "enable_ep_moe",
            "enable_torch_compile",
            "torch_compile_max_bs",
            "cuda_graph_max_bs",
            "cuda_graph_bs",
            "torchao_config",
            "enable_nan_detection",
            "enable_p2p_check",
            "triton_attention_reduce_in_fp32",
            "triton_attention_num_kv_splits",
            "num_continuous_decode_steps",
            "load_format",
            "enable_memory_saver",
            "allow_auto_truncate",
            "attention_backend",
            "enable_deterministic_inference",
            "enable_multimodal",
            "sampling_backend",
            "context_length",
            "mem_fraction_static",
            "max_running_requests",
            "chunked_prefill_size",
            "max_prefill_tokens",
            "schedule_policy",
            "schedule_conservativeness",
            "cpu_offload_gb",
            "dtype",
            "kv_cache_dtype",
            "dp_size",
            "ep_size",
            "enable_lora",
            "max_lora_rank",
            "max_loaded_loras",
            "lora_paths",
            "lora_backend",
            "log_level",
            "log_level_http",
            "log_requests",
            "log_requests_level",
            "show_time_cost",
            "enable_metrics",
            "decode_log_interval",
            "enable_multithread_load",
            "enable_return_routed_experts",
        ),
        _SERVER,
    ),
    "vLLMConfig": dict.fromkeys(
        (
            "model",
            "seed",
            "skip_tokenizer_init",
            "enforce_eager",
            "dtype",
            "distributed_executor_backend",
            "max_num_seqs",
            "block_size",
            "cpu_offload_gb",
            "disable_sliding_window",
            "max_model_len",
            "no_enable_chunked_prefill",
            "no_enable_prefix_caching",
            "gpu_memory_utilization",
            "worker_extension_cls",
            "enable_sleep_mode",
            "uvicorn_log_level",
            "gdn_prefill_backend",
            "enable_lora",
            "max_lora_rank",
            "max_loras",
            "lora_modules",
        ),
        _SERVER,
    ),
}
