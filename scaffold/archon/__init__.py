"""Archon models: what is asked for, how it is measured, written, staged and proven."""
