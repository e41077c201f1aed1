"""The kinds of claims: each module finds one kind in a document and judges it."""
