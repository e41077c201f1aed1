"""Rewards for probing workflows: in a module of their own, so that any process can import them."""

from __future__ import annotations

from typing import Any

from unit_probe.loop_watch import note_reward


def right(*args: Any, **kwargs: Any) -> float:
    """Call every completion right."""
    note_reward()
    return 1.0


def wrong(*args: Any, **kwargs: Any) -> float:
    """Call every completion wrong."""
    note_reward()
    return 0.0


def mixed(*args: Any, **kwargs: Any) -> float:
    """Call one completion in two right, by its text."""
    note_reward()
    text = str(args[1] if len(args) > 1 else kwargs.get("completions", ""))
    return float(sum(map(ord, text)) % 2)
