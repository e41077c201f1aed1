"""Engines in worker processes, called over HTTP."""
