"""Pull requests: what one says, whether its branch is ready, and how the branch gets there."""
