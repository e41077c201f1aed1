"""What an inference engine and a train engine can do.

Workflows use ``InferenceEngine.agenerate`` and nothing else; the rest is for trainers. Optional
abilities raise ``NotImplementedError`` with the engine's name until an engine has them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    import torch.distributed as dist

    from areal.api.alloc_mode import ParallelStrategy
    from areal.api.config.logging import PerfTracerConfig
    from areal.api.io_struct import (
        LocalInfServerInfo,
        ModelRequest,
        ModelResponse,
        ParamSpec,
        SaveLoadMeta,
        WeightUpdateMeta,
    )
    from areal.api.workflow_api import WorkflowLike

# A trajectory maps names to tensors of shape [batch, seqlen, ...], or to lists.
Trajectory = dict[str, Any]
AcceptFn = Callable[[Trajectory], bool]


class InferenceEngine(ABC):
    """Generates answers and runs workflows with them."""

    @property
    @abstractmethod
    def initialized(self) -> bool:
        """True between ``initialize`` and ``destroy``."""

    # --- life ---------------------------------------------------------------------------------

    def initialize(self, *args: Any, **kwargs: Any) -> None:
        """Connect to servers or loads the model, and start what runs in the background."""
        raise self._lacks("initialize")

    def destroy(self) -> None:
        """Free what ``initialize`` took."""
        raise self._lacks("destroy")

    def launch_server(self, server_args: dict[str, Any]) -> LocalInfServerInfo:
        """Start a server on this machine."""
        raise self._lacks("launch_server")

    def teardown_server(self) -> None:
        """Stop the servers that ``launch_server`` started."""
        raise self._lacks("teardown_server")

    @property
    def workflow_executor(self) -> Any:
        """The executor behind ``submit`` and ``wait``."""
        raise self._lacks("workflow_executor")

    # --- generation ---------------------------------------------------------------------------

    async def agenerate(self, req: ModelRequest) -> ModelResponse:
        """Generate one answer.

        Args:
            req: Is not changed. ``gconfig.n_samples`` must be 1.

        Raises:
            ValueError: More than one sample is asked for.
            RuntimeError: The prompt leaves no room below ``gconfig.max_tokens``.
        """
        raise self._lacks("agenerate")

    def pause_generation(self) -> None:
        """Interrupt the answers in the making; they are resumed, under the weights of then."""
        raise self._lacks("pause_generation")

    def continue_generation(self) -> None:
        """End ``pause_generation``."""
        raise self._lacks("continue_generation")

    # --- rollouts -----------------------------------------------------------------------------

    def submit(
        self,
        data: dict[str, Any],
        workflow: WorkflowLike,
        workflow_kwargs: dict[str, Any] | None = None,
        should_accept_fn: AcceptFn | str | None = None,
        group_size: int = 1,
        task_id: int | None = None,
        is_eval: bool = False,
        reward_normalization: bool = False,
        drop_incomplete_group: bool = False,
    ) -> int:
        """Queue the episodes of one dataset row and return the task's id.

        Args:
            data: The row.
            workflow: An instance, a class, an import path, or an agent.
            workflow_kwargs: For the constructor, where ``workflow`` is a class or names one.
            should_accept_fn: Takes the trajectory; False rejects it. A function or its path.
            group_size: How many episodes of the row make one trajectory.
            task_id: Chosen by the caller; unique among the running tasks.
            is_eval: Counts the episodes apart from training.
            reward_normalization: Normalises the rewards of a group of interactions.
            drop_incomplete_group: Rejects a group of which one episode was rejected.
        """
        raise self._lacks("submit")

    def wait(
        self, count: int, timeout: float | None = None, raise_timeout: bool = True
    ) -> list[Trajectory | None]:
        """Wait for results.

        Args:
            count: How many.
            timeout: In seconds; None waits for ever.
            raise_timeout: False returns [] after the timeout instead of raising.

        Raises:
            TimeoutError: Fewer results came in time.
        """
        raise self._lacks("wait")

    def wait_for_task(
        self, task_id: int, timeout: float | None = None, raise_timeout: bool = True
    ) -> Trajectory | None:
        """Wait for one task; the arguments are those of ``wait``.

        Raises:
            ValueError: The task was never submitted.
            TimeoutError: It did not end in time.
        """
        raise self._lacks("wait_for_task")

    def rollout_batch(
        self,
        data: list[dict[str, Any]],
        workflow: WorkflowLike,
        workflow_kwargs: dict[str, Any] | None = None,
        group_size: int = 1,
        reward_normalization: bool = False,
        drop_incomplete_group: bool = False,
    ) -> list[Trajectory]:
        """Run the episodes of all rows and return the accepted trajectories."""
        raise self._lacks("rollout_batch")

    def prepare_batch(
        self,
        dataloader: Iterable[list[dict[str, Any]]],
        workflow: WorkflowLike,
        workflow_kwargs: dict[str, Any] | None = None,
        should_accept_fn: AcceptFn | str | None = None,
        group_size: int = 1,
        dynamic_bs: bool = False,
        reward_normalization: bool = False,
        drop_incomplete_group: bool = False,
    ) -> list[Trajectory]:
        """Return the next batch while later rows are already being worked on.

        The dataloader is read round and round, and is taken from the first call; later calls
        continue it. A rejected trajectory is replaced by that of a further row, unless
        ``dynamic_bs``: then the batch ends when as many rows as it should have are done.
        """
        raise self._lacks("prepare_batch")

    def pause(self) -> None:
        """Stop starting new episodes."""
        raise self._lacks("pause")

    def resume(self) -> None:
        """End ``pause``."""
        raise self._lacks("resume")

    # --- weights ------------------------------------------------------------------------------

    def set_version(self, version: int) -> None:
        """Set the version of the weights."""
        raise self._lacks("set_version")

    def get_version(self) -> int:
        """Return the version of the weights."""
        raise self._lacks("get_version")

    def init_weights_update_group(self, meta: WeightUpdateMeta) -> Future[None]:
        """Join the process group that carries new weights."""
        raise self._lacks("init_weights_update_group")

    def update_weights_from_distributed(
        self, meta: WeightUpdateMeta, param_specs: list[ParamSpec]
    ) -> Future[None]:
        """Receive new weights by collective communication."""
        raise self._lacks("update_weights_from_distributed")

    def update_weights_from_disk(self, meta: WeightUpdateMeta) -> Future[None]:
        """Read new weights from ``meta.path``."""
        raise self._lacks("update_weights_from_disk")

    def offload(self) -> None:
        """Move the weights off the device."""
        raise self._lacks("offload")

    def onload(self, tags: list[str] | None = None) -> None:
        """Move the weights, or the tagged parts, back to the device."""
        raise self._lacks("onload")

    # --- numbers ------------------------------------------------------------------------------

    def compute_logp(self, data: Trajectory | list[Trajectory]) -> Any:
        """Return the log-probabilities of given tokens under the current weights."""
        raise self._lacks("compute_logp")

    def export_stats(self) -> dict[str, float]:
        """Return the statistics since the last call and forgets them."""
        raise self._lacks("export_stats")

    def config_perf_tracer(self, config: PerfTracerConfig, rank: int, role: str) -> None:
        """Set up the time-line of this engine's process."""
        raise self._lacks("config_perf_tracer")

    def save_perf_tracer(self, step: int | None = None, force: bool = False) -> None:
        """Write the time-line."""
        raise self._lacks("save_perf_tracer")

    def _lacks(self, ability: str) -> NotImplementedError:
        return NotImplementedError(f"{type(self).__name__} has no {ability}")


