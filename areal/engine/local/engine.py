"""The embedded inference engine: an asyncio front over a decode thread."""

from __future__ import annotations

import asyncio
import base64
import functools
import itertools
import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import torch

from areal.api.cli_args import InferenceEngineConfig
from areal.api.engine_api import InferenceEngine
from areal.api.errors import ConfigError, NoRoomError
from areal.api.io_struct import ModelRequest, ModelResponse, WeightUpdateMeta
from areal.engine.local.decoder import Decoder, FinishedRow, Row
from areal.engine.local.sampling import check_generation
from areal.engine.model.image_text import ImageTextLM, Sight
from areal.engine.model.lora import put_adapter
from areal.engine.model.shared_weights import SharedWeights
from areal.infra import workflow_context
from areal.infra.episode_gauge import EpisodeGauge
from areal.infra.sampling_seeds import SamplingSeeds
from areal.infra.workflow_executor import WorkflowExecutor
from areal.utils.image import process_vision_prompt

logger = logging.getLogger("LocalInferenceEngine")

# Rows that decode together; further requests wait their turn.
MAX_RUNNING_ROWS = 1024
# Keys and values cached at most before new requests have to wait, in bytes.
MAX_CACHE_BYTES = 4 << 30


@dataclass
class _Call:
    """Joins a row to the coroutine that waits for it."""

    future: asyncio.Future[FinishedRow]
    loop: asyncio.AbstractEventLoop


@dataclass
class _Inbox:
    """Collects the requests of one event loop until its current round of callbacks is over."""

    rows: list[Row] = field(default_factory=list)
    is_scheduled: bool = False


