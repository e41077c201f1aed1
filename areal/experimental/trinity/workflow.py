"""A workflow of Trinity-RFT as a workflow of ours."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import partial
from typing import Any

from areal.api.config.generation import GenerationHyperparameters
from areal.api.errors import ConfigError, TrajectoryError
from areal.api.registry import nearest_names
from areal.api.workflow_api import GenerationEngine, RolloutWorkflow
from areal.experimental.trinity.auxiliary import AuxiliaryModel
from areal.experimental.trinity.loading import load_reward_fn, load_workflow
from areal.experimental.trinity.model import EpisodeModel, KeyedEpisodeModel
from areal.experimental.trinity.package import load_package
from areal.experimental.trinity.rows import to_trajectory
from areal.experimental.trinity.threads import EpisodeThreads, LoopPost
from areal.infra import workflow_context
from areal.utils import stats_tracker
from areal.utils.hf_utils import load_hf_tokenizer
from areal.utils.latest_prompts import LatestPrompts

_UNLIMITED = int(1e8)


class TrinityWorkflow(RolloutWorkflow):
    """Runs a workflow that was written for Trinity-RFT, unchanged.

    With trinity-rft installed its classes are used, else stand-ins for them. A synchronous workflow
    runs in a thread of its own. Each episode is one run: the group of the trainer repeats it.

    Args:
        workflow_type: A class, a registered key, a dotted path, or ``file.py:Name``.
        gconfig: How to sample.
        tokenizer: A tokenizer, or the hub id or folder of one.
        format_args: Which columns of a row hold what; the fields of ``FormatConfig``.
        workflow_args: For the workflow, as ``task.workflow_args``.
        rollout_args: How this workflow samples otherwise; the fields of ``GenerationConfig`` but n.
        reward_fn_type: A class, a registered key, a dotted path, or ``file.py:Name``.
        reward_fn_args: For the reward function's constructor.
        auxiliary_models: Of each its ``base_url``, ``model`` and, if it wants one, ``api_key``.
        plugin_dir: A folder whose files are loaded first.
        merges_steps: Whether the steps of a run become one row where each prompt goes on with the
            step before; otherwise each is a row.
        model_path: What workflows see as the path of the model.

    Raises:
        ConfigError: The workflow or its reward cannot be found, or an argument is unknown.
    """

    def __init__(
        self,
        workflow_type: Any,
        gconfig: GenerationHyperparameters,
        tokenizer: Any,
        format_args: Mapping[str, Any] | None = None,
        workflow_args: Mapping[str, Any] | None = None,
        rollout_args: Mapping[str, Any] | None = None,
        reward_fn_type: Any = None,
        reward_fn_args: Mapping[str, Any] | None = None,
        auxiliary_models: Sequence[Mapping[str, Any]] = (),
        plugin_dir: str | None = None,
        merges_steps: bool = False,
        model_path: str = "default",
    ) -> None:
        self._package = load_package()
        self.tokenizer = load_hf_tokenizer(tokenizer) if isinstance(tokenizer, str) else tokenizer
        self.gconfig = gconfig.new_with_stop_and_pad_token_ids(self.tokenizer).new(n_samples=1)
        self.plugin_dir = plugin_dir
        self.workflow_type = load_workflow(workflow_type, plugin_dir)
        self.reward_fn_type = load_reward_fn(reward_fn_type, plugin_dir)
        self.reward_fn_args = dict(reward_fn_args or {})
        self.workflow_args = dict(workflow_args or {})
        self.merges_steps = merges_steps
        self.model_path = model_path
        self._format_args = _make(self._package.FormatConfig, format_args, "format_args")
        self._rollout_args = _make(
            self._package.GenerationConfig, self._sampling(rollout_args), "rollout_args"
        )
        for name in ("image_key", "video_key"):
            if getattr(self._format_args, name, None):
                raise ConfigError(
                    f"format_args.{name}: images and videos are not carried to a Trinity workflow "
                    "here; leave it out, or use the workflow vision_rlvr"
                )
        self._auxiliary = [_auxiliary(each) for each in auxiliary_models]
        self._prompts = LatestPrompts(self.tokenizer)
        self._threads = EpisodeThreads()
        self._post: LoopPost | None = None
        # Objects that can be reset, each with the model that it was made with.
        self._free: dict[tuple[type, bool], list[tuple[Any, EpisodeModel]]] = {}

    @property
    def name_in_messages(self) -> str:
        """The name of the workflow's own class."""
        return str(self.workflow_type.__name__)

    async def arun_episode(
        self, engine: GenerationEngine, data: dict[str, Any]
    ) -> dict[str, Any] | None:
        """Run the workflow once on a row.

        Returns:
            The trajectory; see ``areal.experimental.trinity.rows.to_trajectory``.

        Raises:
            TrajectoryError: The workflow returned something that cannot be trained on.
            Exception: Whatever the workflow raised.
        """
        task = self._task(data, workflow_context.get())
        name = task.workflow.__name__
        # In evaluation any temperature may be sampled at, which the model decides.
        place = (task.workflow, task.is_eval)
        idle = self._free.get(place)
        workflow, model = idle.pop() if idle else (None, self._make_model(task.is_eval))
        post = self._post_of_loop()
        model.open(engine, post)
        try:
            if task.workflow.is_async:
                workflow = self._ready(workflow, task, model)
                experiences = await workflow.run_async()
            else:
                # A constructor and a reset may block as well.
                workflow, experiences = await self._threads.run(
                    partial(self._run_in_thread, workflow, task, model), post
                )
            version = getattr(engine, "get_version", int)()
            trajectory = to_trajectory(experiences, name, model.book, version, self.merges_steps)
        finally:
            model.close()
        _report(experiences, trajectory, model.book.num_misses)
        if workflow.can_reset:
            # An episode that failed or was stopped leaves its object in no known state.
            self._free.setdefault(place, []).append((workflow, model))
        return trajectory

    # --- one episode

    def _post_of_loop(self) -> LoopPost:
        loop = asyncio.get_running_loop()
        if self._post is None or self._post.loop is not loop:
            self._post = LoopPost(loop)
        return self._post

    def _task(self, data: dict[str, Any], context: workflow_context.WorkflowContext) -> Any:
        format_args = self._format_args
        workflow, reward_fn = self.workflow_type, self.reward_fn_type
        try:
            if format_args.workflow_key and data.get(format_args.workflow_key):
                workflow = load_workflow(data[format_args.workflow_key], self.plugin_dir)
            if format_args.reward_fn_key and data.get(format_args.reward_fn_key):
                reward_fn = load_reward_fn(data[format_args.reward_fn_key], self.plugin_dir)
        except ConfigError as error:
            # A row of the data is wrong, and the others are none the worse for it.
            raise TrajectoryError(f"a row of {self.name_in_messages}: {error}") from error
        return self._package.Task(
            workflow=workflow,
            repeat_times=1,
            # Workflows change what they are given, and other episodes share it.
            format_args=_copied(format_args),
            rollout_args=_copied(self._rollout_args),
            workflow_args=dict(self.workflow_args),
            reward_fn_args=dict(self.reward_fn_args),
            is_eval=context.is_eval,
            reward_fn=reward_fn,
            raw_task=data,
            batch_id="",
            task_id="" if context.task_id is None else context.task_id,
            index={"index": context.task_id or 0, "taskset_id": 0},
        )

    def _make_model(self, is_eval: bool) -> EpisodeModel:
        has_keys = any(field.name == "api_key" for field in fields(self._package.Task))
        kind = KeyedEpisodeModel if has_keys else EpisodeModel
        return kind(
            self.tokenizer,
            self.gconfig,
            self._package.Experience,
            model_path=self.model_path,
            # In evaluation nothing is trained on, so any temperature will do.
            temperature=None if is_eval else self.gconfig.temperature,
            template_kwargs=self._template_kwargs(),
            prompts=self._prompts,
        )

    def _ready(self, workflow: Any, task: Any, model: EpisodeModel) -> Any:
        """Return a workflow that can run a task: an idle one reset, or a new one."""
        if workflow is None:
            workflow = task.to_workflow(model, self._auxiliary or None)
        else:
            workflow.reset(task)
            # Where a class forgets it, the reset of trinity-rft 0.6.0 leaves the former task.
            workflow.task = task
        if workflow.can_repeat:
            # One repeater only: the group of the trainer.
            workflow.set_repeat_times(1, workflow_context.get().sample_idx or 0)
        return workflow

    def _run_in_thread(self, workflow: Any, task: Any, model: EpisodeModel) -> tuple[Any, Any]:
        workflow = self._ready(workflow, task, model)
        return workflow, workflow.run()

    def _template_kwargs(self) -> dict[str, Any]:
        found = {}
        for name in ("chat_template", "enable_thinking"):
            value = getattr(self._format_args, name, None)
            if value is not None:
                found[name] = value
        return found

    def _sampling(self, given: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return what workflows read of the sampling, with what the run sets by itself."""
        given = _mapping(given, "rollout_args")
        if given.get("n", 1) != 1:
            raise ConfigError(
                f"rollout_args.n is {given['n']}: a run would make so many experiences, and "
                "repeat_times makes as many runs, which gives their product; leave n out and set "
                "repeat_times (here gconfig.n_samples)"
            )
        config = self.gconfig
        return {
            "temperature": 0.0 if config.greedy else config.temperature,
            "top_p": config.top_p,
            "top_k": -1 if config.top_k >= _UNLIMITED else config.top_k,
            "max_tokens": config.max_new_tokens,
            **{name: value for name, value in given.items() if name != "n"},
            "n": 1,
        }


def _copied(settings: Any) -> Any:
    # A tenth of what copy.copy takes.
    made = object.__new__(type(settings))
    made.__dict__.update(settings.__dict__)
    return made


def _report(experiences: Sequence[Any], trajectory: Mapping[str, Any], num_misses: int) -> None:
    scope = stats_tracker.get(workflow_context.stat_scope())
    found = {"reward": trajectory["rewards"].tolist()[-1]}
    if num_misses:
        found["unknown_versions"] = num_misses
    for experience in experiences:
        for name, value in (experience.metrics or {}).items():
            if isinstance(value, int | float):
                found[name] = float(value)
        if found:
            scope.scalar(**found)
        found = {}


def _make(cls: Any, given: Mapping[str, Any] | None, what: str) -> Any:
    known = {field.name: field for field in fields(cls)}
    options = _mapping(given, what)
    for name in options:
        if name not in known:
            raise ConfigError(f"{what} has no {name!r}{nearest_names(name, known)}")
    if isinstance(options.get("prompt_type"), str):
        # An enumeration in both packages.
        kind = type(known["prompt_type"].default)
        try:
            options["prompt_type"] = kind(options["prompt_type"])
        except ValueError as error:
            words = ", ".join(each.value for each in kind)
            found = options["prompt_type"]
            raise ConfigError(f"{what}.prompt_type is {found!r}; known: {words}") from error
    return cls(**options)


def _mapping(given: Any, what: str) -> dict[str, Any]:
    if given is not None and not isinstance(given, Mapping):
        raise ConfigError(f"{what} is {given!r}, expected keys and values")
    return dict(given or {})


def _auxiliary(given: Any) -> AuxiliaryModel:
    options = _mapping(given, "an entry of auxiliary_models")
    known, needed = ("base_url", "model", "api_key"), ("base_url", "model")
    for name in options:
        if name not in known:
            raise ConfigError(f"auxiliary_models has no {name!r}{nearest_names(name, known)}")
    for name in needed:
        if not options.get(name):
            raise ConfigError(f"auxiliary_models: {name} is missing in {options!r}")
    return AuxiliaryModel(**options)
