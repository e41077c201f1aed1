"""Archon model for the Hugging Face model_type ``qwen2``."""
