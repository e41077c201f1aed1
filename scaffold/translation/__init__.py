"""Documents in two languages: which parts are behind, and whether they agree.

Subjects import nothing of each other.
"""
