"""The commands around Archon models: measured, written, staged, proven, then registered."""
