"""From a Trinity-RFT YAML to a configuration of ours, with a word on every key."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from areal.api.errors import ConfigError
from areal.trainer.base import DEFAULT_RECOVER_SECONDS
from areal.trainer.trinity.algorithms import (
    ADVANTAGE_ARGUMENTS,
    AGGREGATIONS,
    ANY,
    DEFAULT_KL_COEF,
    KL_ESTIMATORS,
    LOSS_ARGUMENTS,
    NEUTRAL_ADVANTAGE_ARGUMENTS,
    NEUTRAL_LOSS_ARGUMENTS,
    Algorithm,
    find_algorithm,
)
from areal.trainer.trinity.keys import FORMAT, MAPPED
from areal.trainer.trinity.reading import Decision, Reader

WORKFLOW = "areal.experimental.trinity.TrinityWorkflow"
_LOADER = "areal.trainer.trinity.taskset.get_taskset_{}_dataset"
_TASKSET = "buffer.explorer_input.taskset"
_PAIRS_AND_ANSWERS = ("sft", "dpo")
_IMAGE_KEYS = ("image_key", "video_key")
# Of the format, what a workflow reads; the others say how rows of SFT and DPO are read.
_WORKFLOW_FORMAT = [k for k in FORMAT if FORMAT[k].use == MAPPED and k not in _IMAGE_KEYS]


@dataclass
class Translation:
    """A configuration of ours and how it came about."""

    config: dict[str, Any]
    decisions: list[Decision]


def translate(content: Mapping[str, Any], plugin_dir: str | None = None) -> Translation:
    """Return our configuration of a run that a Trinity-RFT YAML describes.

    Raises:
        ConfigError: A key is unknown, or asks for what would be another algorithm here; the message
            names all of them.
    """
    reader = Reader(content)
    reader.check()
    config = _Translator(reader, plugin_dir).config()
    return Translation(config, reader.decisions())


@dataclass
class _Translator:
    """Puts our configuration together."""

    reader: Reader
    plugin_dir: str | None
    made: dict[str, Any] = field(default_factory=dict)

    def config(self) -> dict[str, Any]:
        """Return the configuration as our YAML has it."""
        get = self.reader.get
        name = get("algorithm.algorithm_type", "ppo")
        algorithm = find_algorithm(name)
        self._check_mode(get("mode", "both"), name)
        self._names()
        self._lengths_of_run()
        self._optimizer()
        self._set("run.algorithm", algorithm.preset)
        self._set("actor.path", _needed(get("model.model_path"), "model.model_path"))
        self._set("tokenizer_path", get("buffer.tokenizer_path"))
        self._set("actor.mb_spec.max_tokens_per_mb", get("trainer.max_token_len_per_gpu"))
        if name in _PAIRS_AND_ANSWERS:
            self._given_rows(name, algorithm)
        else:
            self._policy(algorithm)
        return self.made

    def _set(self, key: str, value: Any) -> None:
        """Set one of our keys; None leaves it open."""
        if value is None:
            return
        place = self.made
        *path, last = key.split(".")
        for part in path:
            place = place.setdefault(part, {})
        place[last] = value

    def _check_mode(self, mode: str, algorithm: str) -> None:
        known = ("both", "train") if algorithm in _PAIRS_AND_ANSWERS else ("both",)
        if mode not in known:
            hints = {
                "explore": "rollouts without training are `areal eval`",
                "bench": "an evaluation is `areal eval`",
                "serve": "a server is `areal serve`",
                "train": "rollouts and updates are one run here; set mode: both",
            }
            raise ConfigError(f"mode is {mode!r}: {hints.get(mode, f'known: {known}')}")

    def _names(self) -> None:
        get = self.reader.get
        self._set("experiment_name", get("project", "Trinity-RFT"))
        self._set("trial_name", get("name", "rft"))
        root = get("checkpoint_root_dir") or os.environ.get("TRINITY_CHECKPOINT_ROOT_DIR")
        self._set("cluster.fileroot", root or "checkpoints")
        resumes = get("continue_from_checkpoint", True)
        self._set("recover.mode", "auto" if resumes else "disabled")

    def _lengths_of_run(self) -> None:
        get = self.reader.get
        steps = get("buffer.total_steps") or get("trainer.total_steps")
        self._set("total_train_steps", steps)
        # Steps count where both are set, and epochs must not end the run before.
        self._set("total_train_epochs", 10**6 if steps else get("buffer.total_epochs", 1))
        if every := get("trainer.save_interval"):
            self._set("saver.freq_steps", every)
            self._set("recover.freq_steps", every)
            # The steps alone would turn the default off, and so many steps may take a day.
            self._set("recover.freq_secs", DEFAULT_RECOVER_SECONDS)

    def _optimizer(self) -> None:
        get = self.reader.get
        key = "algorithm.optimizer"
        kind = get(f"{key}.optimizer_type", "adam")
        if kind not in ("adam", "adamw", "sgd"):
            raise ConfigError(f"{key}.optimizer_type is {kind!r}: areal has adam and sgd")
        self._set("actor.optimizer.type", "sgd" if kind == "sgd" else "adam")
        self._set("actor.optimizer.lr", get(f"{key}.lr", 1e-6))
        steps = get(f"{key}.lr_warmup_steps", -1)
        ratio = get(f"{key}.lr_warmup_steps_ratio", 0.0)
        if steps is not None and steps >= 0:
            self._set("actor.optimizer.warmup_steps", steps)
        else:
            self._set("actor.optimizer.warmup_steps_proportion", ratio)
        schedule = get(f"{key}.warmup_style") or get(f"{key}.lr_scheduler_type", "constant")
        self._set("actor.optimizer.lr_scheduler_type", schedule)
        self._set("actor.optimizer.min_lr_ratio", get(f"{key}.min_lr_ratio", 0.01))
        betas = get(f"{key}.betas", [0.9, 0.999])
        if len(betas) != 2:
            raise ConfigError(f"{key}.betas is {betas}, expected two numbers")
        self._set("actor.optimizer.beta1", betas[0])
        self._set("actor.optimizer.beta2", betas[1])
        self._set("actor.optimizer.weight_decay", get(f"{key}.weight_decay", 0.01))
        clip = get("trainer.grad_clip", 1.0)
        self._set("actor.optimizer.gradient_clipping", get(f"{key}.clip_grad", clip))

    # --- SFT and DPO

    def _given_rows(self, kind: str, algorithm: Algorithm) -> None:
        get = self.reader.get
        self._loss_args(algorithm)
        default = "none" if kind == "sft" else algorithm.kl_loss_fn
        if get("algorithm.kl_loss_fn", default) != "none":
            raise ConfigError(
                f"algorithm.kl_loss_fn: {kind} has no penalty beside its own loss; set it to none"
            )
        if kind == "dpo":
            self._set("ref.path", get("model.model_path"))
        key = "buffer.trainer_input.experience_buffer"
        store = self.reader.part(key)
        self._rows("train_dataset", store, key, kind)
        size = get("buffer.train_batch_size") or get("buffer.batch_size", 1)
        self._set("train_dataset.batch_size", size)
        row_format = {
            name: store.get(f"format.{name}") for name in FORMAT if name not in _IMAGE_KEYS
        }
        kept = {name: value for name, value in row_format.items() if value is not None}
        self._set("train_dataset.dataset_kwargs.format_args", kept)
        self._set("tokenizer_path", store.get("tokenizer_path"))

    def _rows(self, section: str, store: Reader, key: str, kind: str) -> None:
        self._set(f"{section}.path", _needed(store.get("path"), f"{key}.path"))
        self._set(f"{section}.type", kind)
        self._set(f"{section}.split", store.get("split", "train"))
        self._set(f"{section}.dataset_kwargs.name", _LOADER.format(kind))
        self._set(f"{section}.dataset_kwargs.subset_name", store.get("subset_name"))
        chosen = "sequential"
        for selector in ("data_selector", "task_selector"):
            chosen = store.get(f"{selector}.selector_type") or chosen
        if chosen not in ("sequential", "shuffle", "random"):
            raise ConfigError(
                f"{key}: rows come in their order or shuffled here, and selector_type is "
                f"{chosen!r}; set sequential or random"
            )
        if section == "train_dataset":
            self._set("train_dataset.shuffle", chosen != "sequential")
            self._set("seed", store.get("data_selector.seed"))

    # --- policy optimisation

    def _policy(self, algorithm: Algorithm) -> None:
        self._loss_args(algorithm)
        self._advantage(algorithm)
        self._kl(algorithm)
        for key, value in algorithm.overrides.items():
            self._set(key, value)
        get = self.reader.get
        bypasses = get("algorithm.bypass_old_logprobs", True)
        self._set("actor.recompute_logprob", not bypasses)
        # One optimiser step for each batch, as long as train_batch_size is the batch.
        self._set("actor.ppo_n_minibatches", 1)
        if algorithm.preset == "ppo":
            critic = get("model.critic_model_path") or get("model.model_path")
            self._set("critic.path", critic)
            self._set("critic.ppo_n_minibatches", 1)
        taskset, key = self._one_taskset()
        self._sampling(taskset, key)
        self._tasks(algorithm, taskset, key)
        self._evaluation()
        self._set("rollout.max_head_offpolicyness", get("synchronizer.sync_offset", 0))
        self._set("rollout.request_timeout", get("explorer.max_timeout", 1800))

    def _loss_args(self, algorithm: Algorithm) -> None:
        get = self.reader.get
        name = get("algorithm.policy_loss_fn") or algorithm.policy_loss_fn
        if name != algorithm.policy_loss_fn:
            raise ConfigError(
                f"algorithm.policy_loss_fn is {name!r}, and run.algorithm {algorithm.preset} has "
                f"{algorithm.policy_loss_fn}; choose the algorithm_type that has the loss"
            )
        args = {**algorithm.loss_args, **get("algorithm.policy_loss_fn_args", {})}
        aggregation = get("algorithm.loss_agg_mode")
        if aggregation is not None:
            args["loss_agg_mode"] = aggregation
        if "clip_range" in args:
            symmetric = args.pop("clip_range")
            args = {"clip_range_low": symmetric, "clip_range_high": symmetric, **args}
        where = "algorithm.policy_loss_fn_args"
        for name, value in args.items():
            if name == "loss_agg_mode":
                if value not in AGGREGATIONS:
                    known = ", ".join(AGGREGATIONS)
                    raise ConfigError(f"{where}.loss_agg_mode is {value!r}; areal has {known}")
                if algorithm.preset not in _PAIRS_AND_ANSWERS:
                    self._set("run.loss_aggregation", AGGREGATIONS[value])
            elif name in LOSS_ARGUMENTS:
                self._set(LOSS_ARGUMENTS[name], value)
            else:
                _check_neutral(where, name, value, NEUTRAL_LOSS_ARGUMENTS, LOSS_ARGUMENTS)

    def _advantage(self, algorithm: Algorithm) -> None:
        get = self.reader.get
        name = get("algorithm.advantage_fn") or algorithm.advantage_fn
        if name != algorithm.advantage_fn:
            raise ConfigError(
                f"algorithm.advantage_fn is {name!r}, and run.algorithm {algorithm.preset} has "
                f"{algorithm.advantage_fn}; choose the algorithm_type that has the advantage"
            )
        args = dict(get("algorithm.advantage_fn_args", {}))
        if name == "grpo":
            args = {"epsilon": 1e-6, **args}
        for key, value in args.items():
            if key in ADVANTAGE_ARGUMENTS:
                self._set(ADVANTAGE_ARGUMENTS[key], value)
            else:
                where = "algorithm.advantage_fn_args"
                _check_neutral(where, key, value, NEUTRAL_ADVANTAGE_ARGUMENTS, ADVANTAGE_ARGUMENTS)

    def _kl(self, algorithm: Algorithm) -> None:
        get = self.reader.get
        found = []
        for place, name in (("reward", "kl_penalty_fn"), ("loss", "kl_loss_fn")):
            default = algorithm.kl_loss_fn if place == "loss" else "none"
            kind = get(f"algorithm.{name}", default)
            args = get(f"algorithm.{name}_args", {})
            coef = args.get("kl_coef", DEFAULT_KL_COEF)
            if args.get("adaptive"):
                raise ConfigError(f"algorithm.{name}_args.adaptive: the weight is fixed here")
            if kind != "none" and coef:
                found.append((place, f"algorithm.{name}", kind, coef))
        if len(found) > 1:
            raise ConfigError(
                "algorithm.kl_penalty_fn and kl_loss_fn are both set, and areal has one penalty; "
                "set one of them to none"
            )
        self._set("actor.kl_ctl", 0.0)
        for place, key, kind, coef in found:
            if kind not in KL_ESTIMATORS:
                raise ConfigError(f"{key} is {kind!r}; areal has {', '.join(KL_ESTIMATORS)}, none")
            self._set("actor.kl_ctl", coef)
            self._set("actor.kl_estimator", KL_ESTIMATORS[kind])
            self._set("run.kl_placement", place)
            self._set("ref.path", get("model.model_path"))

    def _one_taskset(self) -> tuple[Reader, str]:
        several = self.reader.get("buffer.explorer_input.tasksets", [])
        if len(several) > 1:
            raise ConfigError(
                f"buffer.explorer_input.tasksets has {len(several)} entries, and a run here has "
                "one set of rows; join the files; format.workflow_key chooses workflows by row"
            )
        if several:
            key = "buffer.explorer_input.tasksets"
            return self.reader.part(key, 0), f"{key}[]"
        return self.reader.part(_TASKSET), _TASKSET

    def _sampling(self, taskset: Reader, key: str) -> None:
        get = self.reader.get
        model, rollout = "model", "explorer.rollout_model"

        def first(taskset_key: str, name: str, default: Any) -> Any:
            """Look a setting up where it counts most first."""
            of_taskset = taskset.get(taskset_key) if taskset_key else None
            if of_taskset is not None and (taskset_key, of_taskset) != ("rollout_args.top_k", -1):
                return of_taskset
            of_engine = get(f"{rollout}.{name}")
            return get(f"{model}.{name}", default) if of_engine is None else of_engine

        temperature = first("rollout_args.temperature", "temperature", 1.0)
        if not temperature:
            raise ConfigError(
                f"{key}.rollout_args.temperature is {temperature}: greedy answers are all alike "
                "and teach nothing; set it above 0"
            )
        self._set("gconfig.temperature", temperature)
        self._set("actor.temperature", temperature)
        self._set("gconfig.top_p", first("rollout_args.top_p", "top_p", 1.0))
        self._set("gconfig.top_k", first("rollout_args.top_k", "top_k", -1))
        answer = first("rollout_args.max_tokens", "max_response_tokens", None)
        prompt = first("", "max_prompt_tokens", None)
        if prompt is not None and prompt < 1:
            raise ConfigError(
                f"max_prompt_tokens is {prompt}; set it to 1 or more, or leave it out"
            )
        whole = first("", "max_model_len", None)
        if answer is None and whole is not None and prompt is not None:
            answer = whole - prompt
        self._set("gconfig.max_new_tokens", answer)
        if whole is None and None not in (prompt, answer):
            whole = prompt + answer
        self._set("gconfig.max_tokens", whole)
        self._set("gconfig.min_new_tokens", first("", "min_response_tokens", 0))
        seed = get(f"{rollout}.seed")
        self._set("seed", seed)

    def _tasks(self, algorithm: Algorithm, taskset: Reader, key: str) -> None:
        get = self.reader.get
        repeats = get("algorithm.repeat_times", algorithm.repeat_times)
        self._set("gconfig.n_samples", repeats)
        size = get("buffer.batch_size", 1)
        self._set("train_dataset.batch_size", size)
        rows = get("buffer.train_batch_size")
        if rows and rows != size * repeats:
            raise ConfigError(
                f"buffer.train_batch_size is {rows}, and a step here trains on what it rolled out: "
                f"batch_size {size} tasks x repeat_times {repeats} = {size * repeats} experiences; "
                "leave it out"
            )
        self._rows("train_dataset", taskset, key, "rl")
        self._set("run.workflow", WORKFLOW)
        kwargs = self._workflow_kwargs(taskset, key, "default_workflow_type")
        self._set("run.workflow_kwargs", kwargs)

    def _workflow_kwargs(self, taskset: Reader, key: str, *defaults: str) -> dict[str, Any]:
        get = self.reader.get
        kind = taskset.get("default_workflow_type")
        for name in defaults:
            kind = kind or get(f"buffer.explorer_input.{name}")
        needed = _needed(kind, f"{key}.default_workflow_type")
        reward = taskset.get("default_reward_fn_type")
        format_args = {name: taskset.get(f"format.{name}") for name in _WORKFLOW_FORMAT}
        format_args["chat_template"] = format_args["chat_template"] or self._chat_template()
        if format_args["enable_thinking"] is None:
            thinking = get("explorer.rollout_model.enable_thinking")
            format_args["enable_thinking"] = thinking or get("model.enable_thinking")
        kwargs = {
            "workflow_type": needed,
            "format_args": {k: v for k, v in format_args.items() if v is not None},
            "workflow_args": taskset.get("workflow_args", {}),
            "reward_fn_type": reward or get("buffer.explorer_input.default_reward_fn_type"),
            "reward_fn_args": taskset.get("reward_fn_args", {}),
            "auxiliary_models": self._auxiliary_models(),
            "plugin_dir": self.plugin_dir,
            "model_path": get("model.model_path"),
        }
        return {name: value for name, value in kwargs.items() if value not in (None, {}, [])}

    def _chat_template(self) -> str | None:
        get = self.reader.get
        template = get("explorer.rollout_model.chat_template") or get("model.custom_chat_template")
        file = get("model.chat_template_path")
        if template is None and file is not None:
            try:
                return Path(file).read_text()
            except OSError as error:
                raise ConfigError(f"model.chat_template_path: {error}") from error
        return template

    def _auxiliary_models(self) -> list[dict[str, Any]]:
        key = "explorer.auxiliary_models"
        found = []
        for index in range(len(self.reader.get(key, []))):
            entry = self.reader.part(key, index)
            address = "external_model_config"
            if entry.get("engine_type") != "external":
                raise ConfigError(
                    f"{key}[{index}]: auxiliary models are servers here; start one, and set "
                    "engine_type: external and external_model_config"
                )
            variable = entry.get(f"{address}.base_url_env", "OPENAI_BASE_URL")
            url = os.environ.get(variable)
            if not url:
                raise ConfigError(f"{key}[{index}]: set {variable} to the address of its server")
            # The package wants the address without the path of the API, and adds that.
            url = f"{url.rstrip('/').removesuffix('/v1')}/v1"
            model = entry.get(f"{address}.model_name") or entry.get("model_path")
            secret = os.environ.get(entry.get(f"{address}.api_key_env", "OPENAI_API_KEY"))
            made = {"base_url": url, "model": _needed(model, f"{key}[{index}].model_path")}
            found.append({**made, **({"api_key": secret} if secret else {})})
        return found

    def _evaluation(self) -> None:
        get = self.reader.get
        key = "buffer.explorer_input.eval_tasksets"
        several = get(key, [])
        if len(several) > 1:
            raise ConfigError(
                f"{key} has {len(several)} entries, and a run here evaluates one; the others are "
                "for `areal eval`"
            )
        if not several:
            return
        taskset = self.reader.part(key, 0)
        self._rows("valid_dataset", taskset, f"{key}[]", "rl")
        self._set("valid_dataset.batch_size", 1)
        names = ("default_eval_workflow_type", "default_workflow_type")
        kwargs = self._workflow_kwargs(taskset, f"{key}[]", *names)
        self._set("run.eval_workflow_kwargs", kwargs)
        sampling = dict(self.made["gconfig"])
        temperature = taskset.get("rollout_args.temperature")
        if temperature is not None:
            sampling |= {"greedy": temperature == 0, "temperature": temperature or 1.0}
        for name, ours in (
            ("top_p", "top_p"),
            ("top_k", "top_k"),
            ("max_tokens", "max_new_tokens"),
        ):
            value = taskset.get(f"rollout_args.{name}")
            if value is not None:
                sampling[ours] = value
        sampling["n_samples"] = taskset.get("repeat_times", 1)
        self._set("eval_gconfig", sampling)
        self._set("evaluator.freq_steps", get("explorer.eval_interval", 100))
        self._set("evaluator.eval_before_train", get("explorer.eval_on_startup", True))


def _needed(value: Any, key: str) -> Any:
    if not value:
        raise ConfigError(f"{key} is missing")
    return value


def _check_neutral(
    where: str, name: str, value: Any, neutral: Mapping[str, Any], known: Mapping[str, str]
) -> None:
    if name in neutral and (neutral[name] is ANY or value in (None, neutral[name])):
        return
    words = ", ".join(sorted({*known, *neutral}))
    raise ConfigError(f"{where}.{name} is {value!r}, which areal has nothing for; it has {words}")
