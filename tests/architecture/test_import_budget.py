"""What is said to be light to import is: no heavy package comes with it."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {
    "aiohttp",
    "datasets",
    "fastapi",
    "httpx",
    "hydra",
    "matplotlib",
    "math_verify",
    "numpy",
    "omegaconf",
    "openai",
    "pandas",
    "ray",
    "rich",
    "torch",
    "transformers",
    "triton",
    "wandb",
    "yaml",
}
EVERYTHING_OF_API = "from areal.api import *"

CASES = {
    "import areal": HEAVY,
    "import areal.api": HEAVY,
    EVERYTHING_OF_API: HEAVY,
    "import areal.api.cli_args": HEAVY,
    "import areal.reward": {"torch", "transformers"},
    "import areal.dataset": {"torch", "transformers"},
    "import scaffold.cli.main": {"torch", "transformers", "areal"},
}


@pytest.mark.parametrize("statement", sorted(CASES))
def test_imports_stay_light(statement: str) -> None:
    code = f"import sys; {statement}; print(*sorted({{n.split('.')[0] for n in sys.modules}}))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    loaded = set(ran.stdout.split())
    assert len(loaded) > 10
    assert not loaded & CASES[statement], f"{statement!r} imports {loaded & CASES[statement]}"


def test_every_module_of_api_stays_light() -> None:
    code = (
        "import importlib, pkgutil, sys, areal.api\n"
        "for found in pkgutil.walk_packages(areal.api.__path__, 'areal.api.'):\n"
        "    importlib.import_module(found.name)\n"
        "print(*sorted({n.split('.')[0] for n in sys.modules}))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert not set(ran.stdout.split()) & HEAVY


def test_the_list_of_public_names_is_complete() -> None:
    import areal
    import areal.api

    for package in (areal, areal.api):
        assert set(package.__all__) == set(package._LAZY_IMPORTS)
        assert len(package.__all__) == len(set(package.__all__))
