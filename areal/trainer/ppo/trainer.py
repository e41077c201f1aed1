"""Policy optimisation: rollouts, rewards, advantages, updates."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch.distributed as dist
from torch import Tensor

from areal.api.cli_args import (
    GenerationHyperparameters,
    PPOConfig,
    PPOCriticConfig,
    TrainEngineConfig,
)
from areal.api.engine_api import InferenceEngine
from areal.api.errors import ConfigError, TrajectoryError
from areal.api.io_struct import WeightUpdateMeta
from areal.api.registry import resolve
from areal.engine.inference import make_inference_engine
from areal.engine.model.lora import BaseOfLora, base_model_path
from areal.engine.model.shared_weights import SharedWeights
from areal.engine.processes import is_first
from areal.engine.training.engine import PackedTrainEngine
from areal.infra.workflow_resolution import is_agent, is_workflow, resolve_accept_fn
from areal.reward import REWARDS
from areal.trainer.advantages import truncated_rows
from areal.trainer.base import BaseTrainer
from areal.trainer.hub import Hub
from areal.trainer.ppo.actor import PPOActor
from areal.trainer.ppo.checks import (
    check_critic_model,
    check_ppo_config,
    check_sights,
    check_values,
)
from areal.trainer.ppo.critic import PPOCritic
from areal.trainer.ppo.minibatches import scattered_minibatches
from areal.trainer.ppo.outputs import next_token_outputs
from areal.trainer.ppo.policy_loss import needs_prox_logp
from areal.trainer.ppo.stats import batch_statistics
from areal.trainer.recover import restore_rollout, rollout_state
from areal.trainer.report import EpisodeSample, ReportPaths
from areal.trainer.runtime import make_colocated_engine, make_train_engine, uses_servers
from areal.trainer.scores import RowScore, by_source, source_of, summarize
from areal.utils.data import TrajBatchMeta, concat_batch
from areal.utils.dataloader import create_dataloader
from areal.utils.hf_utils import ordinary_token_ids
from areal.workflow import WORKFLOWS

if TYPE_CHECKING:
    from areal.experimental.openai.proxy import AgentProxy

logger = logging.getLogger("Trainer")

# Episodes of a step that are written down for a person to read.
NUM_SAMPLES = 2
# In a checkpoint: the value model.
CRITIC_FOLDER = "critic"
# In the run's folder: where an outside program reaches the proxy, in online mode.
BASE_URL_FILE = "openai_base_url"
# And where servers find new weights.
WEIGHTS_FOLDER = "weights"


class PPOTrainer(BaseTrainer):
    """Trains a policy on rewards: ``PPOTrainer(config).train(workflow)`` inside a ``with`` block.

    Args:
        config: Of the experiment.
        train_dataset: Rows; None loads ``config.train_dataset``.
        valid_dataset: Rows for evaluation; None does not evaluate.
    """

    config: PPOConfig

    def __init__(
        self, config: PPOConfig, train_dataset: Any = None, valid_dataset: Any = None
    ) -> None:
        check_ppo_config(config)
        is_online = config.rollout.agent.mode == "online"
        if train_dataset is None and is_online and config.train_dataset.path in ("", "null"):
            # The outside program has the tasks; a row is only a session.
            train_dataset = [{"row": i} for i in range(config.train_dataset.batch_size)]
        super().__init__(config, train_dataset, valid_dataset)
        # At the end no server is told of a version any more, and the model is elsewhere.
        self.transient_folders = (WEIGHTS_FOLDER,)
        # Rollouts and updates must see one policy; a dropped unit would make it another.
        self.weights.lm.turn_off_dropout()
        self.ref = self._make_reference()
        if self.ref is not None and self.ref.lm.takes_images != self.weights.lm.takes_images:
            raise ConfigError(
                "of ref.path and actor.path one is a model that takes images and the other is not; "
                "set ref.path to ${actor.path}"
            )
        self.hub = Hub(self.actor)
        self._num_tokens = self.weights.lm.num_embeddings
        self.critic: PackedTrainEngine | None = None
        self._value: PPOCritic | None = None
        if config.critic is not None:
            self._add_critic(config.critic)
        self.rollout = self._make_rollout_engine() if is_first() else None
        if self.rollout is not None:
            self.actor.connect_engine(self.rollout)
        self._policy = PPOActor(
            config.actor,
            self.actor,
            config.run,
            config.gconfig.max_new_tokens,
            self._stop_token_ids(),
        )
        self._data: list[Mapping[str, Any]] = []  # the row of each sequence of the batch
        self._workflow: Any = None
        self._eval_workflow: Any = None
        self._filter: Callable[..., bool] | None = None
        self._saved_rollout_state: dict[str, Any] = {}
        self._agent_proxy: AgentProxy | None = None

    @property
    def eval_rollout(self) -> InferenceEngine | None:
        """The engine of evaluations: that of rollouts, which keeps the two apart by workflow."""
        return self.rollout

    def train(
        self,
        workflow: Any = None,
        eval_workflow: Any = None,
        workflow_kwargs: dict[str, Any] | None = None,
        eval_workflow_kwargs: dict[str, Any] | None = None,
        dynamic_filter_fn: Callable[..., bool] | str | None = None,
        total_epochs: int | None = None,
    ) -> None:
        """Run the training to its end.

        Args:
            workflow: A workflow or an agent, its class, a registered name or a dotted path; None
                takes ``config.run``, or in online mode the program that drives the proxy.
            eval_workflow: The same for evaluation; None evaluates with ``workflow``.
            workflow_kwargs: For the class; reward, sampling and tokenizer are filled in where it
                takes them.
            eval_workflow_kwargs: The same for the evaluation's class.
            dynamic_filter_fn: Rejects a trajectory where it returns False; None takes
                ``config.run``.
            total_epochs: Passes over the dataset; None takes ``config.total_train_epochs``.

        Raises:
            ConfigError: There is no workflow, or it cannot be made.
        """
        self._prepare_rollouts(
            workflow, eval_workflow, workflow_kwargs, eval_workflow_kwargs, dynamic_filter_fn
        )
        self._loop(total_epochs)

    def evaluate(self) -> tuple[list[RowScore], list[EpisodeSample]]:
        """Run the evaluation of ``config.run`` over the validation set, and train nothing.

        Returns:
            The score of each row, and every episode that ended as text; the ``task_id`` of an
            episode is "row/sample".

        Raises:
            ConfigError: There is no workflow, or it cannot be made.
        """
        self._prepare_rollouts(None, None, None, None, None)
        scores, episodes = [], []
        for score, trajectories in self._evaluate_rows():
            scores.append(score)
            for k, trajectory in enumerate(trajectories):
                is_cut = truncated_rows(trajectory, self.config.actor, self._stop_token_ids())
                task_id = f"{score.index}/{k}"
                sampled = trajectory["loss_mask"][-1]
                row = self.valid_dataset[score.index]
                episodes.append(
                    self._sample(trajectory, -1, task_id, sampled, bool(is_cut[-1]), row)
                )
        return scores, episodes

    def _prepare_rollouts(
        self,
        workflow: Any,
        eval_workflow: Any,
        workflow_kwargs: dict[str, Any] | None,
        eval_workflow_kwargs: dict[str, Any] | None,
        dynamic_filter_fn: Callable[..., bool] | str | None,
    ) -> None:
        run = self.config.run
        is_online = self.config.rollout.agent.mode == "online"
        if workflow is None and not is_online:
            workflow, workflow_kwargs = run.workflow, run.workflow_kwargs
        if eval_workflow is None:
            eval_workflow = workflow if is_online else run.eval_workflow or workflow
        if eval_workflow_kwargs is None:
            eval_workflow_kwargs = run.eval_workflow_kwargs
        if eval_workflow_kwargs is None:
            eval_workflow_kwargs = workflow_kwargs
        self._workflow = self._make_workflow(workflow, workflow_kwargs, self.config.gconfig)
        assert self.config.eval_gconfig is not None
        self._eval_workflow = self._make_workflow(
            eval_workflow, eval_workflow_kwargs, self.config.eval_gconfig, "run.eval_workflow"
        )
        self._filter = resolve_accept_fn(dynamic_filter_fn or run.dynamic_filter)
        if self.rollout is not None:
            self.rollout.initialize()
            self.rollout.workflow_executor.max_token_age = run.max_token_age
            if not (is_workflow(self._workflow) and is_workflow(self._eval_workflow)):
                self._serve_agents()

    def _start(self, total_epochs: int | None = None) -> None:
        super()._start(total_epochs)
        if uses_servers(self.config):
            # Whatever the servers began with, a resumed run's weights are others.
            self._publish(self.actor.get_version())
            if self.rollout is not None:
                prompt = ordinary_token_ids(self.tokenizer, 7)
                self.rollout.check_temperature(prompt, self.config.actor.temperature)

    # --- set-up

    def _make_reference(self) -> PackedTrainEngine | None:
        """Return the engine of the frozen policy that the KL penalty keeps close to."""
        if self.config.ref is None or self.config.actor.kl_ctl <= 0:
            return None
        settings = dataclasses.replace(self.config.ref, use_lora=False, optimizer=None)
        if _is_beneath(self.config.actor, settings):
            return make_train_engine(settings, SharedWeights(BaseOfLora(self.weights)))
        ref = make_colocated_engine(self.config, settings, "ref", self.tokenizer)
        if dist.is_initialized():
            ref.create_process_group()
            ref.initialize()
        return ref

    def _add_critic(self, config: PPOCriticConfig) -> None:
        """Make the value model, which is trained and saved beside the actor."""
        optimizer = config.optimizer or self.config.actor.optimizer
        # A dropped unit would make other values of the same weights.
        settings = dataclasses.replace(config, disable_dropout=True, optimizer=optimizer)
        critic = make_colocated_engine(self.config, settings, CRITIC_FOLDER, self.tokenizer)
        check_critic_model(config, critic.lm, self.tokenizer)
        critic.create_process_group()
        self.trained[CRITIC_FOLDER] = self.critic = critic
        self._value = PPOCritic(config, critic)
        is_alike = critic.config.backend == self.config.actor.backend
        self._critic_hub = self.hub if is_alike else Hub(critic)
        self._num_tokens = min(self._num_tokens, critic.lm.num_embeddings)

    def _make_rollout_engine(self) -> InferenceEngine:
        return make_inference_engine(
            self._rollout_config(), self.weights, self.config.seed, uses_servers(self.config)
        )

    def _rollout_config(self) -> Any:
        batch_size = self.config.train_dataset.batch_size
        # Servers are named after the run.
        config = dataclasses.replace(
            self.config.rollout,
            experiment_name=self.config.experiment_name,
            trial_name=self.config.trial_name,
        )
        if config.consumer_batch_size == 1:
            config = dataclasses.replace(config, consumer_batch_size=batch_size)
        if config.max_concurrent_rollouts is None:
            config = dataclasses.replace(
                config, max_concurrent_rollouts=max(batch_size, config.consumer_batch_size)
            )
        return config

    def _make_workflow(
        self,
        workflow: Any,
        kwargs: dict[str, Any] | None,
        gconfig: GenerationHyperparameters,
        key: str = "run.workflow",
    ) -> Any:
        """Return a workflow or an agent made of a name, a class or an instance."""
        if workflow is None:
            return None
        if isinstance(workflow, str):
            workflow = resolve(WORKFLOWS, "workflow", workflow)
        is_class = inspect.isclass(workflow)
        if not is_workflow(workflow) and not is_agent(workflow):
            name = workflow.__name__ if is_class else repr(workflow)
            raise ConfigError(
                f"{key}: {name} is neither a workflow, which has a coroutine arun_episode, "
                "nor an agent, which has a coroutine run"
            )
        if not is_class:
            return workflow
        offered = {"gconfig": gconfig, "tokenizer": self.tokenizer}
        if self.config.run.reward_fn:
            offered["reward_fn"] = resolve(REWARDS, "reward", self.config.run.reward_fn)
        given = dict(kwargs or {})
        if isinstance(given.get("reward_fn"), str):
            given["reward_fn"] = resolve(REWARDS, "reward", given["reward_fn"])
        taken = _constructor_parameters(workflow)
        if "processor" in taken:
            offered["processor"] = self.processor
        filled = {name: value for name, value in offered.items() if name in taken} | given
        try:
            return workflow(**filled)
        except (TypeError, ValueError) as error:
            raise ConfigError(
                f"cannot make {workflow.__name__}: {error}; it takes {', '.join(taken)}. "
                f"Set the missing ones in {key}_kwargs, and the reward in run.reward_fn"
            ) from error

    def _serve_agents(self) -> None:
        """Start the proxy through which agents reach the model.

        Raises:
            ConfigError: The packages that it needs are missing, or its settings contradict.
        """
        config = self.config.rollout
        if config.agent.mode == "online" and config.deterministic_sampling:
            raise ConfigError(
                "rollout.deterministic_sampling waits for every running episode, and one of an "
                "outside program may not have begun; set it to false with rollout.agent.mode=online"
            )
        try:
            # Optional, and nothing that a run without agents should load.
            from areal.experimental.openai.proxy import AgentProxy
        except ImportError as error:
            raise ConfigError(f"run.workflow: {error}") from error
        self._agent_proxy = AgentProxy(
            self.rollout,
            self.tokenizer,
            config.agent,
            self.config.gconfig,
            self.config.eval_gconfig,
            temperature=self.config.actor.temperature,
            host=self.config.run.agent_host,
        )
        address = self._agent_proxy.start()
        if config.agent.mode == "online":
            # The port is another one each time, and the outside program has to find it.
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.folder / BASE_URL_FILE).write_text(address + "\n")
        self.rollout.workflow_executor.agent_wrapper = self._agent_proxy.wrap

    def _make_dataloader(self, dataset: Any, config: Any) -> Any:
        return create_dataloader(dataset, 0, 1, config, seed=self.config.seed)

    def _sequences_per_step(self) -> int:
        return self.config.train_dataset.batch_size * self.config.gconfig.n_samples

    # --- one step

    def _train_step(self) -> tuple[dict[str, Any], Sequence[EpisodeSample]]:
        started = time.perf_counter()
        rolled_out = self.hub.first(self._roll_out)
        rollout_s = time.perf_counter() - started
        batch, meta = rolled_out or (None, None)
        batch = self._with_model_outputs(batch)
        version = self.actor.get_version()
        stats: dict[str, Any] = {}
        if batch is not None and meta is not None:
            batch = self._policy.with_advantages(batch, meta)
            stats = batch_statistics(batch, meta.traj_group_sizes, version)
        stats |= self._update(batch)
        self._publish(version + 1)
        samples: Sequence[EpisodeSample] = ()
        if batch is not None:
            self.num_sequences += len(batch["rewards"])
            samples = self._samples(batch)
            stats |= self._derived_stats(stats, rollout_s, time.perf_counter() - started)
        # All processes decide by the same numbers whether the run has reached its aim.
        stats = self.hub.same(stats)
        return stats, samples

    def _roll_out(self) -> tuple[dict[str, Any], TrajBatchMeta]:
        assert self.rollout is not None
        trajectories = self.rollout.prepare_batch(
            self.train_dataloader,
            self._workflow,
            should_accept_fn=self._accepts,
            group_size=self.config.gconfig.n_samples,
            dynamic_bs=self.config.dynamic_bs,
            reward_normalization=self.config.gconfig.reward_normalization,
            drop_incomplete_group=self.config.gconfig.drop_incomplete_group,
        )
        batch, meta = concat_batch(trajectories)
        rows = zip(self.rollout.workflow_executor.batch_rows, meta.traj_group_sizes, strict=True)
        self._data = [row for row, size in rows for _ in range(size)]
        return batch, meta

    def _accepts(self, trajectory: dict[str, Any]) -> bool:
        """Check a trajectory against the model, and ask the filter of the run."""
        largest = int(trajectory["input_ids"].max())
        if largest >= self._num_tokens:
            raise TrajectoryError(
                f"the workflow returned token {largest}, the model has {self._num_tokens} tokens"
            )
        check_sights(self.weights.lm, trajectory)
        return self._filter is None or bool(self._filter(trajectory))

    def _with_model_outputs(self, batch: dict[str, Any] | None) -> dict[str, Any] | None:
        """Add what models say of the next tokens, which advantages and the loss compare with."""
        engines: dict[str, tuple[PackedTrainEngine, Hub]] = {}
        if self.critic is not None:
            engines["values"] = self.critic, self._critic_hub
        if self.ref is not None:
            engines["ref_logp"] = self.ref, self.hub
        if needs_prox_logp(self.config.actor):
            engines["prox_logp"] = self.actor, self.hub
        added: dict[str, Any] = {}
        rows: dict[str, Any] = {}
        scattered_by: Hub | None = None
        for name, (engine, hub) in engines.items():
            if hub is not scattered_by:
                rows, scattered_by = hub.scatter(batch), hub
            added[name] = hub.gather(next_token_outputs(engine, rows))
        if self.critic is not None:
            self.hub.first(lambda: check_values(added["values"]))
        return None if batch is None else {**batch, **added}

    def _update(self, batch: dict[str, Any] | None) -> dict[str, Any]:
        """Do one optimiser step a minibatch and return their statistics."""
        rows = scattered_minibatches(self.hub, batch, self.config.actor.ppo_n_minibatches)
        stats = self._policy.update(rows, self.hub.gather_all)
        if not stats:
            logger.warning("no token of the batch of step %d is trained on", self.step + 1)
        if self._value is not None:
            count = self._value.config.ppo_n_minibatches
            rows = scattered_minibatches(self._critic_hub, batch, count)
            stats |= self._value.update(rows, self._critic_hub.gather_all)
        for engine in self.trained.values():
            engine.lr_scheduler_step()
        return stats

    def _publish(self, version: int) -> None:
        """Give the rollout engine the new weights under a new version; episodes go on meanwhile."""
        mode: Any = self.config.actor.weight_update_mode
        rollout = self.config.rollout
        meta = WeightUpdateMeta(
            type=mode,
            path=str(self.folder / WEIGHTS_FOLDER / "weight_update"),
            use_lora=rollout.use_lora,
            lora_name=self.config.gconfig.lora_name,
            base_model_name=self.config.actor.path,
            # The versions that requests may still name, and one more.
            lora_keep_versions=rollout.max_head_offpolicyness + 2,
        )
        self.actor.update_weights(meta.with_version(version))
        for engine in self.trained.values():
            engine.set_version(version)
        if self.rollout is not None:
            self.rollout.set_version(version)

    def _derived_stats(
        self, stats: dict[str, Any], rollout_s: float, step_s: float
    ) -> dict[str, Any]:
        assert self.rollout is not None
        return {
            "loss": stats.get("actor_loss", 0.0),
            "tokens_per_s": stats["n_gen_tokens"] / max(step_s, 1e-9),
            "rollout_time_s": rollout_s,
            **self.rollout.export_stats(),
        }

    def _stop_token_ids(self) -> list[int]:
        ids = {
            *self.config.gconfig.stop_token_ids,
            self.tokenizer.eos_token_id,
            self.tokenizer.pad_token_id,
        }
        return sorted(i for i in ids if i is not None)

    def _samples(self, batch: dict[str, Any]) -> list[EpisodeSample]:
        """Pick episodes of different rows of the dataset and turns them into text."""
        num_rows = len(batch["rewards"])
        chosen = sorted({k * num_rows // NUM_SAMPLES for k in range(NUM_SAMPLES)})
        # The loss mask of a batch for training has moved to the token that predicts.
        sampled = batch["loss_mask"].roll(1, dims=1)
        sampled[:, 0] = 0
        is_cut = batch["seq_no_eos_mask"]
        return [
            self._sample(
                batch, i, f"{self.step + 1}/{i}", sampled[i], bool(is_cut[i]), self._data[i]
            )
            for i in chosen
        ]

    def _sample(
        self,
        batch: dict[str, Any],
        i: int,
        task_id: str,
        sampled: Tensor,
        is_cut: bool,
        data: Mapping[str, Any],
    ) -> EpisodeSample:
        """Turn a sequence into text.

        Args:
            batch: It is row ``i`` of.
            i: In the batch.
            task_id: For a person.
            sampled: [L], true at the tokens of the model.
            is_cut: Whether it was to go on.
            data: The row of the dataset.
        """
        is_token = batch["attention_mask"][i].bool()
        tokens = batch["input_ids"][i][is_token].tolist()
        marks = sampled[is_token].bool().tolist()
        start = marks.index(True) if any(marks) else len(tokens)
        turns = [
            {"sampled": mark, "text": self.tokenizer.decode([token for token, _ in part])}
            for mark, part in itertools.groupby(
                zip(tokens[start:], marks[start:], strict=True), key=lambda pair: pair[1]
            )
        ]
        answer = data.get("answer")
        version = (
            int(batch["versions"][i].max()) if "versions" in batch else self.actor.get_version()
        )
        return EpisodeSample(
            step=self.step + 1,
            task_id=task_id,
            prompt=self.tokenizer.decode(tokens[:start]),
            completion=self.tokenizer.decode(tokens[start:]),
            reward=float(batch["rewards"][i]),
            version=version,
            stop_reason="length" if is_cut else "stop",
            turns=turns if len(turns) > 1 else None,
            answer=None if answer is None else str(answer),
            info=_plain(batch["info"][i]) if batch.get("info") else None,
        )

    # --- evaluation, the end, resuming

    def _evaluate(self) -> dict[str, Any]:
        found = self.hub.same(self.hub.first(self._evaluate_here))
        assert found is not None
        return found

    def _evaluate_here(self) -> dict[str, Any]:
        rows = [score for score, _ in self._evaluate_rows()]
        by_name = {f"reward/{name}": found["reward"] for name, found in by_source(rows).items()}
        return summarize(rows) | by_name

    def _evaluate_rows(self) -> list[tuple[RowScore, list[dict[str, Any]]]]:
        """Return each row's score, and the trajectories of those of its episodes that ended."""
        assert self.config.eval_gconfig is not None
        assert self.rollout is not None
        count = self.config.eval_gconfig.n_samples
        data = [self.valid_dataset[i] for i in range(len(self.valid_dataset))]
        # Each episode is a task of its own: a trajectory may hold several sequences, and those of
        # a group could not be told apart.
        found = self.rollout.workflow_executor.evaluate_rows(
            [row for row in data for _ in range(count)], self._eval_workflow
        )
        rows = []
        for i, row in enumerate(data):
            ended = [each for each in found[i * count : (i + 1) * count] if each is not None]
            # The last sequence is the one that the episode ended with.
            rewards = [float(trajectory["rewards"][-1]) for trajectory in ended]
            rows.append((RowScore(i, source_of(row), rewards, count - len(ended)), ended))
        return rows

    def _goal(self) -> tuple[str, float | None]:
        return "reward", self.config.run.stop_at_reward

    def _rollout_state(self) -> dict[str, Any]:
        return {} if self.rollout is None else rollout_state(self.rollout)

    def _restore_rollout(self, state: dict[str, Any]) -> None:
        if self.rollout is not None:
            restore_rollout(self.rollout, state)

    def close(self, status: str = "completed") -> ReportPaths | None:
        if self.rollout is not None:
            self.rollout.destroy()
        if self._agent_proxy is not None:
            self._agent_proxy.stop()
        return super().close(status)


def _plain(info: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a workflow noted of an episode as JSON has it."""
    plain: dict[str, Any] = json.loads(json.dumps(info, default=str))
    return plain


def _is_beneath(actor: TrainEngineConfig, ref: TrainEngineConfig) -> bool:
    """Return whether a reference is the model that the actor's adapter leaves as it is."""
    same = ref.dtype == actor.dtype and ref.backend == actor.backend
    return actor.use_lora and same and ref.path == base_model_path(actor.path)


def _constructor_parameters(workflow: type) -> list[str]:
    """Return what a class takes by keyword, with what it passes on to its base classes."""
    names: list[str] = []
    for base in workflow.__mro__:
        if "__init__" not in vars(base):
            continue
        parameters = list(inspect.signature(vars(base)["__init__"]).parameters.values())[1:]
        fixed = [p.name for p in parameters if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
        names += [name for name in fixed if name not in names]
        if not any(p.kind is p.VAR_KEYWORD for p in parameters):
            break
    return names
