"""Version control: commits, pull requests and reviews."""
