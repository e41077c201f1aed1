"""Registry edits: source bytes in, source bytes out; one module per shape of registry."""
