"""Are the clients pinned, and does a test say why it skips? Runs without any client."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.integration.clients import install


@pytest.mark.parametrize("manifest", [path for path in install.MANIFESTS if path.suffix == ".json"])
def test_every_package_of_npm_has_one_version(manifest: Path) -> None:
    packages = json.loads(manifest.read_text(encoding="utf-8"))["dependencies"]
    assert packages
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in packages.values())


def test_every_package_of_pypi_has_one_version() -> None:
    rows = [row.partition("#")[0].strip() for row in install.REQUIREMENTS.read_text().splitlines()]
    assert {"agnix", "skills-ref"} <= {row.partition("==")[0] for row in filter(None, rows)}
    assert all(re.fullmatch(r"[\w-]+==\d+(\.\d+)*", row) for row in filter(None, rows))


def test_a_skip_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert install.why_missing(tmp_path) == "npm is missing, and the clients come from npm"
    npm = tmp_path / "npm"
    npm.write_text("#!/bin/sh\n")
    npm.chmod(0o755)
    assert "make test-clients" in (install.why_missing(tmp_path) or "")


def test_clients_of_other_versions_do_not_count(tmp_path: Path) -> None:
    stamp = tmp_path / "installed"
    stamp.write_text(install.fingerprint(), encoding="utf-8")
    assert install.why_missing(tmp_path) is None
    stamp.write_text("other", encoding="utf-8")
    assert install.why_missing(tmp_path) is not None
