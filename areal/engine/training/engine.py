"""The train engine on packed batches, for whatever model runs as a CausalLM.

Shape letters: B sequences, L padded length, T packed tokens, V vocabulary, N positions that carry
loss.
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from areal.api.alloc_mode import ModelAllocation, ParallelStrategy
from areal.api.cli_args import ModelSpecConfig, TrainEngineConfig
from areal.api.engine_api import InferenceEngine, TrainEngine, Trajectory
from areal.api.errors import ConfigError
from areal.api.io_struct import FinetuneSpec, SaveLoadMeta, WeightUpdateMeta
from areal.engine.loading.huggingface import as_causal_lm, load_model, make_model
from areal.engine.loading.lora import load_with_adapter
from areal.engine.loading.suitability import apart_logits, check_equal
from areal.engine.model.causal_lm import CausalLM, HeadInputs, PackedInputs, T
from areal.engine.model.checkpoint import (
    atomic_folder,
    load_training_state,
    save_training_state,
    staged_folder,
)
from areal.engine.model.cpu_kernels import even_size
from areal.engine.model.image_text import ImageTextLM, Sight
from areal.engine.model.shared_prefix import distinct_tokens
from areal.engine.model.shared_weights import SharedWeights
from areal.engine.processes import (
    is_first,
    join_processes,
    largest_over,
    resolve_device,
    sums_over,
)
from areal.engine.training.optimizer import make_optimizer, make_schedule, move_schedule
from areal.engine.training.place import Place
from areal.experimental.models.archon.parallel import clip_grad_norm
from areal.utils.data import (
    MicroBatchList,
    concat_padded_tensors,
    pack_mb_list,
    split_padded_tensor_dict_into_mb_list,
    unpack_sequence,
)
from areal.utils.data.containers import MULTI_MODAL_PREFIX
from areal.utils.functional import gather_logprobs_entropy, head_logprobs_entropy

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from areal.engine.weight_sync import WeightPublisher

LossFn = Callable[..., Tensor]
LossWeightFn = Callable[[dict[str, Any]], Tensor]


class PackedTrainEngine(TrainEngine):
    """Trains a model with packed sequences, in one process or several.

    Several processes are started by torchrun. Those that share rows (t, c, p) are given the same
    batch, the others each a part of it, which may be empty; all call every method together.

    Log-probabilities are aligned to the token that predicts: entry t belongs to token t + 1. A
    ``loss_mask`` in a batch is aligned the same way, and the vocabulary projection runs at its
    positions only. With ``config.is_critic`` the model has values, aligned alike, in the place of
    log-probabilities.

    Args:
        config: Engine settings.
        weights: The model, shared with an embedded inference engine or not.
    """

    def __init__(self, config: TrainEngineConfig, weights: SharedWeights) -> None:
        self.config = config
        self.weights = weights
        self.lm = weights.lm
        # What several processes share is moved to their devices when it has been cut up.
        is_whole = parallel_of(config).world_size == 1
        self.device = self.lm.device if is_whole else resolve_device()
        self._place: Place | None = None
        self.optimizer: torch.optim.Optimizer | None = None
        self.lr_scheduler: Any = None
        self._is_initialized = False
        self._inference: InferenceEngine | None = None
        self._publisher: WeightPublisher | None = None
        self._check_backend()

    @property
    def module(self) -> nn.Module:
        """What this process has of the model."""
        return self.lm.module

    @classmethod
    @abstractmethod
    def make_model(
        cls,
        config: TrainEngineConfig,
        spec: ModelSpecConfig,
        tokenizer: PreTrainedTokenizerBase,
        dtype: torch.dtype,
        device: torch.device,
    ) -> CausalLM:
        """Make a small model, of the kind that this engine trains, from its description.

        Raises:
            ConfigError: There is no such model, or not with these sizes.
        """

    @classmethod
    @abstractmethod
    def load_model(
        cls,
        config: TrainEngineConfig,
        dtype: torch.dtype,
        device: torch.device,
        fresh_seed: int | None = None,
    ) -> CausalLM:
        """Load the model of ``config.path``; with a seed its sizes alone and random weights.

        Raises:
            ConfigError: There is no such checkpoint, or it cannot be trained here.
        """

    @abstractmethod
    def _check_backend(self) -> None:
        """Refuse settings that this engine cannot serve.

        Raises:
            ConfigError: It names the one.
        """

    # --- life and place

    def create_process_group(self, parallel_strategy: ParallelStrategy | None = None) -> None:
        """Join the processes of a strategy, or of ``config.backend``, where there are several.

        Raises:
            ConfigError: Another number of processes was started, or the strategy is not that of
                ``config.backend``, for which the model has been made.
        """
        own = parallel_of(self.config)
        split = parallel_strategy or own
        if split.world_size != own.world_size:
            raise ConfigError(
                f"the parallel strategy takes {split.world_size} processes and actor.backend "
                f"{self.config.backend!r} {own.world_size}; give both the same split"
            )
        if split.world_size == 1 or self._place is not None:
            return
        join_processes(split.world_size, self.config.backend, self.device)
        self._place = Place(split, self.device.type)

    def initialize(self, addr: Any = None, ft_spec: FinetuneSpec | None = None, **_: Any) -> None:
        """Make the optimiser and its schedule.

        Args:
            addr: Not used: rollouts are generated in this process.
            ft_spec: Length of the run; needed where an optimiser is configured.
        """
        if self.config.gradient_checkpointing:
            self.lm.enable_checkpointing()
        if self.config.disable_dropout:
            self.lm.turn_off_dropout()
        self.create_process_group()
        self._wrap_model()
        if self.config.optimizer is not None:
            if ft_spec is None:
                raise ConfigError(
                    "an engine with an optimiser needs ft_spec, the length of the run"
                )
            parameters = [parameter for _, parameter in self.lm.named_parameters()]
            self.optimizer = make_optimizer(parameters, self.config.optimizer)
            self.lr_scheduler = make_schedule(
                self.optimizer, self.config.optimizer, ft_spec.total_train_steps
            )
        self._is_initialized = True

    def _wrap_model(self) -> None:
        """Share the model among the processes, where there are several."""
        self.lm.wrap(
            None if self._place is None else self._place.dims,
            getattr(torch, self.config.grad_reduce_dtype),
            self._offloads_params,
        )

    @property
    @abstractmethod
    def _offloads_params(self) -> bool:
        """Whether the shards of several processes stay in host memory."""

    @property
    def initialized(self) -> bool:
        return self._is_initialized

    def destroy(self) -> None:
        self.optimizer = self.lr_scheduler = None
        self._is_initialized = False
        if self._publisher is not None:
            self._publisher.close()
            self._publisher = None
        if self._place is not None and dist.is_initialized():
            dist.destroy_process_group()
            self._place = None

    # --- place among the processes

    @property
    def _data_group(self) -> dist.ProcessGroup | None:
        """The processes that see other data, None where this is the only one."""
        return None if self._place is None else self._place.data_group

    def sums_over_data(self, *values: float) -> list[float]:
        """Return the sum of each number over all processes that see other data."""
        return sums_over(self._data_group, *values)

    @property
    def data_parallel_group(self) -> dist.ProcessGroup:
        return self._require_place().data_group

    @property
    def data_parallel_rank(self) -> int:
        return 0 if self._place is None else self._place.data_group.rank()

    @property
    def data_parallel_world_size(self) -> int:
        return 1 if self._place is None else self._place.data_group.size()

    def current_data_parallel_head(self) -> int:
        return 0 if self._place is None else self._place.head

    def is_data_parallel_head(self) -> bool:
        return self._place is None or self._place.head == dist.get_rank()

    @property
    def context_and_model_parallel_group(self) -> dist.ProcessGroup:
        return self._require_place().model_group

    @property
    def cpu_group(self) -> dist.ProcessGroup:
        return self._require_place().cpu_group

    def _require_place(self) -> Place:
        if self._place is None:
            raise RuntimeError("there is no process group: this engine runs in one process")
        return self._place

    # --- training

    def train(self, mode: bool = True) -> PackedTrainEngine:
        self.module.train(mode)
        return self

    def optimizer_zero_grad(self) -> None:
        self._require_optimizer().zero_grad(set_to_none=True)

    def optimizer_step(self) -> dict[str, float]:
        """Clip and apply the gradients; a non-finite norm changes nothing and is told."""
        optimizer, settings = self._require_optimizer(), self.config.optimizer
        assert settings is not None
        self.lm.finish_gradients()
        parameters = [parameter for _, parameter in self.lm.named_parameters()]
        pp_group = None if self._place is None else self._place.dims.get_group("pp")
        norm = float(clip_grad_norm(parameters, settings.gradient_clipping, pp_group))
        lr = optimizer.param_groups[0]["lr"]
        is_finite = norm - norm == 0.0
        if is_finite:
            with self.weights.writing():
                optimizer.step()
        return {"update_successful": float(is_finite), "grad_norm": norm, "lr": lr}

    def set_lr(self, lr: float) -> None:
        """Set the learning rate that the schedule multiplies."""
        optimizer = self._require_optimizer()
        self.lr_scheduler.base_lrs = [lr for _ in optimizer.param_groups]
        move_schedule(self.lr_scheduler, self.lr_scheduler.last_epoch)

    def use_configured_optimizer(self) -> None:
        """Go on with the rate, decay and coefficients of the configuration after a load.

        Moments and the place in the schedule stay.
        """
        optimizer, settings = self._require_optimizer(), self.config.optimizer
        assert settings is not None
        fresh = make_optimizer([parameter for _, parameter in self.lm.named_parameters()], settings)
        for group, configured in zip(optimizer.param_groups, fresh.param_groups, strict=True):
            group.update({name: configured[name] for name in configured.keys() - {"params"}})
        self.set_lr(settings.lr)

    def lr_scheduler_step(self) -> None:
        self._require_optimizer()
        self.lr_scheduler.step()

    def forward_backward_batch(
        self,
        mb_list: MicroBatchList,
        process_output_fn: Callable[[Tensor, dict[str, Any]], Tensor | None],
        forward_only: bool = False,
    ) -> None:
        """Run packed micro-batches; the function gets the logits [N, V] of what is kept.

        Where other processes have more micro-batches, this one computes nothing as often as it
        takes. Where layers are shared out, only processes with the last ones call the function.
        """
        self._run(mb_list, process_output_fn, forward_only)

    def _run(
        self,
        mb_list: MicroBatchList,
        process_output_fn: Callable[[Any, dict[str, Any]], Tensor | None],
        forward_only: bool = False,
        chunk_size: int | None = None,
    ) -> None:
        """Do the same; with a size of chunks the function may get ``HeadInputs`` of longer ones."""
        mbs = [item.mb for item in mb_list]
        count = self.lm.count(largest_over(self._data_group, len(mbs)))
        batches = [self._inputs(mb, _kept_positions(mb)) for mb in mbs]
        batches += [self._inputs(*_idle(self.device))] * (count - len(mbs))

        def process(number: int, logits: Any) -> Tensor | None:
            return process_output_fn(logits, mbs[number]) if number < len(mbs) else logits.sum()

        self.lm.run(batches, process, forward_only, chunk_size)

    def from_last_layers(self, value: T) -> T:
        """Return what was passed by a process that has the last layers.

        Loss functions run only there. What they note, every process gets by this.
        """
        return self.lm.from_last_layers(value)

    def train_batch(
        self, input_: Trajectory | list[Trajectory], loss_fn: LossFn, loss_weight_fn: LossWeightFn
    ) -> dict[str, float]:
        mb_list = self._split(input_)
        self.optimizer_zero_grad()
        weights = {id(mb): float(loss_weight_fn(mb)) for mb in mb_list.mbs}
        (total,) = self.sums_over_data(sum(weights.values()))
        if not total:
            raise ValueError("no token of the batch carries loss; check loss_mask")

        def weighted_loss(logits: Tensor | HeadInputs, mb: dict[str, Any]) -> Tensor:
            # Gradients are averaged over the processes, and their losses must add up.
            share = weights[id(mb)] * self.data_parallel_world_size / total
            loss = self._loss(logits, mb, loss_fn)
            # The mean over no token may be anything.
            return loss * share if share else logits.sum() * 0.0

        self._run(mb_list, weighted_loss, chunk_size=self.config.logprobs_chunk_size)
        return self.optimizer_step()

    def eval_batch(
        self, input_: Trajectory | list[Trajectory], loss_fn: LossFn, loss_weight_fn: LossWeightFn
    ) -> Tensor | None:
        mb_list = self._split(input_)
        weights = {id(mb): float(loss_weight_fn(mb)) for mb in mb_list.mbs}
        weighted = [torch.zeros((), device=self.device)]

        def note(logits: Tensor, mb: dict[str, Any]) -> None:
            loss = self._loss(logits, mb, loss_fn)
            # The mean over no token may be anything.
            if weights[id(mb)]:
                weighted.append(loss * weights[id(mb)])

        self._run(mb_list, note, True, self.config.logprobs_chunk_size)
        value, total = torch.stack(weighted).sum(), sum(weights.values())
        if self._data_group is not None:
            number, total = self.sums_over_data(float(value), total)
            value = torch.tensor(self.from_last_layers(number))
        return value / total if total else None

    @torch.no_grad()
    def forward_batch(
        self,
        input_: Trajectory | list[Trajectory],
        output_seqlens: list[int] | None = None,
        aggregate_fn: Callable[[list[Tensor]], Tensor] | None = None,
    ) -> Tensor:
        """Return log-probabilities [B, L]; entry t is token t + 1's, 0.0 where loss_mask is 0.

        A critic's entry t is the value of the state that ends with token t.

        Args:
            input_: Padded batch or trajectories. Without ``loss_mask`` every position counts. No
                trajectories at all give [0, 0].
            output_seqlens: Not used: the output has the input's shape.
            aggregate_fn: Not used.
        """
        mb_list = self._split(input_)
        packed = {
            id(mb): torch.zeros(len(mb["input_ids"]), device=self.device) for mb in mb_list.mbs
        }

        def note(logits: Tensor, mb: dict[str, Any]) -> None:
            packed[id(mb)] = self._outputs(logits, mb)[0]

        self._run(mb_list, note, True, self.config.logprobs_chunk_size)
        if not packed:
            mask_BL = mb_list.data.get("attention_mask", torch.zeros(0, 0))
            return torch.zeros(mask_BL.shape, device=self.device)
        tokens = self.from_last_layers(torch.cat(list(packed.values())))
        return mb_list.merge_tokens([tokens])

    # --- one micro-batch

    def _split(self, input_: Trajectory | list[Trajectory]) -> MicroBatchList:
        batch = concat_padded_tensors(input_) if isinstance(input_, list) else input_
        if not len(batch.get("attention_mask", ())):
            return MicroBatchList(batch, self.config.mb_spec, [], [], [])
        spec = self.config.mb_spec
        if (stages := self.lm.count(1)) > 1:
            # Fewer micro-batches than stages would leave processes idle.
            spec = dataclasses.replace(spec, n_mbs=max(spec.n_mbs or 1, stages))
        try:
            mb_list = split_padded_tensor_dict_into_mb_list(batch, spec)
        except ValueError as error:
            raise ConfigError(
                f"{error}; choose granularity and n_mbs_divisor by the rows of a minibatch"
            ) from error
        return pack_mb_list(mb_list.to(self.device))

    def _inputs(self, mb: dict[str, Any], keep_N: Tensor) -> PackedInputs:
        """Return a packed micro-batch as the model takes it."""
        seqlens_B = mb["cu_seqlens"].diff()
        starts_T = torch.repeat_interleave(mb["cu_seqlens"][:-1], seqlens_B)
        tokens_T = mb["input_ids"].long()
        positions_T = torch.arange(len(tokens_T), device=self.device) - starts_T
        lengths = seqlens_B.tolist()
        places = distances_UC = None
        shares = self.lm.shares_tokens and len(keep_N)
        distinct = distinct_tokens(tokens_T, lengths, keep_N) if shares else None
        if distinct is not None:
            tokens_T, positions_T = distinct.tokens_U, distinct.positions_U
            lengths, keep_N = distinct.lengths, distinct.keep_N
            places, distances_UC = distinct.places, distinct.distances_UC
        padding = even_size(len(tokens_T)) - len(tokens_T) if self.device.type == "cpu" else 0
        if padding:
            # A sequence of its own, which no kept position sees. Its positions do not matter, but a
            # model has only so many.
            lengths.append(padding)
            if places is not None:
                places = torch.cat([places, torch.arange(padding) + len(tokens_T)])
            if distances_UC is not None:
                # Padding has to see something, if only itself.
                missing = max(0, padding - distances_UC.shape[1])
                distances_UC = F.pad(
                    F.pad(distances_UC, (0, missing), value=-1), (0, 0, 0, padding)
                )
            tokens_T, positions_T = (F.pad(x, (0, padding)) for x in (tokens_T, positions_T))
        sights = self._sights(mb)
        return PackedInputs(tokens_T, positions_T, lengths, keep_N, sights, places, distances_UC)

    def _sights(self, mb: dict[str, Any]) -> list[Sight | None]:
        """Return what each sequence of a packed micro-batch looks at; [] for text alone."""
        inputs = mb.get(MULTI_MODAL_PREFIX)
        if not inputs or not isinstance(self.lm, ImageTextLM):
            return []
        sequences = unpack_sequence(mb["input_ids"], mb["cu_seqlens"])
        lm, pairs = self.lm, zip(sequences, inputs, strict=True)
        return [lm.see(tokens.tolist(), features) for tokens, features in pairs]

    def _outputs(self, logits_NV: Tensor | HeadInputs, mb: dict[str, Any]) -> tuple[Tensor, ...]:
        """Return log-probabilities and entropies, or a critic's values, [T], 0.0 at no loss."""
        keep_N = _kept_positions(mb)
        tokens_T = mb["input_ids"]
        how = (tokens_T.roll(-1)[keep_N].long(), self.config.temperature)
        how = (*how, self.config.logprobs_chunk_size)
        if isinstance(logits_NV, HeadInputs):
            inputs = logits_NV
            logprobs_N, entropy_N = head_logprobs_entropy(
                inputs.hidden_ND, inputs.head, inputs.parameters, *how
            )
            outputs: tuple[Tensor, ...] = (logprobs_N, entropy_N.detach())
        elif self.config.is_critic:
            outputs = (logits_NV.squeeze(1).float(),)
        else:
            logprobs_N, entropy_N = gather_logprobs_entropy(logits_NV, *how)
            outputs = (logprobs_N, entropy_N.detach())
        zeros_T = torch.zeros(len(tokens_T), dtype=outputs[0].dtype, device=self.device)
        return tuple(zeros_T.index_put((keep_N,), each_N) for each_N in outputs)

    def _loss(self, logits_NV: Tensor | HeadInputs, mb: dict[str, Any], loss_fn: LossFn) -> Tensor:
        return loss_fn(*self._outputs(logits_NV, mb), mb)

    def _require_optimizer(self) -> torch.optim.Optimizer:
        if self.optimizer is None:
            raise RuntimeError(
                "the engine has no optimiser; configure actor.optimizer and call initialize()"
            )
        return self.optimizer

    # --- rollouts, weights, files

    def connect_engine(self, engine: InferenceEngine, meta: WeightUpdateMeta | None = None) -> None:
        """Name the inference engine; an embedded one over these weights needs no transfer."""
        self._inference = engine

    @property
    def inference_engine(self) -> InferenceEngine | None:
        """What is connected; None before."""
        return self._inference

    def update_weights(self, meta: WeightUpdateMeta) -> None:
        """Give the connected engine the weights: nothing moves where they are shared.

        All processes that train the model call it together; the first one is connected.

        Raises:
            ConfigError: ``meta`` names a way that there is not.
        """
        engine = self._require_inference() if is_first() else None
        if getattr(engine, "weights", None) is self.weights:
            return
        if self._publisher is None:
            # Runs in one process have no use for it.
            from areal.engine.weight_sync import WeightPublisher

            # Where each process has connected one, the first one's does the talking.
            inference: Any = self._inference if is_first() else None
            write = self.lm.write if meta.use_lora else self.lm.write_merged
            self._publisher = WeightPublisher(
                write, self.lm.full_parameters, inference, self.device
            )
        self._publisher.publish(meta)

    def full_parameters(self, dtype: torch.dtype | None = None) -> Iterator[tuple[str, Tensor]]:
        """Yield every tensor of the model under its name on the Hub; all processes iterate.

        What several processes share is gathered layer by layer; nothing is kept.

        Args:
            dtype: Of floating-point tensors; None keeps what they have.
        """
        return self.lm.full_parameters(dtype)

    def rollout_batch(self, *args: Any, **kwargs: Any) -> list[Trajectory]:
        return self._require_inference().rollout_batch(*args, **kwargs)

    def prepare_batch(
        self, dataloader: Iterable[Any], *args: Any, **kwargs: Any
    ) -> list[Trajectory]:
        return self._require_inference().prepare_batch(dataloader, *args, **kwargs)

    def _require_inference(self) -> InferenceEngine:
        if self._inference is None:
            raise RuntimeError("no inference engine is connected; call connect_engine() first")
        return self._inference

    def set_version(self, version: int) -> None:
        self.weights.version = version

    def get_version(self) -> int:
        return self.weights.version

    def save(self, meta: SaveLoadMeta) -> None:
        """Save the model as Hugging Face safetensors, and beside it the optimiser where asked.

        Of a model that has an adapter, the adapter alone is saved, as peft does it.
        """
        with atomic_folder(meta.path) as folder:
            # A processor writes its tokenizer too.
            self.lm.write(folder, meta.processor or meta.tokenizer)
            if meta.with_optim:
                save_training_state(
                    folder, self.lm.named_parameters(), self._require_optimizer(), self.lr_scheduler
                )

    def stage(self, meta: SaveLoadMeta) -> Callable[[], None]:
        """Copy the model to host memory; all processes that share it call this.

        Args:
            meta: As for ``save``, without the optimiser.

        Returns:
            What writes the copy as ``save`` writes the model, in any thread.
        """
        assert not meta.with_optim, "a checkpoint to resume from is written between two steps"
        write = self.lm.stage()
        is_writer = is_first()

        def finish() -> None:
            if is_writer:
                with staged_folder(Path(meta.path)) as folder:
                    write(folder, meta.processor or meta.tokenizer)

        return finish

    def save_merged(self, meta: SaveLoadMeta) -> None:
        """Save the whole model, with an adapter merged into its weights."""
        with atomic_folder(meta.path) as folder:
            self.lm.write_merged(folder, meta.processor or meta.tokenizer)

    def load(self, meta: SaveLoadMeta) -> None:
        """Load what ``save`` saved."""
        with self.weights.writing():
            self.lm.read(meta.path)
        if meta.with_optim:
            load_training_state(
                meta.path, self.lm.named_parameters(), self._require_optimizer(), self.lr_scheduler
            )
            # What was saved are the rates of the length that the run had then.
            move_schedule(self.lr_scheduler, self.lr_scheduler.last_epoch)

    def onload(self) -> None:
        self.module.to(self.device)

    def offload(self) -> None:
        self.module.to("cpu")

    def get_device_stats(self) -> dict[str, float]:
        """Return the device memory that PyTorch holds, now and at most, in GiB; {} on a CPU."""
        if self.device.type != "cuda":
            return {}
        return {
            "memory_allocated": torch.cuda.memory_allocated(self.device) / 2**30,
            "memory_peak": torch.cuda.max_memory_allocated(self.device) / 2**30,
        }

    def export_stats(self) -> dict[str, float]:
        """Return nothing of its own: statistics of losses go to ``stats_tracker``."""
        return {}


