"""Generated blocks: text in a document that follows from the repository, between two comments."""
