"""Gemma3 across processes."""
