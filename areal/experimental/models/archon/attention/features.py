"""What an attention layer does beside plain causal attention."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from areal.api.errors import ConfigError


@dataclass(frozen=True, eq=False)
class AttentionFeatures:
    """Holds the options of one attention call; see ``AttentionCore``."""

    window: int | None = None
    chunk: int | None = None
    softcap: float | None = None
    causal: bool = True
    sinks: Tensor | None = None
    alibi_slopes: Tensor | None = None

    def require_plannable(self, layer_id: int) -> None:
        """Refuses what attention plans do not have.

        Raises:
            ConfigError: It says which feature; ignoring it would run another model.
        """
        found = [
            name
            for name in ("chunk", "softcap", "sinks", "alibi_slopes")
            if getattr(self, name) is not None
        ]
        if not self.causal:
            found.append("causal=False")
        if found:
            raise ConfigError(
                f"attention of layer {layer_id} needs {', '.join(found)}, which the embedded "
                "engine's attention plan does not have; use another inference engine"
            )
