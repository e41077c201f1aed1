"""Archon model for the Hugging Face model_type ``olmo2``."""
