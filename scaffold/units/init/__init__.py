"""Teaches the tool a repository from a unit that exists: what belongs to it, and a kind made of it.

The files are read (survey), the unit is found in them (unit_name, likeness, mentions), its names
are told apart from the words around them (spelling), a kind is proposed (proposal) and tried
(proof), and what held is shown and written (initiate).
"""
