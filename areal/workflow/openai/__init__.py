"""Agents written with OpenAI's SDKs."""
