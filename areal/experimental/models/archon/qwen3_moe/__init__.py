"""Archon model for the Hugging Face model_type ``qwen3_moe``."""
