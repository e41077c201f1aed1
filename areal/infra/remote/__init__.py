"""Servers over HTTP: which of them may be asked, and how."""
