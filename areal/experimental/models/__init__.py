"""Models written for training: readable PyTorch, packed batches, no padding."""
