"""Engines under the names that AReaL gives them while they are experimental."""
