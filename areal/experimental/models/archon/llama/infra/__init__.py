"""Llama across processes."""
