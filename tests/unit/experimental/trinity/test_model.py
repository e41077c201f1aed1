from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

from areal.api.cli_args import GenerationHyperparameters
from areal.experimental.trinity.auxiliary import AuxiliaryModel
from areal.experimental.trinity.model import EpisodeModel, EpisodeOverError
from areal.experimental.trinity.package import load_package
from areal.utils.latest_prompts import LatestPrompts
from tests.fakes import InstantEngine, tiny_tokenizer

TOKENIZER = tiny_tokenizer("0123456789+=")
ASK = [{"role": "user", "content": "1+1="}]
PACKAGE = load_package()
EOS = TOKENIZER.eos_token_id


def ids(text: str) -> list[int]:
    return TOKENIZER.encode(text)


def make(**options: Any) -> EpisodeModel:
    gconfig = GenerationHyperparameters(max_new_tokens=8).new_with_stop_and_pad_token_ids(TOKENIZER)
    return EpisodeModel(TOKENIZER, gconfig, PACKAGE.Experience, **options)


class ScoringEngine(InstantEngine):
    """Scores any token with minus its place."""

    def score(self, tokens: Sequence[int], temperature: float) -> list[float]:
        return [-float(place) / temperature for place in range(1, len(tokens))]


def episode(
    act: Callable[[EpisodeModel], Any], model: EpisodeModel | None = None, engine: Any = None
) -> Any:
    """Runs a coroutine function, or a function in a thread, on an open model."""

    async def run() -> Any:
        opened = model or make()
        opened.open(engine or InstantEngine(lambda _: [*ids("2"), EOS], 5))
        if asyncio.iscoroutinefunction(act):
            return await act(opened)
        return await asyncio.to_thread(act, opened)

    return asyncio.run(run())


def test_an_answer_keeps_its_stop_token_and_its_text_does_not() -> None:
    (answer,) = episode(lambda model: model.chat(ASK))
    assert answer.tokens.tolist() == [*ids("1+1="), *ids("2"), EOS]
    assert (answer.prompt_text, answer.response_text) == ("1+1=", "2")
    assert (answer.prompt_length, len(answer.logprobs)) == (4, 2)


def test_several_answers_are_as_many_requests() -> None:
    engine = InstantEngine(lambda _: ids("2"))
    assert len(episode(lambda model: model.chat(ASK, n=3), engine=engine)) == 3
    assert [request.gconfig.n_samples for request in engine.requests] == [1, 1, 1]


def test_a_call_samples_as_it_asks_and_as_the_run_does_where_it_is_silent() -> None:
    engine = InstantEngine(lambda _: ids("2"))
    sampling = {"top_p": 0.5, "top_k": 3, "max_tokens": 2, "stop": "=", "temperature": None}
    episode(lambda model: model.chat(ASK, logprobs=0, **sampling), engine=engine)
    used = engine.requests[0].gconfig
    assert (used.top_p, used.top_k, used.max_new_tokens, used.stop) == (0.5, 3, 2, ["="])
    assert used.temperature == 1.0


def test_another_temperature_than_that_of_training_is_left_out() -> None:
    engine = InstantEngine(lambda _: ids("2"))
    episode(lambda m: m.chat(ASK, temperature=0.3), make(temperature=1.0), engine)
    episode(lambda m: m.chat(ASK, temperature=0.3), make(), engine)
    assert [request.gconfig.temperature for request in engine.requests] == [1.0, 0.3]


def test_models_that_share_their_prompts_render_the_same_one_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rendered: list[Any] = []
    render = TOKENIZER.apply_chat_template

    def note(messages: Any, **options: Any) -> Any:
        rendered.append((len(messages), options.get("enable_thinking")))
        return render(messages, **options)

    monkeypatch.setattr(TOKENIZER, "apply_chat_template", note)
    prompts = LatestPrompts(TOKENIZER)
    engine = InstantEngine(lambda _: ids("2"))
    again = [*ASK, {"role": "assistant", "content": "3"}, {"role": "user", "content": "1+1="}]

    def ask(model: EpisodeModel) -> list[Any]:
        found = [*model.chat(ASK), *model.chat(ASK, enable_thinking=True), *model.chat(again)]
        for request in engine.requests[-3:]:
            request.input_ids.append(0)  # a request is its owner's
        return found

    for _ in range(2):
        answers = episode(ask, make(prompts=prompts), engine)
        assert [answer.prompt_text for answer in answers] == ["1+1="] * 2 + ["1+1=3<eos>1+1="]
    once, differs_between_samples = [(1, None), (1, True)], (3, None)
    assert rendered == [*once, differs_between_samples, differs_between_samples]


def test_an_unknown_keyword_and_an_image_are_refused() -> None:
    with pytest.raises(TypeError, match=r"chat takes no beams; it takes .*max_tokens"):
        episode(lambda model: model.chat(ASK, beams=2))
    image = [{"role": "user", "content": [{"type": "image", "image": "x"}]}]
    with pytest.raises(TypeError, match="images and videos are not carried"):
        episode(lambda model: model.chat(image))


def test_texts_are_gone_on_with_as_they_are() -> None:
    found = episode(lambda model: model.generate(["1+1=", "2="]))
    assert [each.prompt_text for each in found] == ["1+1=", "2="]


