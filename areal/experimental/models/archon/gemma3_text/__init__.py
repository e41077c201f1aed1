"""Archon model for the Hugging Face model_type ``gemma3_text``."""
