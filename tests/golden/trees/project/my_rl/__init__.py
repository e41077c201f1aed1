"""Rewards, datasets, workflows and models of my_rl."""
