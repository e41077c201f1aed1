"""The command that proves every model."""