class LocalInferenceEngine(InferenceEngine):
    """Generates with a model in this process, by continuous batching in a thread of its own.

    Requests that reach the engine in the same round of the event loop are prefilled together, equal
    prompts once.

    Args:
        config: Rollout settings.
        weights: The model, shared with the trainer or not.
        seed: Of the sampling streams.
    """

    def __init__(
        self, config: InferenceEngineConfig, weights: SharedWeights, seed: int = 1
    ) -> None:
        self.config = config
        self.weights = weights
        weights.lm.require_plans()
        self._decoder = Decoder(weights.lm, seed)
        self._max_length = weights.lm.max_length
        self._num_embeddings = weights.lm.num_embeddings
        self._condition = threading.Condition()
        self._waiting: list[Row] = []
        self._inboxes: dict[asyncio.AbstractEventLoop, _Inbox] = {}
        # The samples of a group ask one after the other, with the same images.
        self._see = functools.lru_cache(maxsize=8)(self._prepare_images)
        self._seeds = SamplingSeeds(seed, config.deterministic_sampling)
        self._is_paused = False
        self._num_rows = itertools.count()
        # Request ids, None for all, with the number of the first row that came too late.
        self._aborted: list[tuple[str | None, int]] = []
        self._is_stopped = True
        self._gauge: EpisodeGauge | None = None
        self._thread: threading.Thread | None = None
        self._executor: WorkflowExecutor | None = None

    # --- life

    @property
    def initialized(self) -> bool:
        return self._thread is not None

    @property
    def is_alive(self) -> bool:
        """True while the decode thread takes requests; an unforeseen error ends it."""
        return self._thread is not None and not self._is_stopped

    @property
    def is_paused(self) -> bool:
        """True between ``pause_generation`` and ``continue_generation``."""
        return self._is_paused

    @property
    def max_length(self) -> int:
        """How many tokens prompt and answer may have together, by the model."""
        return self._max_length

    def initialize(
        self,
        addr: Any = None,
        ft_spec: Any = None,
        train_data_parallel_size: int | None = None,
        **_: Any,
    ) -> None:
        """Start the decode thread and the executor; a second call changes nothing.

        Args:
            addr: Not used: the engine is in this process.
            ft_spec: Not used.
            train_data_parallel_size: Replicas that consume the rollouts.
        """
        if self.initialized:
            return
        self._is_stopped = False
        self._thread = threading.Thread(
            target=self._decode_forever, name="areal-decode", daemon=True
        )
        self._thread.start()
        self._executor = WorkflowExecutor(self.config, self)
        self._executor.initialize(train_data_parallel_size=train_data_parallel_size)

    def destroy(self) -> None:
        if self._executor is not None:
            self._executor.destroy()
            self._executor = None
        with self._condition:
            self._is_stopped = True
            self._condition.notify_all()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    @property
    def workflow_executor(self) -> WorkflowExecutor:
        if self._executor is None:
            raise RuntimeError("the engine is not running; call initialize() first")
        return self._executor

    def set_episode_gauge(self, gauge: EpisodeGauge) -> None:
        """Make every decode step wait until all live episodes wait for an answer.

        So the rows of each step, and with them the last bits of each log-probability, depend on the
        episodes alone and not on timing.
        """
        self._gauge = gauge
        gauge.set_listener(self.notify)

    def notify(self) -> None:
        """Wake the decode thread to look at what changed."""
        with self._condition:
            self._condition.notify_all()

    # --- generation

    async def agenerate(self, req: ModelRequest) -> ModelResponse:
        """Generate one answer.

        Raises:
            ValueError: More than one sample is asked for, the prompt is empty, or it and the images
                do not belong together.
            ConfigError: A sampling option is out of range or unknown here.
            RuntimeError: The prompt leaves no room for an answer, or the engine is not running.
        """
        row = self._make_row(req)
        loop = asyncio.get_running_loop()
        call = _Call(loop.create_future(), loop)
        row.handle = call
        self._enqueue(loop, row)
        try:
            done = await call.future
        except asyncio.CancelledError:
            row.is_dropped = True
            self.notify()
            raise
        return ModelResponse(
            input_tokens=row.prompt,
            output_tokens=done.tokens,
            output_logprobs=done.logprobs,
            output_versions=done.versions,
            stop_reason=done.stop_reason,
            tokenizer=req.tokenizer,
            input_images=list(req.image_data or ()),
            processor=req.processor,
            latency=time.perf_counter() - row.started,
            ttft=row.first_token_at - row.started,
        )

    def _make_row(self, req: ModelRequest) -> Row:
        gconfig = req.gconfig
        if not self.initialized:
            raise RuntimeError("the engine is not running; call initialize() first")
        if gconfig.n_samples != 1:
            raise ValueError(
                f"agenerate makes one sample, n_samples is {gconfig.n_samples}; call it for each"
            )
        check_generation(gconfig)
        prompt = list(req.input_ids)
        if not prompt:
            raise ValueError("input_ids is empty; an answer needs at least one prompt token")
        if not 0 <= min(prompt) <= max(prompt) < self._num_embeddings:
            # In a batch such a token would fail the rows of every other episode too.
            wrong = next(t for t in prompt if not 0 <= t < self._num_embeddings)
            raise ValueError(
                f"input_ids holds the token {wrong}; the model has tokens 0 to "
                f"{self._num_embeddings - 1}. Is the tokenizer another model's?"
            )
        if gconfig.stop and req.tokenizer is None:
            raise ConfigError("gconfig.stop needs ModelRequest.tokenizer to look for stop strings")
        sight = self._sight(req, prompt)
        room = min(gconfig.max_tokens, self._max_length) - len(prompt)
        if room <= 0:
            raise NoRoomError(
                f"the prompt has {len(prompt)} tokens and leaves no room to answer: max_tokens is "
                f"{gconfig.max_tokens}, the model's context {self._max_length}"
            )
        return Row(
            prompt=prompt,
            gconfig=gconfig.new(),
            limit=min(room, gconfig.max_new_tokens),
            tokenizer=req.tokenizer,
            stream_key=self._seeds.key_of(gconfig.seed),
            rid=req.rid,
            number=next(self._num_rows),
            episode=_current_episode(),
            sight=sight,
            look=tuple(req.image_data or ()),
        )

    def _sight(self, req: ModelRequest, prompt: list[int]) -> Sight | None:
        """Return the images of a request, as its processor prepares them for the model.

        Raises:
            ValueError: The model takes none, or they and the prompt do not belong together.
        """
        lm = self.weights.lm
        if not isinstance(lm, ImageTextLM):
            if req.image_data:
                raise ValueError(
                    "the request has images and the model takes text alone; name an image model "
                    "in actor.path, or leave image_data out"
                )
            return None
        if not req.image_data:
            return lm.see(prompt, {})
        if req.processor is None:
            raise ValueError("image_data needs ModelRequest.processor, which prepares it")
        return self._see(req.processor, tuple(prompt), tuple(req.image_data))

    def _prepare_images(
        self, processor: Any, prompt: tuple[int, ...], image_data: tuple[str, ...]
    ) -> Sight | None:
        lm = self.weights.lm
        assert isinstance(lm, ImageTextLM)
        images = [base64.b64decode(data) for data in image_data]
        # One placeholder an image; the prompt itself has been through the processor already.
        text = processor.image_token * len(images)
        return lm.see(prompt, process_vision_prompt(processor, text, images).features)

    def _enqueue(self, loop: asyncio.AbstractEventLoop, row: Row) -> None:
        inbox = self._inboxes.setdefault(loop, _Inbox())
        inbox.rows.append(row)
        if not inbox.is_scheduled:
            inbox.is_scheduled = True
            loop.call_soon(self._hand_over, loop)

    def _hand_over(self, loop: asyncio.AbstractEventLoop) -> None:
        inbox = self._inboxes.pop(loop)
        with self._condition:
            if not self._is_stopped:
                self._waiting.extend(inbox.rows)
                self._condition.notify_all()
                return
        self._fail(inbox.rows, _shut_down())

    @torch.inference_mode()
    def score(self, tokens: Sequence[int], temperature: float = 1.0) -> list[float]:
        """Return the log-probability of each token but the first, given those before it.

        Args:
            tokens: Of one sequence.
            temperature: Divides the logits.

        Raises:
            ValueError: The model has no such token, or no room for so many.
        """
        lm = self.weights.lm
        if (
            len(tokens) > self._max_length
            or not 0 <= min(tokens) <= max(tokens) < lm.num_embeddings
        ):
            raise ValueError(
                f"{len(tokens)} tokens up to {max(tokens)}; the model takes {self._max_length}, "
                f"up to {lm.num_embeddings - 1}"
            )
        ids = torch.tensor(tokens, device=lm.device)
        with self.weights.reading():
            logits = lm.logits(ids, torch.arange(len(ids), device=lm.device), [len(ids)])
        logprobs = (logits[:-1].float() / temperature).log_softmax(-1)
        return logprobs.gather(-1, ids[1:, None]).squeeze(-1).tolist()

    def pause_generation(self) -> None:
        """Stop decoding after the running step; answers in the making stay and are resumed."""
        with self._condition:
            self._is_paused = True

    def continue_generation(self) -> None:
        with self._condition:
            self._is_paused = False
            self._condition.notify_all()

    def abort_requests(self, rid: str | None = None) -> None:
        """End answers in the making: they return what they have, with the stop reason "abort".

        Args:
            rid: Of one request; None aborts all, those included that wait for their turn.
        """
        with self._condition:
            self._aborted.append((rid, next(self._num_rows)))
            self._condition.notify_all()

    # --- the decode thread

    def _decode_forever(self) -> None:
        error: BaseException = _shut_down()
        try:
            while (admitted := self._wait_for_work()) is not None:
                self._step(admitted)
        except BaseException as fault:
            # Not the model's, which _step expects: nobody may wait for a thread that is gone.
            logger.exception("the decode thread of the embedded engine failed")
            error = fault
        with self._condition:
            self._is_stopped = True
            pending = self._waiting + self._decoder.abort()
            self._waiting = []
        self._fail(pending, error)

    def _wait_for_work(self) -> list[Row] | None:
        """Wait until a step can be taken.

        Returns:
            The rows that join with it, taken at that very moment; None where the engine stopped.
        """
        with self._condition:
            while not self._is_stopped:
                # Before any step: after abort_requests no answer grows.
                if self._aborted:
                    self._deliver(self._take_aborted())
                elif self._can_step():
                    return self._admit()
                else:
                    self._condition.wait()
        return None

    def _take_aborted(self) -> list[FinishedRow]:
        aborted, self._aborted = self._aborted, []

        def is_aborted(row: Row) -> bool:
            return any(row.number < limit and rid in (None, row.rid) for rid, limit in aborted)

        waiting = [row for row in self._waiting if is_aborted(row)]
        self._waiting = [row for row in self._waiting if not is_aborted(row)]
        return [
            *self._decoder.interrupt(is_aborted),
            *(FinishedRow(row, [], [], [], "abort") for row in waiting),
        ]

    def _step(self, admitted: list[Row]) -> None:
        """Decode one token for every row; an error costs the rows that it hits, not the engine."""
        decoder, finished = self._decoder, []
        with self.weights.reading():
            decoder.version, decoder.num_updates = self.weights.version, self.weights.num_updates
            try:
                finished += decoder.advance()
            except Exception as error:
                self._fail(decoder.abort(), _fault(error))
            concerned = [*decoder.waiting, *admitted]
            try:
                finished += decoder.admit(admitted)
            except Exception as error:
                self._fail(concerned, _fault(error))
        self._deliver(finished)

    def _can_step(self) -> bool:
        if self._is_paused or not (self._waiting or self._decoder.rows):
            return False
        if self._gauge is None:
            return True
        rows = [*self._waiting, *self._decoder.rows]
        # Not the requests: an episode may ask several times at once.
        episodes = {row.episode for row in rows if row.episode and not row.is_dropped}
        return self._gauge.may_step(len(episodes))

    def _admit(self) -> list[Row]:
        """Take as many waiting rows as there is room for."""
        if not self._waiting:
            return []
        if self.config.deterministic_sampling:
            self._waiting.sort(key=lambda row: row.stream_key or ())
        decoder = self._decoder
        num_bytes = sum(decoder.slots.bytes_of(row.length) for row in decoder.rows)
        count, room = 0, MAX_RUNNING_ROWS - len(decoder.rows)
        for row in self._waiting[:room]:
            num_bytes += decoder.slots.bytes_of(row.length)
            if num_bytes > MAX_CACHE_BYTES and (count or decoder.rows):
                break
            count += 1
        admitted, self._waiting = self._waiting[:count], self._waiting[count:]
        return admitted

    def _deliver(self, finished: Sequence[FinishedRow]) -> None:
        by_loop: dict[asyncio.AbstractEventLoop, list[FinishedRow]] = {}
        for done in finished:
            by_loop.setdefault(done.row.handle.loop, []).append(done)
        for loop, group in by_loop.items():
            self._call_in(loop, lambda group=group: [_resolve(done) for done in group])

    def _fail(self, rows: Sequence[Row], error: BaseException) -> None:
        for row in rows:
            call: _Call = row.handle
            self._call_in(call.loop, lambda future=call.future: _reject(future, error))

    @staticmethod
    def _call_in(loop: asyncio.AbstractEventLoop, callback: Callable[[], Any]) -> None:
        try:
            loop.call_soon_threadsafe(callback)
        except RuntimeError:
            # The loop was closed: nobody waits for the answer any more.
            return

    # --- weights

    def set_version(self, version: int) -> None:
        self.weights.version = version
        if self._executor is not None:
            self._executor.staleness_manager.notify_version_changed()

    def get_version(self) -> int:
        return self.weights.version

    def update_weights_from_disk(self, meta: WeightUpdateMeta) -> Future[None]:
        """Load safetensors of the same model from ``meta.path``, or a LoRA adapter, into it."""
        if meta.path is None:
            raise ConfigError("a weight update from disk needs meta.path")
        future: Future[None] = Future()
        if meta.use_lora:
            put_adapter(self.weights, meta.path)
        else:
            with self.weights.writing():
                self.weights.lm.read(meta.path)
        if meta.version is not None:
            self.set_version(meta.version)
        future.set_result(None)
        return future

    def random_state(self) -> Any:
        """Return the state of the shared sampling stream; no generation may be under way."""
        return self._decoder.random_state()

    def set_random_state(self, state: Any) -> None:
        """Continue the sampling stream from ``random_state``."""
        self._decoder.set_random_state(state)

    # --- rollouts: the executor's business

    def submit(self, *args: Any, **kwargs: Any) -> int:
        return self.workflow_executor.submit(*args, **kwargs)

    def wait(self, *args: Any, **kwargs: Any) -> list[dict[str, Any] | None]:
        return self.workflow_executor.wait(*args, **kwargs)

    def wait_for_task(self, *args: Any, **kwargs: Any) -> dict[str, Any] | None:
        return self.workflow_executor.wait_for_task(*args, **kwargs)

    def rollout_batch(self, *args: Any, **kwargs: Any) -> list[dict[str, Any]]:
        return self.workflow_executor.rollout_batch(*args, **kwargs)

    def prepare_batch(self, *args: Any, **kwargs: Any) -> list[dict[str, Any]]:
        return self.workflow_executor.prepare_batch(*args, **kwargs)

    def pause(self) -> None:
        self.workflow_executor.pause()

    def resume(self) -> None:
        self.workflow_executor.resume()

    def export_stats(self) -> dict[str, float]:
        return self.workflow_executor.export_stats()


def _current_episode() -> tuple[int, int] | None:
    """Return task and sample of the episode whose coroutine is running, if any is."""
    context = workflow_context.get()
    return None if context.task_id is None else (context.task_id, context.sample_idx or 0)


def _fault(error: Exception) -> RuntimeError:
    """Return an error that blames no request: any row of the step may be the cause."""
    if isinstance(error, RuntimeError):
        return error
    fault = RuntimeError(f"a decode step failed: {type(error).__name__}: {error}")
    fault.__cause__ = error
    return fault


def _shut_down() -> RuntimeError:
    return RuntimeError("the embedded engine was shut down")


def _resolve(done: FinishedRow) -> None:
    future = done.row.handle.future
    if not future.done():
        future.set_result(done)


def _reject(future: asyncio.Future[Any], error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)
