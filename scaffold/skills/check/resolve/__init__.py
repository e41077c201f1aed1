"""What the repository says of a reference: a module for each family."""
