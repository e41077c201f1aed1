"""The layers that Archon models share."""
