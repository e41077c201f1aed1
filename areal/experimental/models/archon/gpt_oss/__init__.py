"""Archon model for the Hugging Face model_type ``gpt_oss``."""
