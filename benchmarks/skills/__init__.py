"""Checkers of skills side by side: what they find of seeded defects, and how long they take."""
