"""A repository as text: its files, Python symbols, commands and settings; nothing is imported."""
