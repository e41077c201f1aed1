"""A workflow of ours as a workflow of Trinity-RFT."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch

from areal.api.config.generation import GenerationHyperparameters
from areal.api.errors import ConfigError, TrajectoryError
from areal.api.io_struct import ModelRequest, ModelResponse
from areal.api.registry import import_from_string
from areal.api.workflow_api import RolloutWorkflow
from areal.experimental.trinity.package import load_package
from areal.infra.trajectory import check_trajectory, to_trajectory
from areal.utils.hf_utils import load_hf_tokenizer

_PREFIX = "token_id:"


class EpisodeRejectedError(TrajectoryError):
    """A workflow rejected its own episode, which in Trinity-RFT is a run that failed."""


def as_trinity_workflow(workflow: type[RolloutWorkflow] | str, **kwargs: Any) -> Any:
    """Return an asynchronous, resettable workflow class for Trinity-RFT.

    >>> WORKFLOWS.register_module("my_rlvr")(as_trinity_workflow(RLVRWorkflow, reward_fn="gsm8k"))

    It generates through the OpenAI endpoint of the model, with token ids in and out, so the YAML
    needs ``explorer.rollout_model.enable_openai_api: true``. The row goes to the workflow as it is.

    Args:
        workflow: A class, or the dotted path of one.
        **kwargs: For its constructor; ``gconfig`` follows from the task's ``rollout_args`` and
            ``tokenizer`` from the model, where the constructor takes them and they are not given.

    Raises:
        ConfigError: It is no class with a coroutine ``arun_episode``.
    """
    package = load_package()
    found: Any = import_from_string(workflow) if isinstance(workflow, str) else workflow
    if not isinstance(found, type) or not hasattr(found, "arun_episode"):
        raise ConfigError(f"{workflow!r} is not a class with a coroutine arun_episode")

    class ArealWorkflow(package.Workflow):
        """Runs a workflow of areal."""

        can_reset = True
        is_async = True

        def __init__(
            self, *, task: Any, model: Any, auxiliary_models: list[Any] | None = None
        ) -> None:
            super().__init__(task=task, model=model, auxiliary_models=auxiliary_models)
            self._engine = EndpointEngine(model)
            self._workflow = _construct(found, task, model, kwargs)

        def reset(self, task: Any) -> None:
            self.task = task
            if hasattr(self.model, "set_api_key") and hasattr(task, "api_key"):
                self.model.set_api_key(task.api_key)

        async def run_async(self) -> list[Any]:
            name = found.__name__
            await self._engine.begin()
            result = await self._workflow.arun_episode(self._engine, dict(self.task.raw_task or {}))
            if result is None:
                raise EpisodeRejectedError(f"workflow {name} rejected this episode")
            trajectory = to_trajectory(result)
            check_trajectory(trajectory, name)
            return to_experiences(trajectory, package, self.run_id_base, name)

    ArealWorkflow.__name__ = ArealWorkflow.__qualname__ = f"Trinity{found.__name__}"
    return ArealWorkflow


class EndpointEngine:
    """Generates through a model's OpenAI endpoint, from token ids to token ids.

    Args:
        model: Trinity's wrapper, or ours.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._client = model.get_openai_async_client()
        self._version = 0

    async def begin(self) -> None:
        """Look up the version of the weights, which answers do not name."""
        if getattr(self._model, "model", self) is None:
            return  # an engine of the type external, whose weights nobody trains
        asynchronous = getattr(type(self._model), "model_version_async", None)
        version = self._model.model_version_async if asynchronous else self._model.model_version
        self._version = int(await version if inspect.isawaitable(version) else version)

    def get_version(self) -> int:
        """The version of the weights when the episode began."""
        return self._version

    async def agenerate(self, req: ModelRequest) -> ModelResponse:
        """Generate one answer.

        Raises:
            ConfigError: The endpoint names no token ids.
        """
        config = req.gconfig
        completion = await self._client.completions.create(
            model=self._client.model_path,
            prompt=list(req.input_ids),
            max_tokens=config.max_new_tokens,
            temperature=0.0 if config.greedy else config.temperature,
            top_p=config.top_p,
            logprobs=1,
            extra_body={
                "stop_token_ids": config.stop_token_ids,
                "return_token_ids": True,
                "return_tokens_as_token_ids": True,
                **({} if config.top_k >= int(1e8) else {"top_k": config.top_k}),
                **({"min_tokens": config.min_new_tokens} if config.min_new_tokens else {}),
            },
            **({"stop": config.stop} if config.stop else {}),
        )
        choice = completion.choices[0]
        tokens = _token_ids(choice)
        return ModelResponse(
            input_tokens=list(req.input_ids),
            output_tokens=tokens,
            output_logprobs=[float(each) for each in choice.logprobs.token_logprobs],
            output_versions=[self._version] * len(tokens),
            stop_reason="length" if choice.finish_reason == "length" else "stop",
            tokenizer=req.tokenizer,
        )


def _token_ids(choice: Any) -> list[int]:
    given = getattr(choice, "token_ids", None)
    if given is not None:
        return [int(token) for token in given]
    texts = choice.logprobs.tokens
    if not all(text.startswith(_PREFIX) for text in texts):
        raise ConfigError(
            "the model's OpenAI endpoint names no token ids; vLLM from 0.10.2 on and `areal serve` "
            "do when asked for return_token_ids"
        )
    return [int(text.removeprefix(_PREFIX)) for text in texts]


def to_experiences(trajectory: Mapping[str, Any], package: Any, run: int, name: str) -> list[Any]:
    """Return one experience for each row of a trajectory.

    Raises:
        TrajectoryError: A row has no token that the model made.
    """
    found = []
    for row in range(len(trajectory["input_ids"])):
        real = trajectory["attention_mask"][row].bool()
        mask = trajectory["loss_mask"][row][real].bool()
        if not mask.any():
            raise TrajectoryError(f"workflow {name} returned a row without a token to train on")
        start = int(mask.int().argmax())
        found.append(
            package.Experience(
                eid=package.EID(run=run, step=row),
                tokens=trajectory["input_ids"][row][real].to(torch.int32),
                prompt_length=start,
                action_mask=mask[start:],
                logprobs=trajectory["logprobs"][row][real][start:].float(),
                reward=float(trajectory["rewards"][row]),
            )
        )
    return found


def _construct(cls: type, task: Any, model: Any, kwargs: Mapping[str, Any]) -> Any:
    given = dict(kwargs)
    takes = inspect.signature(cls).parameters
    if "tokenizer" in takes:
        tokenizer = given.get("tokenizer") or getattr(model, "tokenizer", None)
        is_loaded = hasattr(tokenizer, "decode")
        given["tokenizer"] = tokenizer if is_loaded else load_hf_tokenizer(model.model_path)
    if "gconfig" in takes and "gconfig" not in given:
        given["gconfig"] = _gconfig(task.rollout_args)
    return cls(**given)


def _gconfig(rollout_args: Any) -> GenerationHyperparameters:
    options: dict[str, Any] = {}
    if rollout_args.temperature is not None:
        options["greedy"] = rollout_args.temperature == 0
        options["temperature"] = rollout_args.temperature or 1.0
    if rollout_args.top_p is not None:
        options["top_p"] = rollout_args.top_p
    if rollout_args.top_k not in (None, -1):
        options["top_k"] = rollout_args.top_k
    if rollout_args.max_tokens is not None:
        options["max_new_tokens"] = rollout_args.max_tokens
    return GenerationHyperparameters(**options)