def test_an_assistants_beginning_is_gone_on_with() -> None:
    begun = [*ASK, {"role": "assistant", "content": "2"}]
    (answer,) = episode(lambda model: model.chat(begun))
    assert answer.prompt_text == "1+1=2"


def test_the_history_holds_every_answer_until_it_is_cleared() -> None:
    async def act(model: EpisodeModel) -> list[int]:
        await model.chat_async(ASK)
        clone = model.clone_with_isolated_history()
        await clone.chat_async(ASK)
        client = model.get_openai_async_client()
        await client.chat.completions.create(model=client.model_path, messages=ASK, n=2)
        counts = [len(clone.extract_experience_from_history())]
        counts.append(len(model.extract_experience_from_history(clear_history=False)))
        counts.append(len(model.extract_experience_from_history()))
        return [*counts, len(model.extract_experience_from_history())]

    assert episode(act) == [1, 3, 3, 0]


def test_both_clients_answer_with_the_engine_and_know_their_model() -> None:
    def act(model: EpisodeModel) -> Any:
        client = model.get_openai_client()
        answer = client.chat.completions.create(model="any", messages=ASK)
        return client.model_path, client.models.list().data[0].id, answer.choices[0].message.content

    assert episode(act, make(model_path="tiny")) == ("tiny", "tiny", "2")

    async def act_async(model: EpisodeModel) -> Any:
        client = model.get_openai_async_client()
        answer = await client.chat.completions.create(model="any", messages=ASK)
        return (await client.models.list()).data[0].id, answer.choices[0].message.content

    assert episode(act_async, make(model_path="tiny")) == ("tiny", "2")


def test_the_clients_list_their_model_in_every_way_and_take_options_of_connections() -> None:
    model = make(model_path="tiny")
    client = model.get_openai_client().with_options(timeout=3)
    other = model.get_openai_async_client().with_options(timeout=3)
    assert [each.id for each in client.models.list()] == ["tiny"]
    assert client.models.list().data[0].id == "tiny"

    async def listed() -> list[str]:
        page = await other.models.list()
        return [page.data[0].id, *[each.id async for each in other.models.list()]]

    assert asyncio.run(listed()) == ["tiny", "tiny"]


def test_a_synchronous_client_refuses_a_stream_by_name() -> None:
    with pytest.raises(ValueError, match="has no stream"):
        episode(
            lambda model: model.get_openai_client().chat.completions.create(
                model="m", messages=ASK, stream=True
            )
        )


def _conversation(model: EpisodeModel) -> list[dict[str, Any]]:
    said: list[dict[str, Any]] = list(ASK)
    for more in ("3+3=", None):
        answer = model.chat(said)[0]
        said = [*said, {"role": "assistant", "content": answer.response_text}]
        if more:
            said.append({"role": "user", "content": more})
    return said


def test_a_conversation_of_this_episode_keeps_the_tokens_that_were_drawn() -> None:
    converted = episode(lambda model: model.convert_messages_to_experience(_conversation(model)))
    first, second = [*ids("1+1="), *ids("2"), EOS], [*ids("3+3="), *ids("2"), EOS]
    assert converted.tokens.tolist() == first + second
    assert converted.prompt_length == 4
    assert converted.action_mask.int().tolist() == [1, 1, 0, 0, 0, 0, 1, 1]
    assert converted.logprobs.tolist() == [-0.5, -0.75, 0, 0, 0, 0, -0.5, -0.75]
    assert converted.response_text == "2"


def test_a_conversation_that_was_edited_is_rendered_and_scored() -> None:
    def act(model: EpisodeModel) -> Any:
        said = _conversation(model)
        said[1] = {"role": "assistant", "content": "7"}
        return model.convert_messages_to_experience(said, temperature=2.0)

    converted = episode(act, engine=ScoringEngine(lambda _: [*ids("2"), EOS]))
    assert converted.tokens.tolist()[4:6] == [*ids("7"), EOS]
    assert converted.action_mask.int().tolist() == [1, 1, 0, 0, 0, 0, 1, 1]
    assert converted.logprobs.tolist()[:2] == [-4 / 2, -5 / 2]


def test_an_engine_that_cannot_score_refuses_by_name() -> None:
    with pytest.raises(NotImplementedError, match="InstantEngine only scores what it draws"):
        episode(lambda model: model.logprobs(torch.tensor([3, 4])))


def test_a_model_outside_of_an_episode_answers_nothing() -> None:
    model = make()
    with pytest.raises(EpisodeOverError, match="outside of an episode"):
        model.chat(ASK)
    with pytest.raises(EpisodeOverError):
        asyncio.run(model.chat_async(ASK))


def test_an_auxiliary_model_is_asked_by_its_clients_only() -> None:
    judge = AuxiliaryModel("http://127.0.0.1:1/v1", "judge")
    client = judge.get_openai_client()
    assert (client.model_path, str(client.base_url)) == ("judge", "http://127.0.0.1:1/v1/")
    with pytest.raises(AttributeError, match=r"has no chat here.*auxiliary_models"):
        judge.chat(ASK)
