"""The model as a workflow of Trinity-RFT sees it, over an engine of ours."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import torch

from areal.api.config.generation import GenerationHyperparameters
from areal.api.errors import ArealError
from areal.api.io_struct import ModelRequest, ModelResponse
from areal.api.workflow_api import GenerationEngine
from areal.experimental.openai.left_out import leave_out
from areal.experimental.trinity.answers import Answer, AnswerBook
from areal.experimental.trinity.threads import LoopPost
from areal.utils.hf_utils import apply_chat_template
from areal.utils.latest_prompts import LatestPrompts, Prompt
from areal.utils.perf_tracer import atrace_session_phase

T = TypeVar("T")

# Keywords of chat and generate: the field here. None leaves the run's own setting.
_SAMPLING = {
    "frequency_penalty": "frequency_penalty",
    "max_tokens": "max_new_tokens",
    "min_tokens": "min_new_tokens",
    "seed": "seed",
    "stop": "stop",
    "top_p": "top_p",
}
_TEMPLATE = ("chat_template", "enable_thinking", "tools")


class EpisodeOverError(ArealError, RuntimeError):
    """A workflow goes on asking after its episode has ended."""


class WrongThreadError(ArealError, RuntimeError):
    """A synchronous call was made where it would block every other episode."""


class EpisodeModel:
    """What a workflow calls ``self.model``; serves one episode at a time.

    Args:
        tokenizer: With a chat template.
        gconfig: How to sample where a call leaves it open.
        experience: The class of an experience: the package's or our stand-in's.
        model_path: What clients are told.
        temperature: The only one that may be sampled at; None allows any.
        template_kwargs: For the chat template.
        prompts: Of the same tokenizer, which models may share; None makes one.
    """

    enable_history = True
    # Trinity's own wrapper can serve images; ours refuses them by name.
    enable_multimodal = False

    def __init__(
        self,
        tokenizer: Any,
        gconfig: GenerationHyperparameters,
        experience: Any,
        *,
        model_path: str = "default",
        temperature: float | None = None,
        template_kwargs: Mapping[str, Any] | None = None,
        prompts: LatestPrompts | None = None,
    ) -> None:
        self.tokenizer = tokenizer
        self.model_path = model_path
        self.model_name = model_path
        self.api_key = "EMPTY"
        self.book = AnswerBook()
        self.gconfig = gconfig
        self._experience = experience
        self.temperature = temperature
        self._template_kwargs = dict(template_kwargs or {})
        self._prompts = prompts or LatestPrompts(tokenizer)
        self._history: list[Any] = []
        self._engine: GenerationEngine | None = None
        self._post: LoopPost | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._clients: dict[str, Any] = {}
        self._stops = frozenset(
            token for token in (tokenizer.eos_token_id, tokenizer.pad_token_id) if token is not None
        )

    # --- one episode

    def open(self, engine: GenerationEngine, post: LoopPost | None = None) -> None:
        """Begin an episode of the running loop on an engine.

        Args:
            engine: Generates.
            post: Of the running loop; None makes one.
        """
        self._engine = engine
        self._post = post or LoopPost(asyncio.get_running_loop())
        self._history = []
        self.book = AnswerBook()
        for client in self._clients.values():
            client.forget()

    def close(self) -> None:
        """End the episode: what its thread still waits for is cancelled, and further calls fail."""
        self._engine = None
        for task in list(self._tasks):
            task.cancel()

    @property
    def engine(self) -> GenerationEngine:
        """The engine of the episode.

        Raises:
            EpisodeOverError: It has ended.
        """
        if self._engine is None:
            raise EpisodeOverError(
                "the model was asked outside of an episode: one that was stopped, or before run()"
            )
        return self._engine

    @property
    def model_version(self) -> int:
        """The version of the weights."""
        version: int = getattr(self.engine, "get_version", int)()
        return version

    @property
    async def model_version_async(self) -> int:
        """The same, awaited."""
        return self.model_version

    @property
    def generate_kwargs(self) -> dict[str, Any]:
        """How answers are sampled where a call leaves it open."""
        config = self.gconfig
        return {
            "temperature": 0.0 if config.greedy else config.temperature,
            "top_p": config.top_p,
            "top_k": -1 if config.top_k >= int(1e8) else config.top_k,
            "max_tokens": config.max_new_tokens,
        }

    # --- asking

    async def chat_async(self, messages: Sequence[dict[str, Any]], **kwargs: Any) -> list[Any]:
        """Answer a conversation; an assistant's message at its end is gone on with.

        Args:
            messages: Roles and texts.
            **kwargs: ``n``, ``temperature``, ``top_p``, ``top_k``, ``max_tokens``, ``min_tokens``,
                ``stop``, ``seed``, ``frequency_penalty``, ``tools``, ``enable_thinking``,
                ``chat_template``; ``logprobs`` are always kept. None leaves the run's setting.

        Returns:
            One experience each of the ``n`` answers.

        Raises:
            TypeError: A keyword is unknown, or a content is no text.
        """
        count, gconfig, template = self._request(kwargs)
        prompt = self._prompt(messages, template)
        said = [dict(message) for message in messages]
        return await self._answer(prompt, count, gconfig, said)

    async def generate_async(self, prompts: Sequence[str], **kwargs: Any) -> list[Any]:
        """Go on with texts; see ``chat_async`` for the keywords.

        Returns:
            The experiences of all prompts, those of one behind each other.
        """
        count, gconfig, template = self._request(kwargs)
        if template:
            raise TypeError(f"generate takes no {', '.join(template)}, which are for chat")
        if isinstance(prompts, str) or not all(isinstance(each, str) for each in prompts):
            raise TypeError("generate takes a list of texts; use chat for messages")
        found = await asyncio.gather(
            *(
                self._answer(Prompt(self.tokenizer.encode(each)), count, gconfig, ())
                for each in prompts
            )
        )
        return [each for answers in found for each in answers]

    async def logprobs_async(self, tokens: Any, temperature: float | None = None) -> torch.Tensor:
        """Return the log-probability of every token but the first: float32 [seq - 1].

        Raises:
            NotImplementedError: The engine cannot score tokens that it has not drawn.
        """
        score = getattr(self.engine, "score", None)
        if score is None:
            raise NotImplementedError(
                f"model.logprobs: {type(self.engine).__name__} only scores what it draws; the "
                "embedded engine (rollout.backend: local:d1) scores any tokens"
            )
        ids = tokens.tolist() if isinstance(tokens, torch.Tensor) else list(tokens)
        wanted = self.gconfig.temperature if temperature is None else temperature
        return torch.tensor(await asyncio.to_thread(score, ids, wanted), dtype=torch.float32)

    async def convert_messages_to_experience_async(
        self,
        messages: Sequence[dict[str, Any]],
        tools: Sequence[dict[str, Any]] | None = None,
        temperature: float | None = None,
    ) -> Any:
        """Return a conversation as an experience, with the assistant's turns as its actions.

        Where the turns are answers of this episode, and each request went on with the tokens of the
        one before, these tokens are taken as they were drawn. Otherwise the conversation is
        rendered again and scored.

        Raises:
            ValueError: No message is an assistant's.
        """
        turns = [i for i, message in enumerate(messages) if message["role"] == "assistant"]
        if not turns:
            raise ValueError("a conversation without an assistant's turn makes no experience")
        exact = self._chained(messages, turns)
        if exact is not None:
            return exact
        return await self._rendered(messages, turns, tools, temperature)

    def chat(self, messages: Sequence[dict[str, Any]], **kwargs: Any) -> list[Any]:
        """Do what ``chat_async`` does, for a thread of its own.

        Raises:
            WrongThreadError: The calling thread is the event loop's.
        """
        return self.call(self.chat_async(messages, **kwargs), "chat")

    def generate(self, prompts: Sequence[str], **kwargs: Any) -> list[Any]:
        """Do what ``generate_async`` does, for a thread of its own."""
        return self.call(self.generate_async(prompts, **kwargs), "generate")

    def logprobs(self, tokens: Any, temperature: float | None = None) -> torch.Tensor:
        """Do what ``logprobs_async`` does, for a thread of its own."""
        return self.call(self.logprobs_async(tokens, temperature), "logprobs")

    def convert_messages_to_experience(
        self,
        messages: Sequence[dict[str, Any]],
        tools: Sequence[dict[str, Any]] | None = None,
        temperature: float | None = None,
    ) -> Any:
        """Do what ``convert_messages_to_experience_async`` does, for a thread of its own."""
        conversion = self.convert_messages_to_experience_async(messages, tools, temperature)
        return self.call(conversion, "convert_messages_to_experience")

    def call(self, work: Coroutine[Any, Any, T], name: str, instead: str = "") -> T:
        """Run a coroutine on the episode's loop and wait for it in this thread.

        Args:
            work: What to run.
            name: Of the call, for messages.
            instead: What a coroutine has to write; empty for the twin that ends in _async.

        Raises:
            WrongThreadError: This thread is the loop's, which would wait for itself.
            EpisodeOverError: The episode has ended.
        """
        post = self._post
        try:
            if post is None or self._engine is None:
                _ = self.engine
            assert post is not None
            if _running_loop() is post.loop:
                advice = instead or f"await {name}_async"
                raise WrongThreadError(
                    f"{name} would block the event loop and with it every episode; {advice}, or "
                    "let the class be synchronous (is_async = False), which runs in a thread of "
                    "its own"
                )
        except ArealError:
            work.close()
            raise
        try:
            return post.wait_for(work, self._tasks)
        except asyncio.CancelledError as error:
            raise EpisodeOverError(f"{name}: the episode was stopped meanwhile") from error

    # --- OpenAI's clients

    def get_openai_client(self) -> Any:
        """Return a synchronous client, whose answers are in the history."""
        return self._client("sync")

    def get_openai_async_client(self) -> Any:
        """Return an asynchronous client, whose answers are in the history."""
        return self._client("async")

    def _client(self, kind: str) -> Any:
        if kind not in self._clients:
            # The package openai is optional, and workflows that only chat do without it.
            from areal.experimental.trinity.clients import make_client

            self._clients[kind] = make_client(self, kind)
        return self._clients[kind]

    # --- history

    def record(
        self,
        response: ModelResponse,
        text: str,
        messages: Sequence[dict[str, Any]],
        prompt_text: str | None = None,
    ) -> Any:
        """Keep an answer and return its experience; without a text its prompt is decoded."""
        self.book.add(Answer.of(response, text, messages))
        if prompt_text is None:
            prompt_text = self.tokenizer.decode(response.input_tokens)
        made = self._experience(
            tokens=_tensor(response.input_tokens + response.output_tokens, np.int32),
            prompt_length=response.input_len,
            logprobs=_tensor(response.output_logprobs, np.float32),
            prompt_text=prompt_text,
            response_text=text,
        )
        self._history.append(made)
        return made

    def extract_experience_from_history(self, clear_history: bool = True) -> list[Any]:
        """Return the experiences of all answers since the history was cleared."""
        found = list(self._history)
        if clear_history:
            self._history = []
        return found

    def clone_with_isolated_history(self) -> EpisodeModel:
        """Return a wrapper of the same episode whose history is its own."""
        clone = object.__new__(type(self))
        clone.__dict__.update(self.__dict__)
        clone._history, clone._clients = [], {}
        return clone

    # --- how

    def _request(
        self, given: dict[str, Any]
    ) -> tuple[int, GenerationHyperparameters, dict[str, Any]]:
        """Return how many answers, how they are sampled, and options of the template."""
        set_ = {name: value for name, value in given.items() if value is not None}
        count = set_.pop("n", 1)
        set_.pop("logprobs", None)
        template = {name: set_.pop(name) for name in _TEMPLATE if name in set_}
        options: dict[str, Any] = {}
        for name in list(set_):
            if name in _SAMPLING:
                options[_SAMPLING[name]] = set_.pop(name)
        top_k = set_.pop("top_k", -1)
        if top_k != -1:
            options["top_k"] = top_k
        if isinstance(options.get("stop"), str):
            options["stop"] = [options["stop"]]
        temperature = set_.pop("temperature", None)
        if temperature is not None:
            options |= self._at(float(temperature))
        if set_:
            known = ", ".join(sorted([*_SAMPLING, *_TEMPLATE, "logprobs", "n", "temperature"]))
            raise TypeError(f"chat takes no {', '.join(sorted(set_))}; it takes {known}, top_k")
        changes = {k: v for k, v in options.items() if v != getattr(self.gconfig, k)}
        # Engines copy what they change, so calls that change nothing share one object.
        return count, self.gconfig.new(**changes) if changes else self.gconfig, template

    def _at(self, temperature: float) -> dict[str, Any]:
        if self.temperature in (None, temperature or 1.0):
            # At 0 the likeliest token is taken, which counts as temperature 1.
            return {"greedy": temperature == 0, "temperature": temperature or 1.0}
        leave_out(
            "temperature",
            f"the policy trains at {self.temperature:g}, and the log-probabilities of trainer and "
            "rollout would differ",
        )
        return {}

    def _prompt(self, messages: Sequence[dict[str, Any]], template: Mapping[str, Any]) -> Prompt:
        # Answers differ between samples, and a tool may be a function, known by its address alone.
        has_answers = any(message.get("role") == "assistant" for message in messages)
        if has_answers or template.get("tools"):
            return Prompt(self._render(messages, template))
        key = (repr(messages), repr(self._template_kwargs), repr(template))
        return self._prompts.get(key, lambda: self._render(messages, template))

    def _render(
        self, messages: Sequence[dict[str, Any]], template: Mapping[str, Any], opens: bool = True
    ) -> list[int]:
        for message in messages:
            if not isinstance(message.get("content") or "", str):
                raise TypeError(
                    f"a message of role {message.get('role')!r} has a content that is not text; "
                    "images and videos are not carried here"
                )
        goes_on = opens and messages[-1]["role"] == "assistant"
        options = {**self._template_kwargs, **template}
        if goes_on:
            options["continue_final_message"] = True
        return apply_chat_template(
            self.tokenizer, messages, add_generation_prompt=opens and not goes_on, **options
        )

    async def _answer(
        self,
        prompt: Prompt,
        count: int,
        gconfig: GenerationHyperparameters,
        messages: Sequence[dict[str, Any]],
    ) -> list[Any]:
        request = ModelRequest(
            input_ids=list(prompt.tokens), gconfig=gconfig, tokenizer=self.tokenizer
        )
        async with atrace_session_phase("generate"):
            if count == 1:
                responses = [await self.generate_one(request)]
            else:
                requests = [request.copy() for _ in range(count)]
                responses = await asyncio.gather(*map(self.generate_one, requests))
        return [
            self.record(each, self.text_of(each), messages, prompt.text_of(each.input_tokens))
            for each in responses
        ]

    async def generate_one(self, request: ModelRequest) -> ModelResponse:
        """Generate on the engine of the episode, from whichever event loop."""
        work = self.engine.agenerate(request)
        post = self._post
        if post is None or asyncio.get_running_loop() is post.loop:
            return await work
        # A workflow may run a loop in its thread, and engines belong to the episode's.
        return await post.relay(work, self._tasks)

    async def answer_tokens(
        self, prompt: list[int], stop_token_ids: Sequence[int], sampling: Mapping[str, Any]
    ) -> ModelResponse:
        """Go on with token ids, and keep the answer out of the history.

        Args:
            prompt: Token ids.
            stop_token_ids: What ends the answer, beside the run's own stop tokens.
            sampling: Keywords of ``chat_async``.
        """
        _, gconfig, _ = self._request(dict(sampling))
        stops = [*dict.fromkeys([*gconfig.stop_token_ids, *stop_token_ids])]
        if stops != gconfig.stop_token_ids:
            gconfig = gconfig.new(stop_token_ids=stops)
        request = ModelRequest(input_ids=prompt, gconfig=gconfig, tokenizer=self.tokenizer)
        response = await self.generate_one(request)
        self.book.add(Answer.of(response, ""))
        return response

    def text_of(self, response: ModelResponse) -> str:
        """Return an answer as text, without the tokens that ended it."""
        tokens = response.output_tokens
        end = len(tokens)
        while end and tokens[end - 1] in self._stops:
            end -= 1
        text: str = self.tokenizer.decode(tokens[:end], skip_special_tokens=True)
        return text

    def _chained(self, messages: Sequence[dict[str, Any]], turns: Sequence[int]) -> Any:
        """Return the conversation in the tokens that were drawn; None if they are no chain."""
        chain: list[Answer] = []
        for turn in turns:
            before = [dict(message) for message in messages[:turn]]
            wanted = messages[turn].get("content")
            found = next(
                (
                    each
                    for each in reversed(self.book.answers)
                    if each.text == wanted and list(each.messages) == before
                ),
                None,
            )
            if found is None:
                return None
            if chain:
                said = chain[-1].prompt + chain[-1].output
                if found.prompt[: len(said)] != said:
                    return None
            chain.append(found)
        if turns[-1] != len(messages) - 1:
            return None  # what comes behind the last answer has no tokens yet
        last, start = chain[-1], len(chain[0].prompt)
        tokens = last.prompt + last.output
        mask = torch.zeros(len(tokens) - start, dtype=torch.bool)
        logprobs = torch.zeros(len(tokens) - start)
        for answer in chain:
            place = slice(
                len(answer.prompt) - start, len(answer.prompt) - start + len(answer.output)
            )
            mask[place] = True
            logprobs[place] = torch.tensor(answer.logprobs)
        return self._converted(tokens, start, mask, logprobs, messages, last.text)

    async def _rendered(
        self,
        messages: Sequence[dict[str, Any]],
        turns: Sequence[int],
        tools: Sequence[dict[str, Any]] | None,
        temperature: float | None,
    ) -> Any:
        template = {} if tools is None else {"tools": tools}
        tokens = self._render(messages, template, opens=False)
        start = len(self._render(messages[: turns[0]], template))
        mask = torch.zeros(len(tokens), dtype=torch.bool)
        for turn in turns:
            begin = len(self._render(messages[:turn], template))
            end = len(self._render(messages[: turn + 1], template, opens=False))
            mask[begin:end] = True
        logprobs = (await self.logprobs_async(tokens, temperature))[start - 1 :]
        text = messages[turns[-1]].get("content")
        return self._converted(tokens, start, mask[start:], logprobs, messages, text)

    def _converted(
        self,
        tokens: list[int],
        start: int,
        mask: torch.Tensor,
        logprobs: torch.Tensor,
        messages: Sequence[dict[str, Any]],
        text: Any,
    ) -> Any:
        return self._experience(
            tokens=torch.tensor(tokens, dtype=torch.int32),
            prompt_length=start,
            action_mask=mask,
            logprobs=torch.where(mask, logprobs, 0.0),
            messages=[dict(message) for message in messages],
            response_text=text,
            prompt_text=self.tokenizer.decode(tokens[:start]),
        )


class KeyedEpisodeModel(EpisodeModel):
    """The same for the development line after 0.6.0, whose tasks have keys of their own."""

    def set_api_key(self, api_key: str) -> None:
        """Keep the key; nothing here asks for it."""
        self.api_key = api_key


def _tensor(values: Sequence[float], dtype: type) -> torch.Tensor:
    # Through numpy, as torch takes three times as long to read a list.
    return torch.from_numpy(np.array(values, dtype))


def _running_loop() -> asyncio.AbstractEventLoop | None:
    with contextlib.suppress(RuntimeError):
        return asyncio.get_running_loop()
    return None
