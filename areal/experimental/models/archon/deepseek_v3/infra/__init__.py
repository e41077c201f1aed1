"""DeepseekV3 across processes."""
