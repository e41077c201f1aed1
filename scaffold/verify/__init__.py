"""Runs what was made: the static contract, the generated tests and real episodes, and a verdict.

``verify`` executes the target's code, in the target's interpreter and never in this process.
"""

from __future__ import annotations

from scaffold.verify.verdict import verify_units

__all__ = ["verify_units"]
