"""The forms in which findings are told."""
