"""The languages of sources, by the endings of their names."""

from __future__ import annotations

_LANGUAGES = {
    "py": "python", "pyi": "python", "pyx": "cython", "js": "javascript", "mjs": "javascript",
    "cjs": "javascript", "jsx": "javascript", "ts": "typescript", "tsx": "typescript", "go": "go",
    "rs": "rust", "java": "java", "kt": "kotlin", "scala": "scala", "c": "c", "h": "c", "cc": "cpp",
    "cpp": "cpp", "cxx": "cpp", "hpp": "cpp", "cu": "cuda", "cuh": "cuda", "cs": "csharp",
    "rb": "ruby", "php": "php", "swift": "swift", "sh": "bash", "bash": "bash", "zsh": "bash",
    "ps1": "powershell", "pl": "perl", "lua": "lua", "r": "r", "jl": "julia", "ex": "elixir",
    "sql": "sql",
}  # fmt: skip
"""The language of each ending; what has one is source."""
_NAMES = {"Dockerfile": "docker", "Makefile": "make", "Jenkinsfile": "groovy"}


def language_of(path: str) -> str | None:
    """Return the language of a source; None for what is no program."""
    name = path.rpartition("/")[2]
    return _LANGUAGES.get(name.rpartition(".")[2].lower()) if "." in name else _NAMES.get(name)
