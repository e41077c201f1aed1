"""What a rollout workflow is: one episode, from a dataset row to a trajectory."""

from __future__ import annotations

import warnings
from abc import ABC, ABCMeta, abstractmethod
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, Union, runtime_checkable

if TYPE_CHECKING:
    from areal.api.io_struct import ModelRequest, ModelResponse


@runtime_checkable
class TokenInteraction(Protocol):
    """One request and its answer, with what training needs; agents return mappings of these.

    The executor recognises interactions by this protocol, so that it needs no proxy client.
    """

    @property
    def interaction_id(self) -> str | None: ...

    @property
    def reward(self) -> float | None: ...

    @property
    def has_tensor_data(self) -> bool: ...

    def to_tensor_dict(self) -> dict[str, Any]: ...


class GenerationEngine(Protocol):
    """What an episode needs of an engine: one answer to one request."""

    async def agenerate(self, req: ModelRequest) -> ModelResponse: ...


class RolloutWorkflow(ABC):
    """Collects one trajectory at a time; a subclass defines how."""

    @abstractmethod
    async def arun_episode(
        self, engine: GenerationEngine, data: dict[str, Any]
    ) -> dict[str, Any] | dict[str, TokenInteraction] | None:
        """Run one episode.

        Args:
            engine: Generates text; an ``InferenceEngine`` in a run, a fake in a test.
            data: One row of the dataset.

        Returns:
            The trajectory: tensors with a leading batch dimension, at least ``input_ids`` and
            ``attention_mask`` of shape [B, L]; for training also ``loss_mask``, ``logprobs``,
            ``versions`` [B, L] and ``rewards`` [B]. Or interactions by id. None rejects the
            episode. An exception rejects it too, and is counted and reported by its name.
        """


class _DeprecatedOnUse(ABCMeta):
    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        warnings.warn(
            f"AgentWorkflow is deprecated; let {cls.__name__} be a plain class with "
            "`async def run(self, data, **extra_kwargs)`",
            DeprecationWarning,
            stacklevel=2,
        )
        return super().__call__(*args, **kwargs)


class AgentWorkflow(metaclass=_DeprecatedOnUse):
    """The former base of agents; any object with a coroutine ``run`` is one now."""

    @abstractmethod
    async def run(self, data: dict[str, Any], **extra_kwargs: Any) -> float | dict[str, float]:
        """Run the agent on one dataset row.

        Args:
            data: One row of the dataset.
            **extra_kwargs: ``base_url``, ``api_key`` and ``http_client`` in inline mode.

        Returns:
            The reward of the last interaction, or rewards by the id of the interaction.
        """


# An instance, a class, an import path, or an agent: anything with a coroutine `run`.
WorkflowLike: TypeAlias = Union[RolloutWorkflow, type[Any], str, Any]  # noqa: UP007
