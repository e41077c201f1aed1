"""The train engines and their optimizer."""
