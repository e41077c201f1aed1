"""The packages of an interpreter, as files; asked for by whoever trusts what is installed there."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from scaffold.analysis.files.files import Files, walk
from scaffold.analysis.process import run_text
from scaffold.errors import RequestError

LIMIT_S = 30
# Isolated, so that nothing of the folder that it is asked in is imported.
_ASK = "import json, sysconfig; print(json.dumps(sysconfig.get_path('purelib')))"


def installed_files(python: str) -> Files:
    """Return the files in the folder that an interpreter keeps its packages in.

    The interpreter is started once, to be asked for the folder; no package is imported.

    Raises:
        RequestError: It cannot be started, or does not answer.
    """
    try:
        done = run_text([python, "-I", "-c", _ASK], None, LIMIT_S)
        done.check_returncode()
        folder = Path(json.loads(done.stdout))
    except (OSError, ValueError, TypeError, subprocess.SubprocessError) as error:
        raise RequestError(
            f"{python!r} does not give the places of its packages: {error}",
            code="interpreter_lacks",
            hint="name a Python with --python EXE",
        ) from error
    root = Path(os.path.realpath(folder))
    return Files(root, list(walk(root)), has_git=False)
