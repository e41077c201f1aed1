"""What to say of a run that was interrupted."""

from __future__ import annotations

from pathlib import Path

from scaffold.transaction.state import has_journal


def leftover_warning(root: Path) -> tuple[str, ...]:
    """Return what to say where a run was interrupted and nothing may be written."""
    if not has_journal(root):
        return ()
    from scaffold.transaction.journal import describe_leftover  # seldom there is one

    left = describe_leftover(root)
    if left is None:
        return ()
    if left.is_running:
        return (f"`scaffold {left.command}` is writing here at this moment",)
    return (
        f"`scaffold {left.command}` was interrupted while it wrote {', '.join(left.files)}; "
        "`scaffold recover` or the next writing command settles it first",
    )


def settled_warning(settled: str) -> tuple[str, ...]:
    """Return what to say of an earlier run that was settled first."""
    return (f"an earlier run was interrupted; it was {settled} first",) if settled else ()
