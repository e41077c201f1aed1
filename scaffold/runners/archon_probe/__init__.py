"""Measures transformers models and proves Archon models against them, in the target's interpreter."""
