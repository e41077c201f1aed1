"""Scaffolds, registers, tests and proves extensions of an LLM-RL training package."""

__version__ = "0.1.0"
