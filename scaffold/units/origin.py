"""Where this tool came from, and with it the training package that belongs to it."""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname


def training_package() -> str:
    """Returns the folder or wheel of areal-lite that came with this tool, or "" for an index."""
    checkout = Path(__file__).resolve().parents[2] / "areal"
    if (checkout / "pyproject.toml").is_file():
        return checkout.as_posix()
    wheel = _own_wheel()
    beside = sorted(wheel.parent.glob("areal_lite-*.whl")) if wheel else []
    return beside[-1].as_posix() if beside else ""


def _own_wheel() -> Path | None:
    """Returns the file that this tool was installed from, as pip and uv record it (PEP 610)."""
    try:
        text = metadata.distribution("areal-scaffold").read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        return None
    url = urlsplit(str(json.loads(text)["url"]) if text else "")
    return Path(url2pathname(unquote(url.path))) if url.scheme == "file" else None
