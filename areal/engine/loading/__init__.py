"""How a model is made from its files: by transformers or by Archon."""
