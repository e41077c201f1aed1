"""ModernBert: arguments, modules and the mapping of its weights."""
