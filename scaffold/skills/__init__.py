"""The skill pack: one source in .agents, rendered for the clients that do not read it there."""
