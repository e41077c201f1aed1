"""Dependencies: where a package is used, what its next version breaks, and how its pins move."""
