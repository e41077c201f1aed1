"""Mixtral across processes."""
