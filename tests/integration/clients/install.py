"""Installs the clients at their pinned versions into a folder of its own; the tests ask them there.

    python tests/integration/clients/install.py [FOLDER]

Where npm is missing it says so, installs nothing and ends well; the tests skip for that reason.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
FOLDER = ROOT / ".cache" / "clients"
"""Where they go unless the command line or the environment's SCAFFOLD_CLIENTS names another."""

REQUIREMENTS = ROOT / "requirements" / "clients.txt"
MANIFESTS = (
    HERE / "node" / "package.json",
    HERE / "npm" / "package.json",
    REQUIREMENTS,
)
NODE_BIN = Path("node", "node_modules", ".bin")
NPM_BIN = Path("npm", "node_modules", ".bin")
PYTHON_BIN = Path("python", "Scripts" if os.name == "nt" else "bin")
# No lock file: npm writes into it only what the registry at hand has of the platforms, and refuses
# it on the others. What differs by platform is pinned by the clients themselves.
QUIET = ["--no-package-lock", "--no-audit", "--no-fund", "--no-progress", "--loglevel=error"]


def clients_folder() -> Path:
    """Returns the folder that holds the clients, whether they are there or not."""
    return Path(os.environ.get("SCAFFOLD_CLIENTS") or FOLDER)


def fingerprint() -> str:
    """Returns what tells one set of pinned versions from another."""
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in MANIFESTS)).hexdigest()


def why_missing(folder: Path) -> str | None:
    """Returns why the clients cannot be asked, or None where all of them are in place."""
    stamp = folder / "installed"
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == fingerprint():
        return None
    if shutil.which("npm") is None:
        return "npm is missing, and the clients come from npm"
    return "the clients are not installed at their pinned versions: run `make test-clients`"


def install(folder: Path) -> None:
    """Installs node, the clients and the checkers; what an earlier run left there is replaced."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    env = _npm_environment(folder)
    _install_npm(folder, "node", env)
    env["PATH"] = os.pathsep.join([str(folder / NODE_BIN), env["PATH"]])
    _install_npm(folder, "npm", env)
    venv.create(folder / "python", with_pip=True)
    pip = [str(folder / PYTHON_BIN / "python"), "-m", "pip", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--quiet", "-r", str(REQUIREMENTS)], check=True)
    (folder / "installed").write_text(fingerprint(), encoding="utf-8")


def _install_npm(folder: Path, name: str, env: dict[str, str]) -> None:
    shutil.copytree(HERE / name, folder / name)
    subprocess.run([_npm(), "install", *QUIET], cwd=folder / name, env=env, check=True)


def _npm_environment(folder: Path) -> dict[str, str]:
    """Returns an environment whose home is a new one; npm's own settings and cache stay.

    The clients' install scripts run in it, and shall not find or touch anybody's files.
    """
    kept = {
        f"npm_config_{name}": subprocess.run(
            [_npm(), "config", "get", name], capture_output=True, text=True, check=True
        ).stdout.strip()
        for name in ("userconfig", "cache")
    }
    home = folder / "home"
    home.mkdir()
    return {**os.environ, **kept, "HOME": str(home), "USERPROFILE": str(home)}


def _npm() -> str:
    found = shutil.which("npm")
    assert found is not None, "asked for before"
    return found


def main() -> int:
    """Installs what is not in place yet, and returns the exit status."""
    folder = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else clients_folder()
    reason = why_missing(folder)
    if reason is not None and shutil.which("npm") is not None:
        print(f"installing the clients into {folder} (about 1.4 GB)", flush=True)
        try:
            install(folder)
        except subprocess.CalledProcessError as error:
            print(f"the clients are not installed: {error.cmd[0]} failed", file=sys.stderr)
            return 1
    elif reason is not None:
        print(f"nothing installed: {reason}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
