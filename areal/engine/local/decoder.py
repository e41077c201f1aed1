"""Continuous batching without threads: rows come, grow by a token a step, and go.

Shape letters: R rows, V vocabulary, W width of the output buffers.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from areal.api.cli_args import GenerationHyperparameters
from areal.api.errors import TrainingError
from areal.api.io_struct import StopReason
from areal.engine.local.sampling import SamplingBatch, sample_tokens
from areal.engine.local.slots import PiecePlan, SlotCache, SlotGroups
from areal.engine.local.token_step import NotStraightError, TokenStep
from areal.engine.model.causal_lm import CausalLM, HFCausalLM, PackedInputs
from areal.engine.model.image_text import ImageTextLM, Sight
from areal.infra.sampling_seeds import stream_seed

logger = logging.getLogger("Decoder")

FIRST_WIDTH = 16
UNIFORM_BLOCK = 64
# Tokens that are prefilled between two decode steps, which wait for them: about as long as ten
# steps of 64 rows. A prompt of more than a share of them is prefilled in pieces of that share, so
# that shorter ones need not wait for it.
MAX_PREFILL_TOKENS = 2048
PIECE_SHARE = 4


@dataclass(eq=False)
class Row:
    """One answer in the making.

    Args:
        prompt: Token ids.
        gconfig: How to sample; ``stop_token_ids`` end the answer.
        limit: Tokens to generate at most.
        tokenizer: Needed for stop strings only.
        stream_key: Integers that name the row's own random stream; None draws from the decoder's.
        rid: Names the request, so that it can be aborted.
        number: In the order in which requests came.
        episode: Names the episode that asked, if one did.
        sight: The images of the prompt, where it has any.
        look: Names these images: rows of equal prompts and equal names are prefilled once.
        handle: Whatever the owner wants back with the result.
    """

    prompt: list[int]
    gconfig: GenerationHyperparameters
    limit: int
    tokenizer: Any = None
    stream_key: tuple[int, ...] | None = None
    rid: str = ""
    number: int = 0
    episode: tuple[int, int] | None = None
    sight: Sight | None = None
    look: tuple[str, ...] = ()
    handle: Any = None
    is_dropped: bool = False
    started: float = field(default_factory=time.perf_counter)
    first_token_at: float = 0.0
    # (index of the first output token, weight version it was sampled under), in order.
    version_marks: list[tuple[int, int]] = field(default_factory=list)
    num_generated: int = 0
    _uniforms: list[float] = field(default_factory=list)

    @property
    def length(self) -> int:
        """Tokens of prompt and answer so far."""
        return len(self.prompt) + self.num_generated

    def next_uniform(self) -> float:
        """Return the number in [0, 1) of the row's own stream for its next token.

        Streams are indexed by the place in the whole sequence: an answer that is resumed elsewhere,
        with what it had as its prompt, goes on as it would have.
        """
        block, offset = divmod(self.length, UNIFORM_BLOCK)
        if not self._uniforms or not offset:
            assert self.stream_key is not None
            philox = np.random.Philox(key=stream_seed(self.stream_key), counter=block << 16)
            numbers = np.random.Generator(philox).random(UNIFORM_BLOCK, dtype=np.float32)
            self._uniforms = numbers.tolist()
        return self._uniforms[offset]


@dataclass
class FinishedRow:
    """A complete answer: tokens, log-probabilities, weight versions, and why it ended."""

    row: Row
    tokens: list[int]
    logprobs: list[float]
    versions: list[int]
    stop_reason: StopReason


@dataclass
class _Begun:
    """A sequence that is prefilled in pieces, of which the first tokens are cached."""

    sequence: list[int]
    cache: SlotCache
    num_done: int = 0


class Decoder:
    """Generates with a model over slots of keys and values.

    Args:
        model: How to run it, or a Hugging Face model whose attention follows plans.
        seed: Of the shared random stream.
        max_prefill_tokens: That are prefilled between two decode steps; a prompt with images that
            has more is prefilled at once.

    Attributes:
        rows: Those that decode, and behind them those that wait to be prefilled.
    """

    def __init__(
        self,
        model: nn.Module | CausalLM,
        seed: int = 0,
        max_prefill_tokens: int = MAX_PREFILL_TOKENS,
    ) -> None:
        self.lm = model if isinstance(model, CausalLM) else HFCausalLM(model)
        self.device = self.lm.device
        self.max_prefill_tokens = max_prefill_tokens
        self._piece = max(1, max_prefill_tokens // PIECE_SHARE)
        self.rows: list[Row] = []
        self.version = 0  # what new tokens are labelled with
        self.num_updates = 0  # which weights these are; cached keys and values of others are stale
        self._cached_updates = 0
        self.slots: SlotGroups[Row] = SlotGroups(self.lm.num_layers, self.device)
        self._begun: _Begun | None = None
        self._random = torch.Generator(self.device).manual_seed(seed)
        self._tokens_RW = torch.zeros(0, FIRST_WIDTH, dtype=torch.long, device=self.device)
        self._logprobs_RW = torch.zeros(0, FIRST_WIDTH, device=self.device)
        self._count_R = torch.zeros(0, dtype=torch.long, device=self.device)
        self._position_R = torch.zeros(0, dtype=torch.long, device=self.device)
        self._last_R = torch.zeros(0, dtype=torch.long, device=self.device)
        # Of an answer they would be parts of images that nobody has shown.
        self._banned = self.lm.placeholders if isinstance(self.lm, ImageTextLM) else []
        self._shift_R: Tensor | None = None  # of positions from columns; None where no row has any
        self._step: TokenStep | None = None
        self._step_updates = -1  # the weights for which it was looked at

    # --- the outside

    @property
    def waiting(self) -> list[Row]:
        """The rows that are still to be prefilled."""
        return self.rows[len(self.slots) :]

    @torch.inference_mode()
    def advance(self) -> list[FinishedRow]:
        """Add one token to every row that is prefilled; where none is, prefill the next ones.

        Rows that began under other weights are prefilled again first, so that every log-probability
        is that of one set of weights given all tokens before it. After an error ``abort`` is the
        only way on.

        Returns:
            The rows that are complete now.
        """
        if dropped := {row for row in self.rows if row.is_dropped}:
            self._remove(dropped)
        if not self.rows:
            return []
        if self._cached_updates != self.num_updates:
            self._cached_updates = self.num_updates
            self._forget()
        if len(self.slots):
            self._advance()
        else:
            self._prefill_next()
        return self._take_finished()

    @torch.inference_mode()
    def admit(self, rows: Sequence[Row] = ()) -> list[FinishedRow]:
        """Take up rows, and prefill the next of those that wait; each gets its first token.

        Call it after ``advance``, whose step all rows that decode have then taken. After an error
        it has taken none, and none waits any more.

        Returns:
            Those that are complete already.
        """
        fresh = [row for row in rows if not row.is_dropped]
        concerned = {*self.waiting, *fresh}
        if not concerned:
            return []
        if not self.rows:
            self._cached_updates = self.num_updates
        assert self._cached_updates == self.num_updates
        try:
            self._append(fresh)
            self._prefill_next()
            return self._take_finished()
        except BaseException:
            self._remove(concerned)
            raise

    def abort(self) -> list[Row]:
        """Drop all running rows and return them."""
        dropped = self.rows
        self._remove(set(dropped))
        return dropped

    @torch.inference_mode()
    def interrupt(self, is_wanted: Callable[[Row], bool]) -> list[FinishedRow]:
        """Remove the running rows that are wanted and return what they have so far."""
        order = [i for i, row in enumerate(self.rows) if is_wanted(row)]
        return self._finish(order, ["abort"] * len(order))

    def random_state(self) -> Tensor:
        """Return the state of the shared random stream."""
        return self._random.get_state()

    def set_random_state(self, state: Tensor) -> None:
        """Continue the shared random stream from a state."""
        self._random.set_state(state)

    # --- model calls

    def _prefill_next(self) -> None:
        """Prefill the next of those that wait: a piece of a long one, and short ones together."""
        long = [row for row in self.waiting if self._is_long(row)]
        short = [row for row in self.waiting if not self._is_long(row)]
        room = self.max_prefill_tokens
        if long:
            room -= self._prefill_piece(long)
        else:
            self._begun = None
        if short:
            self._prefill_packed(short, room)

    def _is_long(self, row: Row) -> bool:
        return row.length > self._piece and row.sight is None and self.lm.prefills_in_pieces

    def _prefill_piece(self, rows: list[Row]) -> int:
        """Run the next piece of the first row's sequence, and samples after the last.

        Returns:
            Its tokens.
        """
        sequence = self._sequence(rows[0])
        if self._begun is None or self._begun.sequence != sequence:
            self._begun = _Begun(sequence, SlotCache(self.lm.num_layers, self.device))
        begun = self._begun
        tokens = sequence[begun.num_done : begun.num_done + self._piece]
        size = len(tokens)
        plan = PiecePlan(begun.cache, begun.num_done, size, len(sequence))
        logits_1V = self.lm.logits(
            torch.tensor(tokens, device=self.device),
            torch.arange(begun.num_done, begun.num_done + size, device=self.device),
            [size],
            plan,
            torch.tensor([size - 1], device=self.device),
        )
        begun.num_done += size
        if begun.num_done == len(sequence):
            self._begun = None
            same = [row for row in rows if self._sequence(row) == sequence]
            self.slots.add(same)
            self.slots.copy_prompt(begun.cache, same)
            self._sample_first(same, logits_1V.expand(len(same), -1))
        return size

    def _prefill_packed(self, rows: list[Row], room: int) -> None:
        """Run the sequences of as many rows as there is room for, equal ones once, and samples."""
        distinct: dict[tuple[int | str, ...], int] = {}
        row_prompts: dict[Row, int] = {}
        prompts: list[list[int]] = []
        sights: list[Sight | None] = []
        for row in rows:
            sequence = self._sequence(row)
            number = distinct.setdefault((*sequence, *row.look), len(prompts))
            if number == len(prompts):
                if prompts and len(sequence) > room:
                    break
                room -= len(sequence)
                prompts.append(sequence)
                sights.append(row.sight)
            row_prompts[row] = number
        self.slots.add(row_prompts)
        lengths = [len(s) for s in prompts]
        batch = PackedInputs(
            torch.tensor([t for s in prompts for t in s], device=self.device),
            torch.cat([torch.arange(n) for n in lengths]).to(self.device),
            lengths,
            torch.tensor(lengths).cumsum(0).to(self.device) - 1,
            sights,
        )
        last = self.lm.packed_logits(batch, self.slots.prefill_plan(lengths, row_prompts))
        index = torch.tensor(list(row_prompts.values()), device=self.device)
        self._sample_first(list(row_prompts), last[index])

    def _advance(self) -> None:
        """Run the last token of every row against its cache and samples the next."""
        if self.slots.fit():
            self._arrange()
        num_rows = len(self.slots)
        positions_R = self._position_R[:num_rows]
        plan = self.slots.decode_plan(positions_R)
        if self._shift_R is not None:
            positions_R = positions_R + self._shift_R[:num_rows]
        last_R = self._last_R[:num_rows]
        if step := self._token_step():
            logits_RV = step.logits(last_R, positions_R, plan)
        else:
            logits_RV = self.lm.logits(last_R, positions_R, [1] * num_rows, plan)
        self._sample(slice(0, num_rows), self.rows[:num_rows], logits_RV)

    def _token_step(self) -> TokenStep | None:
        """Return the model's decode step as code; None where it has to run by modules."""
        is_first, is_same = self._step_updates < 0, self._step_updates == self.num_updates
        self._step_updates = self.num_updates
        if is_first or not (is_same or self._step is None or self._step.is_current()):
            try:
                self._step = TokenStep(self.lm)
            except NotStraightError as error:
                self._step = None
                logger.info("decode steps run the modules of the model: %s", error)
        return self._step

    # --- sampling and bookkeeping

    def _sample_first(self, rows: list[Row], logits_RV: Tensor) -> None:
        """Draw a token for rows that have been prefilled."""
        self._arrange()
        place = {row: i for i, row in enumerate(self.rows)}
        index = torch.tensor([place[row] for row in rows], device=self.device)
        self._position_R[index] = torch.tensor([r.length - 1 for r in rows], device=self.device)
        self._sample(index, rows, logits_RV)

    def _sample(self, rows: slice | Tensor, running: list[Row], logits_RV: Tensor) -> None:
        """Draw the next token of some rows and records it.

        Args:
            rows: Where they are.
            running: They themselves.
            logits_RV: The model's output.
        """
        adjusted_RV = self._adjust(rows, running, logits_RV)
        tokens_R, logprobs_R = sample_tokens(
            logits_RV, self._options.of_rows(rows), self._uniforms(running), adjusted_RV
        )
        index = rows
        if isinstance(rows, slice):
            index = torch.arange(rows.start, rows.stop, device=self.device)
        count_R = self._count_R[rows]
        self._widen(max(row.num_generated for row in running) + 1)
        self._tokens_RW[index, count_R] = tokens_R
        self._logprobs_RW[index, count_R] = logprobs_R
        self._last_R[rows] = tokens_R
        self._count_R[rows] += 1
        self._position_R[rows] += 1
        now = time.perf_counter()
        for row in running:
            row.first_token_at = row.first_token_at or now
            if not row.version_marks or row.version_marks[-1][1] != self.version:
                row.version_marks.append((row.num_generated, self.version))
            row.num_generated += 1

    def _uniforms(self, rows: list[Row]) -> Tensor:
        shared = torch.rand(len(rows), generator=self._random, device=self.device)
        for i, row in enumerate(rows):
            if row.stream_key is not None:
                shared[i] = row.next_uniform()
        return shared

    def _adjust(self, rows: slice | Tensor, running: list[Row], logits_RV: Tensor) -> Tensor | None:
        """Return logits to draw from: no early stop tokens or images, penalties; None for all."""
        wanted = [
            (i, row)
            for i, row in enumerate(running)
            if row.gconfig.frequency_penalty or row.num_generated < row.gconfig.min_new_tokens
        ]
        if not wanted and not self._banned:
            return None
        adjusted_RV = logits_RV.float().clone()
        adjusted_RV[:, self._banned] = float("-inf")
        for i, row in wanted:
            if row.gconfig.frequency_penalty:
                seen = self._tokens_RW[rows][i, : row.num_generated]
                counts = torch.bincount(seen, minlength=adjusted_RV.shape[1])
                adjusted_RV[i] -= row.gconfig.frequency_penalty * counts
            if row.num_generated < row.gconfig.min_new_tokens:
                banned = [t for t in row.gconfig.stop_token_ids if 0 <= t < adjusted_RV.shape[1]]
                adjusted_RV[i, banned] = float("-inf")
        return adjusted_RV

    def _take_finished(self) -> list[FinishedRow]:
        """Remove and return the rows whose last token ends them.

        Raises:
            TrainingError: One has NaN for a log-probability; none is removed.
        """
        num_rows = len(self.slots)
        if not num_rows:
            return []
        stop_ids_RS, limit_R = self._stop_ids_RS[:num_rows], self._limit_R[:num_rows]
        is_stop_R = (self._last_R[:num_rows, None] == stop_ids_RS).any(-1)
        is_done_R = is_stop_R | (self._count_R[:num_rows] >= limit_R)
        done = set(is_done_R.nonzero().flatten().tolist()) if bool(is_done_R.any()) else set()
        by_string = {
            i
            for i in self._string_rows
            if i < num_rows and i not in done and self._hits_stop_string(i)
        }
        if not done and not by_string:
            return []
        order = sorted(done | by_string)
        if bool(self._logprobs_RW[order].isnan().any()):
            raise TrainingError(
                "the model gives NaN in place of log-probabilities: its weights have diverged, or "
                "actor.path holds such weights. Lower actor.optimizer.lr, and go on from the last "
                "checkpoint"
            )
        stops = is_stop_R.tolist()
        reasons: list[StopReason] = [
            "stop" if stops[i] or i in by_string or self._hits_stop_string(i) else "length"
            for i in order
        ]
        return self._finish(order, reasons)

    def _finish(self, order: list[int], reasons: list[StopReason]) -> list[FinishedRow]:
        """Remove rows and return what they have generated."""
        if not order:
            return []
        index = torch.tensor(order, device=self.device)
        widest = max(self.rows[i].num_generated for i in order)
        tokens = self._tokens_RW[index, :widest].tolist()
        logprobs = self._logprobs_RW[index, :widest].tolist()
        finished = []
        for k, i in enumerate(order):
            row = self.rows[i]
            n = row.num_generated
            finished.append(
                FinishedRow(row, tokens[k][:n], logprobs[k][:n], _versions(row), reasons[k])
            )
        self._remove({self.rows[i] for i in order})
        return finished

    def _hits_stop_string(self, i: int) -> bool:
        row = self.rows[i]
        if not row.gconfig.stop or row.num_generated < row.gconfig.min_new_tokens:
            return False
        text = row.tokenizer.decode(self._output(i), skip_special_tokens=False)
        return any(stop in text for stop in row.gconfig.stop)

    def _output(self, i: int) -> list[int]:
        return self._tokens_RW[i, : self.rows[i].num_generated].tolist()

    def _sequence(self, row: Row) -> list[int]:
        return row.prompt + (self._output(self.rows.index(row)) if row.num_generated else [])

    def _append(self, rows: Sequence[Row]) -> None:
        if rows:
            keep = list(range(len(self.rows)))
            self.rows.extend(rows)
            self._resize_state(keep, len(self.rows))

    def _remove(self, gone: Collection[Row]) -> None:
        self.slots.remove(gone)
        self._arrange(gone)

    def _forget(self) -> None:
        """Let all rows wait to be prefilled again."""
        self.slots.remove(set(self.rows))
        self._begun = None

    def _arrange(self, gone: Collection[Row] = ()) -> None:
        """Put the rows that stay into the order of their slots, and those that wait behind them."""
        place = {row: i for i, row in enumerate(self.rows)}
        keep = [place[row] for row in self.slots]
        slotted = set(keep)
        keep += [i for row, i in place.items() if i not in slotted and row not in gone]
        if keep != list(place.values()):
            self.rows = [self.rows[i] for i in keep]
            self._resize_state(keep, len(keep))

    def _resize_state(self, keep: list[int], num_rows: int) -> None:
        """Rebuild the state tensors: kept rows first, zeros for new ones."""
        index = torch.tensor(keep, dtype=torch.long, device=self.device)
        for name in ("_tokens_RW", "_logprobs_RW", "_count_R", "_position_R", "_last_R"):
            old = getattr(self, name)
            new = torch.zeros(num_rows, *old.shape[1:], dtype=old.dtype, device=self.device)
            new[: len(keep)] = old[index]
            setattr(self, name, new)
        if not self.rows:
            return
        self._options = SamplingBatch.of(
            [row.gconfig for row in self.rows], self.lm.vocab_size, self.device
        )
        stop_ids = [
            [] if row.gconfig.ignore_eos else row.gconfig.stop_token_ids for row in self.rows
        ]
        widest = max(map(len, stop_ids), default=0) or 1
        padded = [ids + [-1] * (widest - len(ids)) for ids in stop_ids]
        self._stop_ids_RS = torch.tensor(padded, device=self.device)
        self._limit_R = torch.tensor([row.limit for row in self.rows], device=self.device)
        self._string_rows = [i for i, row in enumerate(self.rows) if row.gconfig.stop]
        shifts = [row.sight.shift if row.sight else 0 for row in self.rows]
        self._shift_R = torch.tensor(shifts, device=self.device) if any(shifts) else None

    def _widen(self, width: int) -> None:
        if width <= self._tokens_RW.shape[1]:
            return
        extra = max(width, 2 * self._tokens_RW.shape[1]) - self._tokens_RW.shape[1]
        self._tokens_RW = torch.nn.functional.pad(self._tokens_RW, (0, extra))
        self._logprobs_RW = torch.nn.functional.pad(self._logprobs_RW, (0, extra))


def _versions(row: Row) -> list[int]:
    """Return the weight version of each output token."""
    if not row.num_generated:
        return []
    versions: list[int] = []
    ends = [start for start, _ in row.version_marks[1:]] + [row.num_generated]
    for (start, version), end in zip(row.version_marks, ends, strict=True):
        versions.extend([version] * (end - start))
    return versions