class HFTrainEngine(PackedTrainEngine):
    """Trains a Hugging Face model."""

    @classmethod
    def make_model(
        cls,
        config: TrainEngineConfig,
        spec: ModelSpecConfig,
        tokenizer: PreTrainedTokenizerBase,
        dtype: torch.dtype,
        device: torch.device,
    ) -> CausalLM:
        where, is_whole = model_device(config, device)
        return as_causal_lm(make_model(spec, tokenizer, dtype, where, is_whole, config.is_critic))

    @classmethod
    def load_model(
        cls,
        config: TrainEngineConfig,
        dtype: torch.dtype,
        device: torch.device,
        fresh_seed: int | None = None,
    ) -> CausalLM:
        if config.use_lora:
            return load_with_adapter(config, dtype, device)
        where, is_whole = model_device(config, device)
        return as_causal_lm(
            load_model(config.path, dtype, where, fresh_seed, is_whole, config.is_critic)
        )

    def get_lora_adapter_info(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of each matrix of the adapter by its name in the file; {} without."""
        if not self.config.use_lora:
            return {}
        return {name: tuple(each.shape) for name, each in self.lm.named_parameters()}

    def _check_backend(self) -> None:
        allocation = ModelAllocation.from_str(self.config.backend)
        if allocation.backend != "fsdp":
            raise ConfigError(f"actor.backend {self.config.backend!r} is not an fsdp backend")
        if self._offloads_params and allocation.parallel.world_size == 1:
            raise ConfigError(
                "actor.fsdp.offload_params moves the shards of several processes to the CPU; with "
                "one process set it to false"
            )

    def _wrap_model(self) -> None:
        if self._place is None:
            super()._wrap_model()
            return
        # A plan of transformers that leaves something out would train another model.
        was_training = self.module.training
        self.module.eval()
        expected = apart_logits(self.lm).to(self.device)
        super()._wrap_model()
        found, where = apart_logits(self.lm), f"as {self.config.backend}"
        check_equal(self.module, expected, found, where, "it cannot be split in this way")
        self.module.train(was_training)

    @property
    def _offloads_params(self) -> bool:
        return self.config.fsdp.offload_params


def parallel_of(config: TrainEngineConfig) -> ParallelStrategy:
    """Return in how many parts the backend string of an engine splits each axis."""
    return ModelAllocation.from_str(config.backend).parallel


def model_device(config: TrainEngineConfig, device: torch.device) -> tuple[torch.device, bool]:
    """Return where a model is made, and whether it stays whole.

    One that several processes share need not fit on a device: it is made in host memory.
    """
    is_whole = parallel_of(config).world_size == 1
    return device if is_whole else torch.device("cpu"), is_whole


def _idle(device: torch.device) -> tuple[dict[str, Any], Tensor]:
    """Return a micro-batch of one token and no position of it."""
    mb = {
        "input_ids": torch.zeros(1, dtype=torch.int64, device=device),
        "cu_seqlens": torch.tensor([0, 1], dtype=torch.int32, device=device),
    }
    return mb, torch.zeros(0, dtype=torch.int64, device=device)


def _kept_positions(mb: dict[str, Any]) -> Tensor:
    """Return the packed positions whose next token carries loss, [N]."""
    cached = mb.get("_keep_N")
    if cached is None:
        if "loss_mask" in mb:
            cached = mb["loss_mask"].nonzero().squeeze(1)
        else:
            cached = torch.ones_like(mb["input_ids"], dtype=torch.bool)
            cached[mb["cu_seqlens"][1:].long() - 1] = False
            cached = cached.nonzero().squeeze(1)
        mb["_keep_N"] = cached
    return cached
