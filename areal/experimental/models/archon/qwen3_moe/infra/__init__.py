"""Qwen3Moe across processes."""
