"""Measures this package against its targets, beside transformers and TRL on one machine."""
