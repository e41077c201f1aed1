"""Agents written with Anthropic's SDK."""
