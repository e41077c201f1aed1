"""Qwen3Moe: arguments, modules and the mapping of its weights."""
