"""Archon models beside Hugging Face's: training passes, memory, checkpoints, on CPU and CUDA."""
