"""OpenAI's clients of one episode: the recorder answers, and the history gets every answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Generator, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import httpx
import openai
from openai.resources.chat import Chat
from openai.resources.chat.completions import Completions
from openai.types import Completion, CompletionChoice, Model
from openai.types.completion_choice import Logprobs

from areal.experimental.openai.client import ArealOpenAI
from areal.experimental.openai.errors import RequestError
from areal.experimental.openai.recorder import Recorder

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletion

    from areal.api.io_struct import ModelResponse
    from areal.experimental.trinity.model import EpisodeModel


class HistoryRecorder(Recorder):
    """Answers as any recorder does, for whichever engine the model has at the moment.

    Args:
        model: Keeps the history.
    """

    def __init__(self, model: EpisodeModel) -> None:
        super().__init__(_Engine(model), model.tokenizer, gconfig=model.gconfig)
        self._temperature = model.temperature
        self._model = model

    async def complete(self, params: Mapping[str, Any]) -> ChatCompletion:
        """Answer a request; ``n`` above 1 is so many requests whose answers are put together."""
        count = params.get("n") or 1
        if count == 1:
            return await self._complete_one(params)
        one = {**params, "n": 1}
        found = await asyncio.gather(*(self._complete_one(one) for _ in range(count)))
        for index, completion in enumerate(found):
            completion.choices[0].index = index
        found[0].choices = [each.choices[0] for each in found]
        return found[0]

    async def _complete_one(self, params: Mapping[str, Any]) -> ChatCompletion:
        completion = await super().complete(params)
        interaction = self.cache.get(completion.id)
        if interaction is not None and interaction.model_response is not None:
            text = completion.choices[0].message.content or ""
            self._model.record(interaction.model_response, text, interaction.messages)
        return completion

    async def answer_tokens(
        self, prompt: list[int], stop_token_ids: Sequence[int], **sampling: Any
    ) -> ModelResponse:
        """Go on with token ids; ``sampling`` is that of ``EpisodeModel.chat_async``."""
        return await self._model.answer_tokens(prompt, stop_token_ids, sampling)


class _Engine:
    """The engine of the episode that is running, as an object may serve several."""

    def __init__(self, model: EpisodeModel) -> None:
        self._model = model

    async def agenerate(self, req: Any) -> Any:
        return await self._model.generate_one(req)


class AsyncEpisodeClient(ArealOpenAI):
    """The asynchronous client, with ``model_path`` and a list of one model."""

    model_path: str = ""

    def forget(self) -> None:
        """Begin a new episode."""
        self._recorder.cache.clear()

    def copy(self, **_: Any) -> AsyncEpisodeClient:
        """Return itself: options of a connection mean nothing without one."""
        return self

    with_options = copy

    @cached_property
    def models(self) -> Any:
        """``models.list``."""
        return _Models(self.model_path)

    @cached_property
    def completions(self) -> Any:
        """``completions.create``, of token ids."""
        return _TokenCompletions(self._recorder)


class EpisodeClient(openai.OpenAI):
    """The synchronous client: it waits in its thread for what the event loop does."""

    model_path: str = ""
    _model: EpisodeModel
    _recorder: HistoryRecorder

    def forget(self) -> None:
        """Begin a new episode."""
        self._recorder.cache.clear()

    def copy(self, **_: Any) -> EpisodeClient:
        """Return itself: options of a connection mean nothing without one."""
        return self

    with_options = copy  # type: ignore[assignment]  # its own copy, as in the base

    @cached_property
    def chat(self) -> _Chat:
        """``chat.completions.create``."""
        return _Chat(self)

    @cached_property
    def models(self) -> Any:
        """``models.list``."""
        return _Models(self.model_path)


class _Chat(Chat):
    @cached_property
    def completions(self) -> _Completions:
        return _Completions(self._client)


class _Completions(Completions):
    _client: EpisodeClient

    def create(self, **params: Any) -> Any:
        """Answer a chat; see OpenAI's reference.

        Raises:
            RequestError: A parameter is unknown or asks for what there is not, such as a stream.
        """
        given = {name: value for name, value in params.items() if not _is_unset(value)}
        if given.get("stream"):
            raise RequestError(
                "the synchronous client has no stream; leave it out, or take the asynchronous one",
                param="stream",
            )
        client = self._client
        return client._model.call(
            client._recorder.complete(given),
            "chat.completions.create",
            "take get_openai_async_client()",
        )


class _TokenCompletions:
    """Goes on with token ids, as servers do that are asked for ``return_token_ids``."""

    def __init__(self, recorder: HistoryRecorder) -> None:
        self._recorder = recorder

    async def create(
        self,
        *,
        prompt: list[int],
        model: str = "",
        max_tokens: int | None = None,
        temperature: float | None = None,
        top_p: float | None = None,
        stop: list[str] | None = None,
        logprobs: int | None = None,
        extra_body: Mapping[str, Any] | None = None,
    ) -> Completion:
        """Answer; ``logprobs`` are always given.

        Raises:
            RequestError: The prompt is no list of token ids.
        """
        if not isinstance(prompt, list) or not all(type(token) is int for token in prompt):
            raise RequestError("prompt must be a list of token ids; use chat for texts")
        extra = dict(extra_body or {})
        stops = extra.get("stop_token_ids") or []
        response = await self._recorder.answer_tokens(
            prompt,
            stops,
            max_tokens=max_tokens,
            min_tokens=extra.get("min_tokens"),
            stop=stop,
            temperature=temperature,
            top_k=extra.get("top_k"),
            top_p=top_p,
        )
        reason = "length" if response.stop_reason in ("length", "abort") else "stop"
        choice = CompletionChoice.construct(
            index=0,
            text="",
            finish_reason=reason,
            token_ids=response.output_tokens,
            logprobs=Logprobs(
                tokens=[f"token_id:{token}" for token in response.output_tokens],
                token_logprobs=response.output_logprobs,
            ),
        )
        return Completion.construct(
            id="cmpl", object="text_completion", created=0, model=model, choices=[choice]
        )


class _ModelList:
    """A page of one model, at once or awaited."""

    def __init__(self, model_path: str) -> None:
        self.data = [Model(id=model_path, created=0, object="model", owned_by="areal")]

    def __iter__(self) -> Iterator[Model]:
        return iter(self.data)

    async def __aiter__(self) -> AsyncIterator[Model]:
        for each in self.data:
            yield each

    def __await__(self) -> Generator[Any, None, _ModelList]:
        yield from ()
        return self


class _Models:
    def __init__(self, model_path: str) -> None:
        self._found = _ModelList(model_path)

    def list(self) -> _ModelList:
        return self._found


def _is_unset(value: Any) -> bool:
    return isinstance(value, openai.NotGiven | openai.Omit)


def _refuse(request: httpx.Request) -> httpx.Response:
    raise RequestError(
        f"the client has no server and cannot ask {request.url.path}; it answers "
        "chat.completions.create with the engine of the run"
    )


# Making one takes 30 ms, and none of them speaks.
_no_network = httpx.Client(transport=httpx.MockTransport(_refuse), trust_env=False)


def make_client(model: EpisodeModel, kind: str) -> AsyncEpisodeClient | EpisodeClient:
    """Return the "sync" or the "async" client of a model."""
    recorder = HistoryRecorder(model)
    if kind == "async":
        client = AsyncEpisodeClient(recorder.engine, model.tokenizer)
        client.model_path, client._recorder = model.model_path, recorder
        return client
    made = EpisodeClient(
        api_key="none", base_url="http://engine.invalid", http_client=_no_network, max_retries=0
    )
    made.model_path, made._model, made._recorder = model.model_path, model, recorder
    return made
