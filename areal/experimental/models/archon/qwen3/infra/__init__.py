"""Qwen3 across processes."""
