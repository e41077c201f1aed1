"""``trinity.utils.log``."""

from __future__ import annotations

import logging


def get_logger(
    name: str | None = None, level: int | None = None, in_ray_actor: bool = False
) -> logging.Logger:
    """Return the logger of that name; ``in_ray_actor`` has no meaning here."""
    logger = logging.getLogger(name or "trinity")
    if level is not None:
        logger.setLevel(level)
    return logger
