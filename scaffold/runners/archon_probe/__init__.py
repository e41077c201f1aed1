"""Measure transformers models and prove Archon models, in the target's interpreter."""
