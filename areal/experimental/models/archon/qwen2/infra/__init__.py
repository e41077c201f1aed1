"""Qwen2 across processes."""