class TrainEngine(ABC):
    """A model under training.

    Inputs of a step, ``input_``, are one batched dict of padded tensors or a list of trajectories.
    A loss function is called as ``loss_fn(logprobs, entropy, input_data)`` (a critic's as
    ``loss_fn(values, input_data)``) with PACKED 1-D tensors, one micro-batch at a time.
    """

    # --- life ---------------------------------------------------------------------------------

    @abstractmethod
    def create_process_group(self, parallel_strategy: ParallelStrategy | None = None) -> None:
        """Make the process groups of a strategy; None is one process per replica."""

    def initialize(self, *args: Any, **kwargs: Any) -> None:
        """Make the model, the optimiser and the schedule, as an engine needs them.

        Engines of this package take ``addr``, where rollouts are generated, and ``ft_spec``, a
        ``FinetuneSpec`` with the length of the run.
        """
        raise self._lacks("initialize")

    def destroy(self) -> None:  # noqa: B027  (an engine that holds nothing need not say so)
        """Free what the engine holds."""

    @property
    @abstractmethod
    def initialized(self) -> bool:
        """True between ``initialize`` and ``destroy``."""

    # --- place in the cluster -----------------------------------------------------------------

    @property
    @abstractmethod
    def data_parallel_group(self) -> dist.ProcessGroup:
        """The group whose members see different data."""

    @property
    @abstractmethod
    def data_parallel_rank(self) -> int:
        """This process's place in ``data_parallel_group``."""

    @property
    @abstractmethod
    def data_parallel_world_size(self) -> int:
        """The size of ``data_parallel_group``."""

    @abstractmethod
    def current_data_parallel_head(self) -> int:
        """Return the global rank that speaks for this process's replica."""

    @abstractmethod
    def is_data_parallel_head(self) -> bool:
        """Return True in the process that speaks for its replica."""

    @property
    @abstractmethod
    def context_and_model_parallel_group(self) -> dist.ProcessGroup:
        """The group whose members see the same data."""

    @property
    @abstractmethod
    def cpu_group(self) -> dist.ProcessGroup:
        """The gloo group of all processes."""

    # --- training -----------------------------------------------------------------------------

    @abstractmethod
    def train(self, mode: bool = True) -> TrainEngine:
        """Switch to training mode, or with False to evaluation mode, and return itself."""

    def eval(self) -> TrainEngine:
        """Switch to evaluation mode and return itself."""
        return self.train(False)

    @abstractmethod
    def optimizer_zero_grad(self) -> None:
        """Clear the gradients."""

    @abstractmethod
    def optimizer_step(self) -> dict[str, float]:
        """Clip, check and applies the gradients.

        Returns:
            ``update_successful`` (1.0 or 0.0: a step with a non-finite norm is skipped),
            ``grad_norm`` before clipping, and ``lr``.
        """

    @abstractmethod
    def lr_scheduler_step(self) -> None:
        """Move the learning rate one step along its schedule."""

    def step_lr_scheduler(self) -> None:
        """Call ``lr_scheduler_step``, under its other name."""
        self.lr_scheduler_step()

    @abstractmethod
    def forward_backward_batch(
        self,
        mb_list: Any,
        process_output_fn: Callable[[torch.Tensor, dict[str, Any]], torch.Tensor | None],
        forward_only: bool = False,
    ) -> None:
        """Run the model over the micro-batches, and backwards unless ``forward_only``.

        Args:
            mb_list: A ``MicroBatchList``.
            process_output_fn: Takes the model's output and the micro-batch's inputs; returns the
                loss to go backwards from.
            forward_only: Makes no gradients.
        """

    @abstractmethod
    def train_batch(
        self,
        input_: Trajectory | list[Trajectory],
        loss_fn: Callable[..., torch.Tensor],
        loss_weight_fn: Callable[[dict[str, Any]], torch.Tensor],
    ) -> dict[str, float]:
        """Do one optimiser step over a batch.

        Args:
            input_: The batch.
            loss_fn: Gives the mean loss of a micro-batch.
            loss_weight_fn: Gives that mean's weight, such as its number of tokens; the batch's
                loss is the weighted mean, over all processes.

        Returns:
            Statistics of the step.
        """

    @abstractmethod
    def eval_batch(
        self,
        input_: Trajectory | list[Trajectory],
        loss_fn: Callable[..., torch.Tensor],
        loss_weight_fn: Callable[[dict[str, Any]], torch.Tensor],
    ) -> torch.Tensor | None:
        """Return the loss of a batch without training on it; None where this rank has none."""

    @abstractmethod
    def forward_batch(
        self,
        input_: Trajectory | list[Trajectory],
        output_seqlens: list[int] | None = None,
        aggregate_fn: Callable[[list[torch.Tensor]], torch.Tensor] | None = None,
    ) -> Any:
        """Return the model's output for a batch: log-probabilities, or a critic's values.

        Args:
            input_: The batch.
            output_seqlens: Lengths to cut the output into; None takes those of the input.
            aggregate_fn: Joins the outputs of the micro-batches; None is ``torch.cat``.
        """

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call ``forward_batch``, under its other name."""
        return self.forward_batch(*args, **kwargs)

    # --- rollouts and weights -----------------------------------------------------------------

    @abstractmethod
    def connect_engine(self, engine: InferenceEngine, meta: WeightUpdateMeta) -> None:
        """Name the inference engine that gets the weights, and by which way."""

    @abstractmethod
    def update_weights(self, meta: WeightUpdateMeta) -> None:
        """Give the current weights to the connected engine."""

    @abstractmethod
    def rollout_batch(
        self,
        data: list[dict[str, Any]],
        workflow: WorkflowLike,
        workflow_kwargs: dict[str, Any] | None = None,
        group_size: int = 1,
        reward_normalization: bool = False,
        drop_incomplete_group: bool = False,
    ) -> list[Trajectory]:
        """Call the connected engine's ``rollout_batch``, shared out over the processes."""

    @abstractmethod
    def prepare_batch(
        self,
        dataloader: Iterable[list[dict[str, Any]]],
        workflow: WorkflowLike,
        workflow_kwargs: dict[str, Any] | None = None,
        should_accept_fn: AcceptFn | str | None = None,
        group_size: int = 1,
        dynamic_bs: bool = False,
        reward_normalization: bool = False,
        drop_incomplete_group: bool = False,
    ) -> list[Trajectory]:
        """Call the connected engine's ``prepare_batch``, shared out over the processes."""

    @abstractmethod
    def set_version(self, version: int) -> None:
        """Set the version of the weights."""

    @abstractmethod
    def get_version(self) -> int:
        """Return the version of the weights."""

    @abstractmethod
    def save(self, meta: SaveLoadMeta) -> None:
        """Save the model, and the optimiser if asked."""

    @abstractmethod
    def load(self, meta: SaveLoadMeta) -> None:
        """Load what ``save`` saved."""

    @abstractmethod
    def onload(self) -> None:
        """Move the model to its device."""

    @abstractmethod
    def offload(self) -> None:
        """Move the model off its device."""

    # --- numbers ------------------------------------------------------------------------------

    @abstractmethod
    def export_stats(self) -> dict[str, float]:
        """Return the statistics since the last call and forgets them."""

    @abstractmethod
    def get_device_stats(self) -> Mapping[str, float]:
        """Return how much memory the device has and uses, in GiB."""

    def start_memory_profile(self, max_entries: int = 100_000) -> None:
        """Begin to record allocations."""
        raise self._lacks("start_memory_profile")

    def stop_memory_profile(self, path: str) -> None:
        """Write the allocations recorded since ``start_memory_profile``."""
        raise self._lacks("stop_memory_profile")

    def config_perf_tracer(self, config: PerfTracerConfig, rank: int, role: str) -> None:
        """Set up the time-line of this engine's process."""
        raise self._lacks("config_perf_tracer")

    def save_perf_tracer(self, step: int | None = None, force: bool = False) -> None:
        """Write the time-line."""
        raise self._lacks("save_perf_tracer")

    def _lacks(self, ability: str) -> NotImplementedError:
        return NotImplementedError(f"{type(self).__name__} has no {ability}")
