"""The error that a probe reports: a reason, and what to do about it."""

from __future__ import annotations


class ProbeError(Exception):
    """A request that cannot be met, for a reason that lies in the request.

    Args:
        message: What was found, and where.
        code: One of the codes of `scaffold.archon.codes.CODES`; the caller reports it.
        hint: What to do about it.
    """

    def __init__(self, message: str, *, code: str = "model_unsuited", hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.hint = hint

    def to_json(self) -> dict[str, str]:
        """Return the error as a result carries it."""
        return {"code": self.code, "message": str(self), "hint": self.hint}
