"""What a kind of claim is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from scaffold.analysis.repository import Repository
from scaffold.skills.check.claim import Claim, Verdict
from scaffold.skills.check.documents import Document


class Kind(NamedTuple):
    """One kind of claim.

    Args:
        name: Its name, which its claims carry.
        find: Returns the claims of this kind in a document; reads nothing else.
        judge: Returns what the repository says of one of them.
    """

    name: str
    find: Callable[[Document], Iterable[Claim]]
    judge: Callable[[Claim, Document, Repository], Verdict]
