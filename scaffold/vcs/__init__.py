"""Version control: what a commit says of itself. Subjects import nothing of each other."""
