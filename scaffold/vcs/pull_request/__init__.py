"""Pull requests: their words, whether a branch is ready, and how it gets there."""
