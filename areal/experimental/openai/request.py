"""From the parameters of a request to what the engine is asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from areal.api.cli_args import GenerationHyperparameters
from areal.experimental.openai.errors import RequestError, refusing_malformed
from areal.experimental.openai.left_out import leave_out
from areal.experimental.openai.messages import Message, parse_messages, to_plain

# What changes nothing about the tokens that are drawn.
_IGNORED = frozenset(
    {
        "extra_headers",
        "extra_query",
        "metadata",
        "model",
        "parallel_tool_calls",
        "prompt_cache_key",
        "safety_identifier",
        "service_tier",
        "stream_options",
        "timeout",
        "user",
    }
)
# Parameters with the values that ask for nothing; another answer than the client expects would be
# the wrong one.
_REFUSED: dict[str, tuple[Any, ...]] = {"modalities": (["text"],), "n": (1,)}
# Parameters that ask for nothing with these values, and are left out with any other.
_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "logit_bias": ({},),
    "logprobs": (False,),
    "presence_penalty": (0,),
    "response_format": ({"type": "text"},),
    "top_logprobs": (0,),
}
_USED = frozenset(
    {
        "chat_template_kwargs",
        "extra_body",
        "frequency_penalty",
        "max_completion_tokens",
        "max_tokens",
        "max_total_tokens",
        "messages",
        "seed",
        "separate_reasoning",
        "stop",
        "store",
        "stream",
        "temperature",
        "tool_choice",
        "tools",
        "top_k",
        "top_p",
    }
)
# What the recorder itself gives the chat template's renderer.
_RESERVED_KWARGS = frozenset(
    {
        "add_generation_prompt",
        "chat_template",
        "continue_final_message",
        "conversation",
        "max_length",
        "messages",
        "padding",
        "return_assistant_tokens_mask",
        "return_dict",
        "return_tensors",
        "tokenize",
        "tokenizer",
        "tokenizer_kwargs",
        "tools",
        "truncation",
    }
)


@dataclass
class ChatRequest:
    """A checked request for one chat completion.

    Attributes:
        is_stored: The answer is kept for training.
        separates_reasoning: The client wants the reasoning apart from the content.
    """

    messages: list[Message]
    gconfig: GenerationHyperparameters
    tools: list[dict[str, Any]] = field(default_factory=list)
    template_kwargs: dict[str, Any] = field(default_factory=dict)
    is_stored: bool = True
    separates_reasoning: bool = False

    @classmethod
    def parse(
        cls,
        params: Mapping[str, Any],
        defaults: GenerationHyperparameters,
        temperature: float | None = None,
    ) -> ChatRequest:
        """Check the parameters of ``chat.completions.create``.

        What cannot be honoured is left out and noted once, as SDKs send parameters that their users
        have never heard of; it is refused where the answer would be another than was asked for.

        Args:
            params: As a client gives them; None is unset.
            defaults: How to sample where they leave it open.
            temperature: The only one that may be sampled at; None allows any.

        Raises:
            RequestError: A parameter is of the wrong kind, or asks for another kind of answer.
        """
        given = {key: value for key, value in params.items() if value is not None}
        with refusing_malformed("the request"):
            given |= _mapping(given, "extra_body")  # the SDK merges it in the same way
            given.pop("extra_body", None)
            _sift(given)
            _check_stream(given)
            return cls(
                parse_messages(given.get("messages")),
                _sampling(given, defaults, temperature),
                _tools(given),
                _template_kwargs(given),
                is_stored=given.get("store") is not False,
                separates_reasoning=given.get("separate_reasoning") is True,
            )


def _sift(given: Mapping[str, Any]) -> None:
    for name, value in given.items():
        if name in _USED or name in _IGNORED:
            continue
        if name in _REFUSED:
            if to_plain(value) not in _REFUSED[name]:
                raise RequestError(
                    f"{name} is {value!r}; only {_REFUSED[name][0]!r} is supported", param=name
                )
        elif to_plain(value) not in _NEUTRAL.get(name, ()):
            leave_out(name, "nothing here honours it")


def _mapping(given: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = to_plain(given.get(name, {}))
    if not isinstance(value, dict):
        raise RequestError(f"{name} must be an object, not {value!r}", param=name)
    return value


def _check_stream(given: Mapping[str, Any]) -> None:
    """Look at what is read only when the answer is there, which is too late for a complaint."""
    if not isinstance(given.get("stream", False), bool):
        raise RequestError(f"stream must be a bool, not {given['stream']!r}", param="stream")
    _mapping(given, "stream_options")


def _template_kwargs(given: Mapping[str, Any]) -> dict[str, Any]:
    kwargs = _mapping(given, "chat_template_kwargs")
    reserved = sorted(kwargs.keys() & _RESERVED_KWARGS)
    if reserved:
        raise RequestError(
            f"chat_template_kwargs sets {', '.join(reserved)}; it is for the template's own "
            "variables, such as enable_thinking",
            param="chat_template_kwargs",
        )
    return kwargs


def _tools(given: Mapping[str, Any]) -> list[dict[str, Any]]:
    choice = given.get("tool_choice", "auto")
    if choice not in ("auto", "none"):
        leave_out("tool_choice", "nothing can make the model call a tool")
    tools: list[dict[str, Any]] = to_plain(given.get("tools", []))
    if not isinstance(tools, list):
        raise RequestError(f"tools must be a list, not {tools!r}", param="tools")
    for tool in tools:
        if not isinstance(tool, dict) or tool.get("type") != "function":
            raise RequestError("only tools of type 'function' are supported", param="tools")
        function = tool.get("function")
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise RequestError(f"the tool {tool!r} has no function with a name", param="tools")
    return [] if choice == "none" else tools


def _sampling(
    given: Mapping[str, Any],
    defaults: GenerationHyperparameters,
    only_temperature: float | None,
) -> GenerationHyperparameters:
    """Return the defaults with what the request sets."""
    options: dict[str, Any] = {"n_samples": 1}
    for name, target in (
        ("max_tokens", "max_new_tokens"),
        ("max_completion_tokens", "max_new_tokens"),
        ("max_total_tokens", "max_tokens"),
        ("seed", "seed"),
        ("top_k", "top_k"),
    ):
        if name in given:
            options[target] = _number(given, name, int)
    for name in ("frequency_penalty", "top_p"):
        if name in given:
            options[name] = float(_number(given, name, (int, float)))
    if "stop" in given:
        options["stop"] = _stop(given["stop"])
    if "temperature" in given:
        temperature = float(_number(given, "temperature", (int, float)))
        # At 0 the likeliest token is taken, which counts as temperature 1 in log-probabilities.
        if only_temperature in (None, temperature or 1.0):
            options["greedy"] = temperature == 0
            options["temperature"] = temperature or 1.0
        else:
            leave_out(
                "temperature",
                f"the policy trains at {only_temperature:g}, and the log-probabilities of trainer "
                "and rollout would differ; set actor.temperature and gconfig.temperature to change "
                "it",
            )
    try:
        return defaults.new(**options)
    except ValueError as error:
        raise RequestError(str(error)) from error


def _number(given: Mapping[str, Any], name: str, kind: Any) -> Any:
    value = given[name]
    if isinstance(value, bool) or not isinstance(value, kind):
        raise RequestError(f"{name} must be a number, not {value!r}", param=name)
    return value


def _stop(value: Any) -> list[str]:
    stops = [value] if isinstance(value, str) else to_plain(value)
    is_list = isinstance(stops, list)
    if not is_list or not all(isinstance(each, str) and each for each in stops):
        raise RequestError(f"stop holds {value!r}; give strings that are not empty", param="stop")
    return stops
