"""The OpenAI SDK's client over an engine in this process.

>>> client = ArealOpenAI(engine, tokenizer)
>>> completion = await client.chat.completions.create(model="default", messages=[...])
>>> client.set_reward(completion.id, 1.0)
>>> return client.export_interactions("individual")
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from areal.api.workflow_api import GenerationEngine
from areal.experimental.openai.recorder import Recorder
from areal.experimental.openai.streaming import ChunkStream
from areal.experimental.openai.types import InteractionWithTokenLogpReward

try:
    import openai
    from openai.resources.chat import AsyncChat
    from openai.resources.chat.completions import AsyncCompletions
    from openai.resources.responses import AsyncResponses
except ImportError as error:
    raise ImportError(
        "agents and the OpenAI client need the package openai: pip install 'areal-lite[agent]'"
    ) from error

_UNSET = tuple(
    kind for kind in (getattr(openai, name, None) for name in ("NotGiven", "Omit")) if kind
)


class _NoNetwork(openai.DefaultAsyncHttpxClient):
    """Takes the place of the SDK's HTTP client, which takes 30 ms to make and must not speak."""

    def __init__(self) -> None:
        super().__init__(mounts={}, transport=_RefusingTransport(), trust_env=False)

    async def aclose(self) -> None:
        """Do nothing: all clients share this one."""


class _RefusingTransport:
    async def handle_async_request(self, request: Any) -> Any:
        raise RuntimeError(
            f"ArealOpenAI has no server and cannot ask {request.url.path}; it answers "
            "chat.completions.create and responses.create with its engine"
        )

    async def aclose(self) -> None: ...

    async def __aenter__(self) -> Any:
        return self

    async def __aexit__(self, *_: object) -> None: ...


_no_network: _NoNetwork | None = None


def _shared_no_network() -> _NoNetwork:
    global _no_network
    if _no_network is None:
        _no_network = _NoNetwork()
    return _no_network


class ArealOpenAI(openai.AsyncOpenAI):
    """Answers with an engine and records tokens, log-probabilities and versions of every answer.

    Args:
        engine: Has ``agenerate``.
        tokenizer: With a chat template.
        tool_call_parser: How tool calls are found in answers; "" finds none.
        reasoning_parser: How reasoning is found in answers; "" finds none.
        engine_max_tokens: What prompt and answer may be long together; None is the default of
            ``GenerationHyperparameters``.
        chat_template_type: "hf" renders every request again; "concat" appends to the tokens of the
            interaction that it goes on with, so that a conversation is one sequence.
        lora_name: Goes to the engine with every request.
        **kwargs: For ``AsyncOpenAI``.

    Raises:
        ValueError: A parser or the kind of template is unknown.
    """

    def __init__(
        self,
        engine: GenerationEngine,
        tokenizer: Any,
        tool_call_parser: str = "qwen",
        reasoning_parser: str = "qwen3",
        engine_max_tokens: int | None = None,
        chat_template_type: str = "hf",
        lora_name: str = "",
        **kwargs: Any,
    ) -> None:
        options = {
            "api_key": "none",
            "base_url": "http://engine.invalid",
            "http_client": _shared_no_network(),
            "max_retries": 0,
        }
        super().__init__(**{**options, **kwargs})
        self._recorder = Recorder(
            engine,
            tokenizer,
            tool_call_parser,
            reasoning_parser,
            engine_max_tokens,
            chat_template_type,
            lora_name,
        )

    def copy(self, **kwargs: Any) -> ArealOpenAI:
        """Return a client with other options that goes on with the same record.

        Args:
            **kwargs: What ``AsyncOpenAI.copy`` takes, such as ``timeout``; ``with_options`` is
                another name for it.
        """
        recorder = self._recorder
        ours = {"engine": recorder.engine, "tokenizer": recorder.tokenizer}
        kwargs["_extra_kwargs"] = {**ours, **kwargs.get("_extra_kwargs", {})}
        made = super().copy(**kwargs)
        made._recorder = recorder
        return made

    # Bound in the SDK's class body, so that it would not see the copy above.
    with_options = copy

    @cached_property
    def chat(self) -> _Chat:
        """``chat.completions.create``."""
        return _Chat(self)

    @cached_property
    def responses(self) -> _Responses:
        """``responses.create``."""
        return _Responses(self)

    def get_interaction(self, interaction_id: str) -> InteractionWithTokenLogpReward | None:
        """Return the interaction with the id of a completion or response; None if unknown."""
        return self._recorder.cache.get(interaction_id)

    def set_reward(self, interaction_id: str, reward: float) -> None:
        """Set the reward of one answer.

        Raises:
            KeyError: There is no such answer.
        """
        self._recorder.cache.set_reward(interaction_id, reward)

    def set_last_reward(self, reward: float) -> None:
        """Set the reward of the newest answer.

        Raises:
            KeyError: There is none.
        """
        self._recorder.cache.set_last_reward(reward)

    def apply_reward_discount(
        self, turn_discount: float = 1.0
    ) -> dict[str, InteractionWithTokenLogpReward]:
        """Pass rewards on to earlier answers; see ``InteractionCache.apply_reward_discount``.

        Returns:
            All interactions by their ids.

        Raises:
            RuntimeError: It was called before.
        """
        self._recorder.cache.apply_reward_discount(turn_discount)
        return dict(self._recorder.cache)

    def export_interactions(
        self, style: str, reward_discount: float | None = None
    ) -> dict[str, InteractionWithTokenLogpReward]:
        """Return what an episode hands over to training.

        Args:
            style: "individual" or "concat"; see ``InteractionCache.export_interactions``.
            reward_discount: Passes rewards on to earlier answers before; None does not.

        Raises:
            ValueError: The style is unknown, or does not go with ``chat_template_type``.
            RuntimeError: Rewards have been discounted by something else.
        """
        return self._recorder.cache.export_interactions(style, reward_discount)


class _Chat(AsyncChat):
    @cached_property
    def completions(self) -> _Completions:
        return _Completions(self._client)


class _Completions(AsyncCompletions):
    _client: ArealOpenAI

    async def create(self, **params: Any) -> Any:
        """Answer a chat; see OpenAI's reference. What would be sampled otherwise is refused.

        Raises:
            RequestError: A parameter is unknown or asks for what there is not.
        """
        given = _given(params)
        completion = await self._client._recorder.complete(given)
        if not given.get("stream"):
            return completion
        options = given.get("stream_options") or {}
        return ChunkStream(completion, bool(options.get("include_usage")))


class _Responses(AsyncResponses):
    _client: ArealOpenAI

    async def create(self, **params: Any) -> Any:
        """Answer a Responses request; see OpenAI's reference.

        Raises:
            RequestError: A parameter is unknown or asks for what there is not, such as a stream.
        """
        return await self._client._recorder.respond(_given(params))


def _given(params: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in params.items() if not isinstance(value, _UNSET)}
