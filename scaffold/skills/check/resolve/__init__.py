"""What the repository shows of a reference: a module for each family."""
