"""Documents and their blocks: what is read before anything is looked for."""
