"""Measures transformers models and proves Archon models, in the target's interpreter."""
