"""What names something: a module for each family of references, found by syntax and place."""
