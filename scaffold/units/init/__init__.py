"""`scaffold init`: a kind and its templates from units that exist.

`source_files` reads the repository and `family` finds the units and their files; `learn` makes
templates of what these have in common, by `python_consensus` or line by line, and `rules` the
registry lines from what `registrations` finds. `spellings` separates a name from the text around
it. `draft` writes the kind, `proof` makes units that exist again, `imports` imports a new one, and
`command` shows it and writes what held.
"""
