"""What stands for engines in other processes."""
