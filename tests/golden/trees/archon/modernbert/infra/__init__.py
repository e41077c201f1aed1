"""ModernBert across processes."""
