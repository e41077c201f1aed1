"""Is a light module light? A fresh process imports it and lists what came with it."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TRAINING = {"torch", "transformers", "datasets", "omegaconf", "pandas", "pyarrow", "scipy"}


def modules_after(code: str, cwd: Path = ROOT) -> set[str]:
    """Runs code in a fresh interpreter and returns the top-level names of its modules then."""
    script = f"import json, sys\n{code}\nprint(json.dumps(sorted(sys.modules)))"
    result = subprocess.run(
        [sys.executable, "-c", script], cwd=cwd, capture_output=True, text=True, check=True
    )
    return {name.split(".")[0] for name in json.loads(result.stdout.splitlines()[-1])}


def python_modules(package: str) -> list[str]:
    """Returns the dotted names of a package's modules, runners apart."""
    root = ROOT / package.replace(".", "/")
    names = []
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if "runners" not in parts and parts[-1] != "__main__":
            names.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return names


@pytest.mark.parametrize("package", ["areal", "areal.api", "areal.reward", "areal.dataset"])
def test_a_light_package_brings_no_training_library(package: str):
    assert not modules_after(f"import {package}") & (TRAINING - {"omegaconf"})


def test_the_api_brings_no_omegaconf_either():
    assert "omegaconf" not in modules_after("import areal.api")


@pytest.mark.parametrize("package", ["areal.api", "areal.reward", "areal.dataset"])
def test_no_module_of_a_light_package_needs_torch_to_be_imported(package: str):
    lines = "\n".join(f"import {name}" for name in python_modules(package))
    assert not modules_after(lines) & {"torch", "transformers"}


def test_no_module_of_the_toolkit_needs_the_training_package():
    lines = "\n".join(f"import {name}" for name in python_modules("scaffold"))
    assert not modules_after(lines) & (TRAINING | {"areal", "numpy"})


# The name under which a distribution is imported, where it is another one.
IMPORT_NAMES = {
    "tree-sitter": "tree_sitter",
    "tree-sitter-typescript": "tree_sitter_typescript",
    "pillow": "PIL",
    "math-verify": "math_verify",
}
IMPORT_NAMES |= {"markdown-it-py": "markdown_it", "pyyaml": "yaml", "tomli-w": "tomli_w"}
# Comes with torch, transformers or aiohttp and is imported beside them.
COMES_WITH = {"tokenizers", "huggingface_hub", "triton", "yaml", "yarl"}
OPTIONAL = {"sglang", "vllm", "swanlab", "trackio", "wandb", "trl", "flash_attn", "psutil"}
OPTIONAL |= {
    "agents",
    "anthropic",
    "claude_agent_sdk",
    "langchain_core",
    "langchain_openai",
    "openai",
}
OPTIONAL |= {"peft", "ray"}


def third_party_imports(package: str) -> dict[str, Path]:
    """Returns top-level names that a package imports from neither the standard library nor here."""
    found: dict[str, Path] = {}
    own = {"areal", "scaffold", "__future__", *sys.stdlib_module_names}
    for path in (ROOT / package).rglob("*.py"):
        if "runners" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = [node.module]
            found |= {top: path for name in names if (top := name.split(".")[0]) not in own}
    return found


def declared(project_file: str) -> set[str]:
    """Returns the import names of the dependencies that a project file declares."""
    project = tomllib.loads((ROOT / project_file).read_text(encoding="utf-8"))["project"]
    names = {line.split(">")[0].split("[")[0].strip() for line in project["dependencies"]}
    return {IMPORT_NAMES.get(name, name) for name in names}


@pytest.mark.parametrize(
    ("package", "project_file"), [("scaffold", "pyproject.toml"), ("areal", "areal/pyproject.toml")]
)
def test_what_a_package_imports_is_what_it_declares(package: str, project_file: str):
    imported, dependencies = third_party_imports(package), declared(project_file)
    undeclared = {
        n: str(p) for n, p in imported.items() if n not in dependencies | COMES_WITH | OPTIONAL
    }
    assert not undeclared
    assert not dependencies - set(imported), "declared, and imported nowhere"


def test_the_pinned_tools_are_the_installed_ones():
    for file in ("test.txt", "dev.txt"):
        for line in (ROOT / "requirements" / file).read_text(encoding="utf-8").splitlines():
            requirement = line.split("#")[0].strip()
            if "==" in requirement:
                name, _, version = requirement.partition("==")
                assert metadata.version(name.partition("[")[0]) == version, (
                    f"{file}: {requirement}; run make venv"
                )
