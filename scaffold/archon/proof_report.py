"""What a proof came to, for people: what is proven, and where the first difference is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

Proof = Mapping[str, Any]


def proof_lines(proof: Proof) -> tuple[str, ...]:
    """Return the verdict, what failed, and where the first difference is, as lines.

    Args:
        proof: What `archon_probe prove` found.
    """
    rows = variations(proof)
    counts = {state: sum(row["status"] == state for row in rows) for state in ("proven", "refused")}
    word = "proven" if proof.get("ok") else "unproven"
    lines = [
        f"{word}: {counts['proven']} of {len(rows)} configurations equal, "
        f"{counts['refused']} refused"
    ]
    test = cast("dict[str, Any]", proof.get("test") or {})
    if test:
        passed = f"its test: {test['passed']} passed"
        lines.append(f"its test was not run: {test['skipped']}" if test["skipped"] else passed)
    lines += [
        f"{row.get('name', '?')}: {row.get('message') or 'failed'}"
        for row in rows
        if row["status"] not in counts
    ]
    lines += [str(row) for row in proof.get("problems", [])]
    lines += _bisection(proof)
    lines += [
        f"refused {row.get('name', '?')}: {row.get('message')}"
        for row in rows
        if row["status"] == "refused"
    ]
    lines += _fields(proof)
    lines += [
        f"{dtype} against transformers' eager path: {rounding_text(found)}"
        for dtype, found in cast("dict[str, Proof]", proof.get("rounding") or {}).items()
    ]
    lines += [f"full configuration: {proof['full_size']}"] if proof.get("full_size") else []
    return tuple(lines)


def _fields(proof: Proof) -> Iterator[str]:
    """Yield what was varied and what was not, so that nobody has to look it up in the sources."""
    varied = cast("dict[str, int]", proof.get("varied") or {})
    if not varied:
        return
    rows = ", ".join(f"{name} {count}" for name, count in sorted(varied.items()))
    yield f"varied, with the number of configurations: {rows}"
    undeclared = cast("dict[str, str]", proof.get("undeclared") or {})
    if undeclared:
        asked = ", ".join(f"{name} ({at})" for name, at in sorted(undeclared.items()))
        yield f"asked for and declared by no class: {asked}"
    reasons: dict[str, list[str]] = {}
    for name, why in cast("dict[str, str]", proof.get("unvaried") or {}).items():
        reasons.setdefault(why, []).append(name)
    for why, names in sorted(reasons.items()):
        yield f"not varied, {why}: {', '.join(sorted(names))}"


def rounding_text(found: Mapping[str, Any]) -> str:
    """Return how many layers are equal below fp32, and what differs by how much."""
    if found["problem"]:
        return f"not compared: {found['problem']}"
    if found["equal"] == found["layers"]:
        return f"all {found['layers']} layers equal bit for bit"
    modules = cast("dict[str, float]", found["modules"])
    worst = sorted(modules.items(), key=lambda row: -row[1])
    named = ", ".join(f"{name} by {error:.1g}" for name, error in worst)
    return (
        f"{found['equal']} of {found['layers']} layers equal bit for bit, the others within "
        f"{found['error']:.1g} standard deviations ({named or 'in what adds up their parts'})"
    )


def variations(proof: Proof) -> list[dict[str, Any]]:
    """Return the rows of a proof, one for each configuration."""
    return cast("list[dict[str, Any]]", proof.get("variations", []))


def _bisection(proof: Proof) -> Iterator[str]:
    found = proof.get("bisection")
    if not isinstance(found, Mapping):
        return
    row = cast("Mapping[str, Any]", found)
    # Without a text the port could not be run at all.
    yield from str(row.get("text") or f"where it differs is unknown: {row['unknown']}").splitlines()
