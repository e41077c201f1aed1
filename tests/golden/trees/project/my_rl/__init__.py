"""Rewards, datasets and workflows of my_rl."""
