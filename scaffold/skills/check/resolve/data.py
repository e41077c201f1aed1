"""Whether the configuration has the keys that a text sets."""

from __future__ import annotations

from scaffold.skills.check.reference import Reference, Verdict
from scaffold.skills.check.resolve.scope import Scope


def resolve_key(reference: Reference, scope: Scope) -> Verdict:
    """Resolve ``trainer.policy.lr=...``: have the classes of the configuration such a key?"""
    key = str(reference.data)
    repository = scope.repository
    answer = repository.config_classes.find(key)
    if answer.state == "there":
        return Verdict.holds(answer.reason, "a class of the configuration")
    if answer.state == "open" or repository.config_classes.yaml_has(key):
        return Verdict.unknown(answer.reason)
    part = key.split(".")[answer.depth]
    message = f"{key!r} is not a key of the configuration"
    return Verdict.wrong(answer.reason, "config-key-missing", message, part, answer.near)
