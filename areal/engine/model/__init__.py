"""Models as the train engines see them: logits, kernels and checkpoints."""
