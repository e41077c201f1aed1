"""Proves or refutes what guidance for agents claims of a repository: claims, verdicts, findings."""
