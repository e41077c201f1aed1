"""What starts workers; so far only what it raises."""
