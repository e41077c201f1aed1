"""Agents written with LangChain."""

from __future__ import annotations

from areal.workflow.langchain.math_agent import MathAgent, MathToolAgent

__all__ = ["MathAgent", "MathToolAgent"]
