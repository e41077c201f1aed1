"""Olmo2 across processes."""
