"""Qwen3 across devices."""
