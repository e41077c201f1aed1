"""The interactions of one conversation or episode, in order, with their rewards."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from areal.experimental.openai.messages import comparable, is_prefix
from areal.experimental.openai.types import InteractionWithTokenLogpReward

logger = logging.getLogger("InteractionCache")

EXPORT_STYLES = ("individual", "concat")


class InteractionCache(OrderedDict[str, InteractionWithTokenLogpReward]):
    """Maps ids to interactions, the oldest first."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._discount: float | None = None  # what has been applied

    @property
    def last_interaction_id(self) -> str:
        """The id of the newest interaction.

        Raises:
            KeyError: There is none.
        """
        if not self:
            raise KeyError("no interaction yet: the model has not been asked")
        return next(reversed(self))

    @property
    def total_reward(self) -> float:
        """The sum of the rewards; interactions without one count 0."""
        return sum(x.reward for x in self.values() if x.reward is not None)

    def add(self, interaction: InteractionWithTokenLogpReward) -> None:
        """Append an interaction that has been answered."""
        assert interaction.interaction_id is not None
        self[interaction.interaction_id] = interaction

    def find_parent(
        self, messages: Sequence[dict[str, Any]]
    ) -> InteractionWithTokenLogpReward | None:
        """Return the interaction that a conversation goes on with: the longest one it begins with.

        Of several equally long ones it is the newest.
        """
        wanted = comparable(messages)
        best, best_length = None, 0
        # The newest first, which in a long conversation is the longest: the others need no look.
        for interaction in reversed(self.values()):
            said = [*interaction.messages, *(interaction.output_message_list or ())]
            is_candidate = best_length < len(said) <= len(wanted)
            if is_candidate and is_prefix(comparable(said), wanted):
                best, best_length = interaction, len(said)
        return best

    def set_reward(self, interaction_id: str, reward: float) -> None:
        """Set the reward of one interaction.

        Raises:
            KeyError: There is no such interaction.
        """
        if interaction_id not in self:
            raise KeyError(f"no interaction {interaction_id!r}; known: {', '.join(self) or 'none'}")
        self[interaction_id].reward = reward

    def set_last_reward(self, reward: float) -> None:
        """Set the reward of the newest interaction.

        Raises:
            KeyError: There is none.
        """
        self.set_reward(self.last_interaction_id, reward)

    def apply_reward_discount(self, turn_discount: float = 1.0) -> None:
        """Pass rewards on to what came before: ``reward[i] += turn_discount * reward[i + 1]``.

        Args:
            turn_discount: How much of a reward reaches the interaction before it.

        Raises:
            RuntimeError: It was called before; a second time would count rewards twice.
        """
        if self._discount is not None:
            raise RuntimeError(
                f"rewards have been discounted already, by {self._discount}; it can be done once"
            )
        self._discount = turn_discount
        if self and self[self.last_interaction_id].reward is None:
            logger.warning("the last interaction has no reward and counts as 0.0")
        carried = 0.0
        for interaction in reversed(self.values()):
            carried = (interaction.reward or 0.0) + turn_discount * carried
            interaction.reward = carried

    def export_interactions(
        self, style: str, reward_discount: float | None = None
    ) -> dict[str, InteractionWithTokenLogpReward]:
        """Return what can be trained on.

        Args:
            style: "individual": every interaction, a sequence each. "concat": only those that no
                other goes on with, whose tokens hold the rest of their conversation.
            reward_discount: Applied before, as by ``apply_reward_discount``, unless the rewards
                have been discounted by it already; None leaves them.

        Raises:
            ValueError: The style is unknown, or "concat" was asked of conversations that were
                rendered again for every request.
            RuntimeError: Rewards have been discounted by something else.
        """
        if style not in EXPORT_STYLES:
            raise ValueError(f"unknown export style {style!r}; known: {', '.join(EXPORT_STYLES)}")
        is_rendered_anew = any(x.chat_template_type != "concat" for x in self.values())
        if style == "concat" and is_rendered_anew:
            raise ValueError("export style 'concat' needs chat_template_type 'concat'")
        # Not twice, so that an export can be repeated.
        if reward_discount is not None and reward_discount != self._discount:
            self.apply_reward_discount(reward_discount)
        if style == "individual":
            return {key: x for key, x in self.items() if x.has_tensor_data}
        parents = {id(x.parent) for x in self.values()}
        return {k: x for k, x in self.items() if x.has_tensor_data and id(x) not in parents}

    def drop_retry_orphans(self) -> None:
        """Forget answers that nobody read: the same request came again, and it went on from there.

        A client that loses its connection asks again; the first answer then has no reward, nothing
        goes on with it, and a later interaction has the same messages.
        """
        parents = {id(x.parent) for x in self.values()}
        newest: dict[str, str] = {}
        for key, interaction in self.items():
            newest[repr(comparable(interaction.messages))] = key
        for key, interaction in list(self.items()):
            is_again = newest[repr(comparable(interaction.messages))] != key
            if is_again and interaction.reward is None and id(interaction) not in parents:
                del self[key]
