"""Gemma3: arguments, modules and the mapping of its weights."""
