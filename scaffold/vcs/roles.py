"""What a file is for, by its path: a source, a test, a page, a part of the build."""

from __future__ import annotations

import re
from typing import Literal

Role = Literal["bench", "build", "ci", "data", "docs", "source", "test", "tooling"]

MANIFESTS = frozenset(
    {"pyproject.toml", "setup.py", "setup.cfg", "package.json", "cargo.toml", "go.mod", "pom.xml"}
    | {"build.gradle", "build.gradle.kts", "gemfile", "composer.json", "pipfile", "environment.yml"}
)
"""Files that list what a project needs, in lower case."""

LOCKS = frozenset(
    {"uv.lock", "poetry.lock", "pipfile.lock", "pdm.lock", "package-lock.json", "yarn.lock"}
    | {"pnpm-lock.yaml", "cargo.lock", "go.sum", "gemfile.lock", "composer.lock", "flake.lock"}
)
"""Files that a resolver writes, in lower case."""

_BUILD = frozenset(
    {"makefile", "dockerfile", "containerfile", "cmakelists.txt", "justfile", "manifest.in"}
    | {"rakefile", "meson.build", "build", "build.bazel", "workspace", "tox.ini", "noxfile.py"}
)
_CI_FILES = frozenset(
    {".gitlab-ci.yml", ".travis.yml", "azure-pipelines.yml", "jenkinsfile", "appveyor.yml"}
    | {".readthedocs.yaml", "codecov.yml", ".codecov.yml"}
)
_CI_FOLDERS = frozenset({".circleci", ".ci", ".buildkite", ".gitlab"})
_TEST_FOLDERS = frozenset({"test", "tests", "testing", "__tests__", "spec", "specs", "testdata"})
# `test_x.py`, `x_test.go`, `x.spec.ts`, `conftest.py`.
_TEST_NAME = re.compile(r"(test_.*|conftest|.*_(test|spec)|.*\.(test|spec))\.\w+|conftest\.py")
_PROSE = frozenset({"md", "mdx", "rst", "adoc", "txt", "tex", "ipynb"})
_SOURCES = frozenset(
    {"py", "pyi", "pyx", "js", "jsx", "mjs", "cjs", "ts", "tsx", "mts", "go", "rs", "java", "kt"}
    | {"scala", "c", "h", "cc", "cpp", "cxx", "hpp", "hh", "cu", "cuh", "cs", "rb", "php", "swift"}
    | {
        "m",
        "mm",
        "ex",
        "exs",
        "erl",
        "hs",
        "ml",
        "lua",
        "r",
        "jl",
        "pl",
        "sh",
        "bash",
        "zsh",
        "ps1",
    }
    | {"sql", "vue", "svelte", "dart", "zig", "jinja", "j2", "css", "scss", "html", "proto"}
)


def role_of(path: str) -> Role:
    """Return what a file is for; a test of the build is a test, a page below tests too."""
    *folders, name = path.lower().split("/")
    if name in _CI_FILES or _CI_FOLDERS.intersection(folders[:1]) or folders[:1] == [".github"]:
        return "ci"
    # The order decides: a manifest below tests is a test's, a page of the CI the CI's.
    if _TEST_FOLDERS.intersection(folders) or _TEST_NAME.fullmatch(name):
        return "test"
    if any(folder.startswith("bench") for folder in folders) or name.startswith("bench_"):
        return "bench"
    if is_manifest(path) or name in _BUILD or name.endswith((".cmake", ".mk", ".dockerfile")):
        return "build"
    suffix = name.rpartition(".")[2]
    if {"docs", "doc", "documentation"}.intersection(folders) or suffix in _PROSE:
        return "docs"
    if name.startswith(".") or any(folder.startswith(".") for folder in folders):
        return "tooling"
    return "source" if suffix in _SOURCES else "data"


def is_manifest(path: str) -> bool:
    """Return whether a file lists what a project needs, or what was resolved for it."""
    *folders, name = path.lower().split("/")
    if name in MANIFESTS or name in LOCKS:
        return True
    return name.endswith((".txt", ".in")) and (
        name.startswith(("requirements", "constraints")) or folders[-1:] == ["requirements"]
    )
