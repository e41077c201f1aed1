"""Gemma2 across processes."""
