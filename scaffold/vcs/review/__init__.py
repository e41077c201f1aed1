"""The review of a diff: what it touches, what its rules see in it, who should look at what."""
