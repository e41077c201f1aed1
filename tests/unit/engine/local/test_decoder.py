"""Continuous batching: what each row gets is what the model alone would have given it."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from areal.api.cli_args import GenerationHyperparameters
from areal.engine.loading.huggingface import prepare_model
from areal.engine.local.decoder import Decoder, FinishedRow, Row
from tests.fakes import tiny_tokenizer
from tests.tiny_archon import BACKENDS, archon_of, known, load_state
from tests.tiny_models import VOCAB_SIZE, random_prompts, tiny_model

EOS = 1
LENGTHS = [3, 9, 1, 14, 6]


def served(architecture: str = "qwen3", backend: str = "fsdp:d1", **options: Any) -> Any:
    """Returns what a decoder takes, with the weights of ``tiny_model``."""
    model = tiny_model(architecture, **options)
    is_archon = backend == "archon:d1"
    return archon_of(model) if is_archon else prepare_model(model, torch.device("cpu"))


def row(prompt: list[int], limit: int = 12, **fields: Any) -> Row:
    """Makes a greedy row unless told otherwise, stopped by the end-of-sequence token."""
    own = {name: fields.pop(name) for name in ("tokenizer", "stream_key") if name in fields}
    gconfig = GenerationHyperparameters(**{"greedy": True, "stop_token_ids": [EOS]} | fields)
    return Row(prompt, gconfig, limit, **own)


def finish(decoder: Decoder, rows: Sequence[Row]) -> list[FinishedRow]:
    """Admits all rows at once and decodes to the end; results are in the order of the rows."""
    done = decoder.admit(rows)
    while decoder.rows:
        done += decoder.advance() + decoder.admit()
    return sorted(done, key=lambda finished: list(rows).index(finished.row))


def full_logprobs(
    model: nn.Module, prompt: list[int], output: list[int], temperature: float = 1.0
) -> Tensor:
    """Returns the log-probability of each output token by one pass over the whole sequence."""
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([prompt + output]), use_cache=False).logits[0]
    logprobs = (logits[len(prompt) - 1 : -1] / temperature).log_softmax(-1)
    return logprobs.gather(-1, torch.tensor(output)[:, None]).squeeze(-1)


@contextmanager
def counted_calls(model: nn.Module) -> Iterator[list[int]]:
    """Collects how many tokens each call of the model runs."""
    calls: list[int] = []
    hook = model.register_forward_pre_hook(
        lambda _m, _a, kwargs: calls.append(kwargs["input_ids"].numel()), with_kwargs=True
    )
    yield calls
    hook.remove()


# --- what comes out ---------------------------------------------------------------------------


SERVED = ("llama", "qwen2", "qwen3", "mistral", "gemma2", "gemma3_text", "gpt_oss", "qwen3_moe")
SERVED += ("gpt2",)
CASES = [("fsdp:d1", name) for name in SERVED]
CASES += [("archon:d1", name) for name in known(*SERVED, "olmo2", "mixtral", "deepseek_v3")]


@pytest.mark.parametrize(("backend", "architecture"), CASES)
def test_greedy_tokens_and_logprobs_are_the_models_own(backend: str, architecture: str) -> None:
    reference, prompts = tiny_model(architecture), random_prompts(LENGTHS)
    done = finish(Decoder(served(architecture, backend)), [row(prompt) for prompt in prompts])
    for prompt, found in zip(prompts, done, strict=True):
        expected: Any = reference.generate(
            torch.tensor([prompt]),
            attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
            do_sample=False,
            max_new_tokens=12,
            eos_token_id=EOS,
            pad_token_id=0,
        )
        assert found.tokens == expected[0, len(prompt) :].tolist()
        assert found.stop_reason == ("stop" if found.tokens[-1] == EOS else "length")
        torch.testing.assert_close(
            torch.tensor(found.logprobs),
            full_logprobs(reference, prompt, found.tokens),
            rtol=1e-5,
            atol=1e-5,
        )


@pytest.mark.parametrize("temperature", [0.5, 1.0, 1.7])
@pytest.mark.parametrize("backend", BACKENDS)
def test_sampled_logprobs_are_those_of_a_full_pass(temperature: float, backend: str) -> None:
    reference, prompts = tiny_model(), random_prompts(LENGTHS)
    rows = [row(p, greedy=False, temperature=temperature, top_p=0.9, top_k=20) for p in prompts]
    for found in finish(Decoder(served(backend=backend), seed=3), rows):
        expected = full_logprobs(reference, found.row.prompt, found.tokens, temperature)
        torch.testing.assert_close(torch.tensor(found.logprobs), expected, rtol=1e-5, atol=1e-5)


MOVING = [("fsdp:d1", "qwen3"), ("fsdp:d1", "mistral"), ("archon:d1", "qwen3")]
MOVING += [("archon:d1", name) for name in known("mistral")]


@pytest.mark.parametrize(("backend", "architecture"), MOVING)
@pytest.mark.parametrize("seed", range(4))
def test_rows_may_come_and_end_at_any_time(backend: str, architecture: str, seed: int) -> None:
    rng = random.Random(seed)
    model = served(architecture, backend)
    prompts = random_prompts([rng.randint(1, 20) for _ in range(14)], seed)
    limits = [rng.randint(1, 24) for _ in prompts]
    alone = [finish(Decoder(model), [row(p, n)])[0] for p, n in zip(prompts, limits, strict=True)]

    decoder, done = Decoder(model), []
    waiting = [row(p, n) for p, n in zip(prompts, limits, strict=True)]
    order = {id(r): i for i, r in enumerate(waiting)}
    while waiting or decoder.rows:
        admitted = [waiting.pop(0) for _ in range(min(len(waiting), rng.choice([0, 0, 1, 3])))]
        done += decoder.advance()
        done += decoder.admit(admitted)
    for found in done:
        expected = alone[order[id(found.row)]]
        assert found.tokens == expected.tokens
        assert found.stop_reason == expected.stop_reason
        assert found.logprobs == pytest.approx(expected.logprobs, abs=1e-5)
    assert len(done) == len(prompts)


def test_long_answers_outgrow_every_first_size() -> None:
    model = served("llama", max_position_embeddings=256)
    prompts = random_prompts([50, 2, 70])
    done = finish(Decoder(model), [row(p, 90, ignore_eos=True) for p in prompts])
    for prompt, found in zip(prompts, done, strict=True):
        assert len(found.tokens) == 90
        assert found.logprobs == pytest.approx(
            full_logprobs(
                tiny_model("llama", max_position_embeddings=256), prompt, found.tokens
            ).tolist(),
            abs=2e-5,
        )


# --- what it costs ----------------------------------------------------------------------------


def test_equal_prompts_share_a_prefill() -> None:
    model, (a, b) = served(), random_prompts([7, 5])
    rows = [row(p, greedy=False, ignore_eos=True) for p in (a, b, a, a, b)]
    with counted_calls(model) as calls:
        done = finish(Decoder(model), rows)
    assert calls[0] == 12
    assert calls[1:] == [5] * 11
    for found in done:
        expected = full_logprobs(tiny_model(), found.row.prompt, found.tokens)
        assert found.logprobs == pytest.approx(expected.tolist(), abs=1e-5)


def test_a_long_queue_is_prefilled_in_pieces() -> None:
    model, prompts = served(), random_prompts([8, 8, 8, 30, 4, 4])
    with counted_calls(model) as calls:
        done = finish(Decoder(model, max_prefill_tokens=16), [row(p, 3) for p in prompts])
    assert max(calls) <= 16
    whole = finish(Decoder(model), [row(p, 3) for p in prompts])
    assert [d.tokens for d in done] == [d.tokens for d in whole]


@pytest.mark.parametrize(("backend", "architecture"), CASES)
def test_a_long_prompt_holds_up_nobody(backend: str, architecture: str) -> None:
    reference, model = tiny_model(architecture), served(architecture, backend)
    module, most = getattr(model, "module", model), 16
    *short, long, late = random_prompts([4, 6, 5, 45, 3])
    decoder = Decoder(model, max_prefill_tokens=most)
    rows = [row(p, 16, ignore_eos=True) for p in short]
    done = decoder.admit(rows)
    sizes: list[int] = []
    hook = module.register_forward_pre_hook(
        lambda _m, args, kwargs: sizes.append(_num_tokens(args, kwargs)), with_kwargs=True
    )
    # Several samples of it: one prefill.
    rows += [row(long, 8, ignore_eos=True), row(long, 8, ignore_eos=True)]
    rows.append(row(late, 8, ignore_eos=True))
    coming = [rows[3:5], rows[5:]]
    while decoder.rows:
        had = [r.num_generated for r in decoder.rows[: len(decoder.slots)]]
        before = decoder.rows[: len(had)]
        del sizes[:]
        done += decoder.advance()
        # Whoever decodes has a token more, and no more than so much was prefilled beside it.
        assert [r.num_generated for r in before] == [n + 1 for n in had]
        done += decoder.admit(coming.pop(0) if coming else ())
        assert sum(sizes) - len(had) <= most
        # Nor does a short prompt wait for the long one that came before.
        assert coming or rows[5].num_generated
    hook.remove()
    assert len(done) == len(rows)
    for found in done:
        prompt = found.row.prompt
        alone = finish(Decoder(model), [row(prompt, found.row.limit, ignore_eos=True)])[0]
        assert found.tokens == alone.tokens
        torch.testing.assert_close(
            torch.tensor(found.logprobs),
            full_logprobs(reference, prompt, found.tokens),
            rtol=1e-5,
            atol=1e-5,
        )


def _num_tokens(args: Any, kwargs: dict[str, Any]) -> int:
    """Return with how many tokens a model is called, of either kind."""
    found = (*args, kwargs.get("input_ids"), kwargs.get("tokens"))
    return next(each.numel() for each in found if isinstance(each, Tensor))


def test_new_weights_during_a_long_prompt_begin_it_again() -> None:
    model, (long, other) = served(), random_prompts([45, 5])
    decoder = Decoder(model, max_prefill_tokens=16)
    done = decoder.admit([row(other, 9, ignore_eos=True)])
    done += decoder.admit([row(long, 4, ignore_eos=True)]) + decoder.advance() + decoder.admit()
    nudge(model, seed=0)
    decoder.num_updates, decoder.version = 1, 4
    while decoder.rows:
        done += decoder.advance() + decoder.admit()
    for found in done:
        first = 2 if found.row.prompt == other else 0
        was, now = (
            full_logprobs(updated_reference(n), found.row.prompt, found.tokens) for n in (0, 1)
        )
        expected = torch.cat([was[:first], now[first:]]).tolist()
        assert found.logprobs == pytest.approx(expected, abs=1e-5)
        assert found.versions == [0] * first + [4] * (len(found.tokens) - first)


def test_a_long_row_makes_the_others_no_slower() -> None:
    model = served("llama", max_position_embeddings=1024)
    reference = tiny_model("llama", max_position_embeddings=1024)
    prompts = random_prompts([6, 700, 155, 9, 640])
    rows = [row(p, n, ignore_eos=True) for p, n in zip(prompts, (9, 9, 20, 9, 9), strict=True)]
    decoder = Decoder(model)
    done = decoder.admit(rows)
    while decoder.rows:
        columns = [g.cache.num_columns for g in decoder.slots._groups for _ in g.rows]
        lengths = [r.length for r in decoder.rows[: len(columns)]]
        assert all(c <= 4 * max(n, 40) for c, n in zip(columns, lengths, strict=True))
        done += decoder.advance() + decoder.admit()
    for found in done:
        expected = full_logprobs(reference, found.row.prompt, found.tokens).tolist()
        assert found.logprobs == pytest.approx(expected, abs=2e-5)


def test_ended_rows_cost_nothing_more() -> None:
    model, prompts = served(), random_prompts([4, 4, 4])
    rows = [row(p, n, ignore_eos=True) for p, n in zip(prompts, (2, 9, 5), strict=True)]
    with counted_calls(model) as calls:
        finish(Decoder(model), rows)
    assert calls[1:] == [3, 2, 2, 2, 1, 1, 1, 1]


def test_a_cache_has_few_columns_that_no_row_uses() -> None:
    model = served("llama", max_position_embeddings=256)
    decoder = Decoder(model)
    for _ in range(2):  # the second time in the memory of the first
        rows = [
            row(p, n, ignore_eos=True)
            for p, n in zip(random_prompts([5, 80]), (99, 9), strict=True)
        ]
        done = decoder.admit(rows)
        while decoder.rows:
            # Of the last step, which ended when the longest row had left.
            longest = max(r.length for r in decoder.rows)
            done += decoder.advance()
            (cache,) = [g.cache for g in decoder.slots._groups]
            assert not decoder.rows or longest <= cache.num_columns <= 1.5 * (1.125 * longest + 8)
        for found in done:
            alone = finish(
                Decoder(model), [row(found.row.prompt, found.row.limit, ignore_eos=True)]
            )
            assert found.tokens == alone[0].tokens


# --- when a row ends --------------------------------------------------------------------------


def greedy_output(prompt: list[int], limit: int = 20) -> list[int]:
    return finish(Decoder(served()), [row(prompt, limit, ignore_eos=True)])[0].tokens


PROMPT = random_prompts([6])[0]


def test_a_stop_token_ends_a_row_and_stays_in_it() -> None:
    free = greedy_output(PROMPT)
    wanted = free[7]
    found = finish(Decoder(served()), [row(PROMPT, 20, stop_token_ids=[EOS, wanted])])[0]
    end = free.index(wanted) + 1
    assert (found.tokens, found.stop_reason) == (free[:end], "stop")
    ignored = finish(
        Decoder(served()), [row(PROMPT, 20, stop_token_ids=[EOS, wanted], ignore_eos=True)]
    )[0]
    assert (ignored.tokens, ignored.stop_reason) == (free, "length")


def test_each_row_has_its_own_stop_tokens() -> None:
    free = greedy_output(PROMPT)
    stops: list[list[int]] = [[], [free[3]], [free[9], free[1]]]
    rows = [row(PROMPT, 20, stop_token_ids=ids) for ids in stops]
    ends = [20, free.index(free[3]) + 1, min(free.index(free[9]), free.index(free[1])) + 1]
    found = finish(Decoder(served()), rows)
    assert [d.tokens for d in found] == [free[:end] for end in ends]


def test_the_limit_counts_new_tokens() -> None:
    for limit in (1, 2, 20):
        found = finish(Decoder(served()), [row(PROMPT, limit, ignore_eos=True)])[0]
        assert (len(found.tokens), found.stop_reason) == (limit, "length")


def test_a_stop_token_at_the_limit_is_a_stop() -> None:
    free = greedy_output(PROMPT)
    first = min(range(20), key=lambda i: (free.index(free[i]) != i, i))
    found = finish(Decoder(served()), [row(PROMPT, first + 1, stop_token_ids=[free[first]])])[0]
    assert found.stop_reason == "stop"


@pytest.mark.parametrize("greedy", [True, False])
def test_stop_tokens_are_not_drawn_before_the_least_length(greedy: bool) -> None:
    stops = list(range(20))  # half of the vocabulary
    rows = [
        row(p, 20, stop_token_ids=stops, min_new_tokens=n, greedy=greedy)
        for p, n in zip(random_prompts([5] * 8), [0, 1, 3, 7] * 2, strict=True)
    ]
    for found in finish(Decoder(served(), seed=5), rows):
        least = found.row.gconfig.min_new_tokens
        assert len(found.tokens) > least or found.stop_reason == "length"
        assert not set(found.tokens[:least]) & set(stops)
        # The reported value is that of the untouched distribution.
        expected = full_logprobs(tiny_model(), found.row.prompt, found.tokens)
        assert found.logprobs == pytest.approx(expected.tolist(), abs=1e-5)


def test_stop_tokens_outside_of_the_vocabulary_do_no_harm() -> None:
    rows = [row(PROMPT, 5, stop_token_ids=[VOCAB_SIZE + 7, -3], min_new_tokens=3), row(PROMPT, 5)]
    done = finish(Decoder(served()), rows)
    assert len(done[0].tokens) == 5


def test_a_stop_string_ends_a_row_wherever_tokens_begin() -> None:
    tokenizer = tiny_tokenizer("abcdefghijklmnopqrstuvwxyz0123456789+")
    assert len(tokenizer) == VOCAB_SIZE
    free = greedy_output(PROMPT)
    text = tokenizer.decode(free)
    stop = text[4:6]
    end = text.index(stop) + 2
    rows = [
        row(PROMPT, 20, ignore_eos=True, stop=["nowhere", stop], tokenizer=tokenizer),
        row(PROMPT, 20, ignore_eos=True),
        row(PROMPT, 20, ignore_eos=True, stop=[stop], min_new_tokens=end + 1, tokenizer=tokenizer),
    ]
    found = finish(Decoder(served()), rows)
    assert (found[0].tokens, found[0].stop_reason) == (free[:end], "stop")
    assert (found[1].tokens, found[1].stop_reason) == (free, "length")
    assert len(found[2].tokens) == end + 1


# --- what is drawn ----------------------------------------------------------------------------


def test_the_first_token_follows_the_models_distribution() -> None:
    num_rows = 4000
    reference = tiny_model("llama")
    with torch.no_grad():
        logits = reference(input_ids=torch.tensor([PROMPT])).logits[0, -1]
    decoder = Decoder(served("llama"), seed=11)
    done = decoder.admit([row(PROMPT, 1, greedy=False, temperature=1.5) for _ in range(num_rows)])
    counts = torch.bincount(
        torch.tensor([d.tokens[0] for d in done]), minlength=VOCAB_SIZE
    ).double()
    expected = (logits / 1.5).softmax(-1).double() * num_rows
    chi_square = ((counts - expected) ** 2 / expected)[expected > 5].sum().item()
    # 39 degrees of freedom at most: 73 is passed once in 1,000 seeds.
    assert chi_square < 73


def test_samples_of_one_prompt_differ() -> None:
    rows = [row(PROMPT, 12, greedy=False, ignore_eos=True) for _ in range(8)]
    assert len({tuple(d.tokens) for d in finish(Decoder(served(), seed=1), rows)}) > 4


def test_a_penalty_on_frequency_is_subtracted_for_each_earlier_use() -> None:
    penalty, reference = 1.5, tiny_model("llama")
    found = finish(
        Decoder(served("llama")), [row(PROMPT, 25, ignore_eos=True, frequency_penalty=penalty)]
    )[0]
    output: list[int] = []
    for token in found.tokens:
        with torch.no_grad():
            logits = reference(input_ids=torch.tensor([PROMPT + output])).logits[0, -1]
        counts = torch.bincount(torch.tensor(output, dtype=torch.long), minlength=VOCAB_SIZE)
        assert token == (logits - penalty * counts).argmax()
        output.append(token)
    assert found.logprobs == pytest.approx(
        full_logprobs(reference, PROMPT, output).tolist(), abs=1e-5
    )
    plain = finish(Decoder(served("llama")), [row(PROMPT, 25, ignore_eos=True)])[0]
    assert len(set(output)) > len(set(plain.tokens))


def test_a_random_state_continues_the_stream() -> None:
    model = served()

    def sampled(decoder: Decoder) -> list[list[int]]:
        rows = [row(p, 6, greedy=False, ignore_eos=True) for p in random_prompts([4, 5])]
        return [d.tokens for d in finish(decoder, rows)]

    first = Decoder(model, seed=4)
    before = sampled(first)
    state = first.random_state()
    after = sampled(first)
    assert before != after
    second = Decoder(model, seed=99)
    second.set_random_state(state)
    assert sampled(second) == after
    assert sampled(Decoder(model, seed=4)) == before


def test_a_row_with_a_stream_of_its_own_draws_the_same_in_any_company() -> None:
    model, prompts = served(), random_prompts(LENGTHS)

    def make(i: int) -> Row:
        return row(prompts[i], 10, greedy=False, stream_key=(7, i))

    alone = [finish(Decoder(model), [make(i)])[0].tokens for i in range(5)]
    together = finish(Decoder(model, seed=8), [make(i) for i in range(5)])
    assert [d.tokens for d in together] == alone
    other = finish(Decoder(model), [row(prompts[0], 10, greedy=False, stream_key=(7, 9))])[0]
    assert other.tokens != alone[0]


# --- new weights, dropped rows ----------------------------------------------------------------


def nudge(model: nn.Module, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.05 * torch.randn(parameter.shape, generator=generator)


def updated_reference(num_updates: int) -> nn.Module:
    """Returns the reference model after so many updates."""
    reference = tiny_model()
    for seed in range(num_updates):
        nudge(reference, seed)
    return reference


@pytest.mark.parametrize("backend", BACKENDS)
def test_new_weights_are_used_from_the_next_token_on_and_labelled(backend: str) -> None:
    model, prompts = served(backend=backend), random_prompts([5, 9, 5])
    decoder = Decoder(model)
    early = [row(p, 9, greedy=False, ignore_eos=True) for p in prompts[:2]]
    late = row(prompts[2], 9, greedy=False, ignore_eos=True)
    done = decoder.admit(early)
    done += decoder.advance() + decoder.advance()
    if backend == "archon:d1":
        load_state(model, updated_reference(1))
    else:
        nudge(model, seed=0)
    decoder.num_updates, decoder.version = 1, 4
    done += decoder.advance()
    done += decoder.admit([late])
    while decoder.rows:
        done += decoder.advance()
    by_row = {id(d.row): d for d in done}
    for r, num_old in ((early[0], 3), (early[1], 3), (late, 0)):
        found = by_row[id(r)]
        assert found.versions == [0] * num_old + [4] * (9 - num_old)
        was, now = (full_logprobs(updated_reference(n), r.prompt, found.tokens) for n in (0, 1))
        expected = torch.cat([was[:num_old], now[num_old:]]).tolist()
        assert found.logprobs == pytest.approx(expected, abs=1e-5)
        assert not torch.allclose(was, now, atol=1e-3)


def test_a_new_label_alone_keeps_the_cache() -> None:
    model = served()
    decoder = Decoder(model)
    decoder.admit([row(PROMPT, 4, ignore_eos=True)])
    decoder.version = 3
    with counted_calls(model) as calls:
        (found,) = [d for _ in range(3) for d in decoder.advance()]
    assert calls == [1, 1, 1]
    assert found.versions == [0, 3, 3, 3]


def test_a_dropped_row_leaves_and_disturbs_no_other() -> None:
    model, prompts = served(), random_prompts([4, 6, 8])
    decoder = Decoder(model)
    rows = [row(p, 10, ignore_eos=True) for p in prompts]
    done = decoder.admit(rows)
    rows[0].is_dropped = True
    while decoder.rows:
        done += decoder.advance()
        assert rows[0] not in decoder.rows
    never = row(PROMPT)
    never.is_dropped = True
    assert decoder.admit([never]) == []
    assert decoder.rows == []
    assert {id(d.row) for d in done} == {id(rows[1]), id(rows[2])}
    for found in done:
        alone = finish(Decoder(model), [row(found.row.prompt, 10, ignore_eos=True)])[0]
        assert found.tokens == alone.tokens


def test_abort_returns_what_ran_and_the_decoder_goes_on() -> None:
    model = served()
    decoder = Decoder(model)
    rows = [row(p) for p in random_prompts([4, 6])]
    decoder.admit(rows)
    assert decoder.abort() == rows
    fresh = row(PROMPT, 5, ignore_eos=True)
    assert finish(decoder, [fresh])[0].tokens == greedy_output(PROMPT, 5)


def test_a_prompt_that_cannot_be_prefilled_costs_no_running_row() -> None:
    model = served()
    decoder = Decoder(model)
    early = [row(p, 6, ignore_eos=True) for p in random_prompts([4, 6])]
    done = decoder.admit(early)
    with pytest.raises(IndexError):
        decoder.admit([row([3, 4, 5]), row([3, VOCAB_SIZE + 2])])
    assert decoder.rows == early
    done += decoder.admit([late := row(PROMPT, 6, ignore_eos=True)])
    while decoder.rows:
        done += decoder.advance()
    assert {id(d.row) for d in done} == {id(r) for r in [*early, late]}
    for found in done:
        alone = finish(Decoder(model), [row(found.row.prompt, 6, ignore_eos=True)])[0]
        assert found.tokens == alone.tokens
        assert found.logprobs == pytest.approx(alone.logprobs, abs=1e-5)
