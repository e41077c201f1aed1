"""Archon model for the Hugging Face model_type ``deepseek_v3``."""
