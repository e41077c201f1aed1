"""Keeps an output head that is the token embedding the same parameter through every change."""

from __future__ import annotations

from torch import nn


def is_tied(model: nn.Module) -> bool:
    """Return whether the head's weight is the embedding's, where this part of a model has both."""
    embedding, head = _weights(model)
    return embedding is not None and embedding is head


def retie(model: nn.Module) -> None:
    """Make the head's weight the embedding's again, as distributing or wrapping makes two."""
    model.output._parameters["weight"] = model.tok_embeddings._parameters["weight"]


def _weights(model: nn.Module) -> tuple[nn.Parameter | None, nn.Parameter | None]:
    modules = (getattr(model, name, None) for name in ("tok_embeddings", "output"))
    embedding, head = (None if m is None else m._parameters["weight"] for m in modules)
    return embedding, head
