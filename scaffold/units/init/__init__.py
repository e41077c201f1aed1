"""`scaffold init`: a kind and its templates from a unit that exists.

`source_files` reads the repository, `example` finds the unit's files in it and `registrations` its
registry lines; `name_forms` separates the name from the text around it, `draft` writes the kind,
`roundtrip` tries it, and `command` shows it and writes what held.
"""
