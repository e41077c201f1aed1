"""What an attention layer does beside plain causal attention."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from areal.api.errors import ConfigError
from areal.experimental.models.archon.layers.positions import KeyBias


@dataclass(frozen=True, eq=False)
class AttentionFeatures:
    """The options of one attention call.

    Attributes:
        window: Number of keys that a query sees, itself included; of those on each side where
            it also sees later ones.
        chunk: Tokens of a block outside of which nothing is seen.
        softcap: Bound that tanh puts on the scaled scores.
        causal: Whether a query sees only keys up to itself.
        sinks: [H] logits of one more key per head, whose value is zero.
        key_bias: What is added to the scores by the key's position.
    """

    window: int | None = None
    chunk: int | None = None
    softcap: float | None = None
    causal: bool = True
    sinks: Tensor | None = None
    key_bias: KeyBias | None = None

    def require_plannable(self, layer_id: int) -> None:
        """Refuse what attention plans do not have.

        Raises:
            ConfigError: It names the feature; ignoring it would run another model.
        """
        names = {"chunk": "chunk", "key_bias": "ALiBi"}
        found = [text for name, text in names.items() if getattr(self, name) is not None]
        if not self.causal:
            found.append("causal=False")
        if found:
            raise ConfigError(
                f"attention of layer {layer_id} needs {', '.join(found)}, which the embedded "
                "engine's attention does not have; use another inference engine for this model"
            )
