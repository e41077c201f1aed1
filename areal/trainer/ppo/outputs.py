"""What models say of rollouts before they are trained on."""

from __future__ import annotations

from torch import Tensor

from areal.engine.training.engine import PackedTrainEngine
from areal.trainer.advantages import shift_to_next_token
from areal.utils.data import TensorDict


def next_token_outputs(engine: PackedTrainEngine, batch: TensorDict) -> Tensor:
    """Return what a model has to say of the next tokens of rollouts.

    Args:
        engine: Has the model.
        batch: As rollouts are, with ``loss_mask`` at the sampled tokens themselves.

    Returns:
        Log-probabilities, or the values of a critic, [B, L], 0.0 where nothing is sampled next.
    """
    engine.eval()
    mask = shift_to_next_token(batch["loss_mask"].bool())
    return engine.forward_batch({**batch, "loss_mask": mask})
