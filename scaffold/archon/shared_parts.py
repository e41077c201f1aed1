"""The parts that Archon models share, as a package of a repository that does not have them.

A checkout of AReaL has an ``areal`` of its own: its registry, base classes and meshes are taken as
they are there, and what else a model imports comes along beside the models, under another name.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath

from scaffold.archon.codegen.names import ARCHON
from scaffold.errors import TemplateError
from scaffold.syntax import parse
from scaffold.templating.manifests import templates_folder
from scaffold.templating.render import sorted_imports

THEIRS = {
    f"{ARCHON}.model_spec": ("ModelSpec", "register_model_spec"),
    f"{ARCHON}.base": ("BaseModelArgs", "BaseArchonModel", "BaseStateDictAdapter"),
    f"{ARCHON}.parallel_dims": ("ArchonParallelDims",),
    f"{ARCHON}.pipeline_parallel": ("pipeline_llm",),
}
"""What a checkout has to have: module to names. Bases are extended, the others used as they are."""

_AS_THEY_ARE = {"areal.utils", "areal.utils.logging", *THEIRS} - {f"{ARCHON}.base"}
"""Modules that are imported from the checkout itself."""

_BASES = {
    "from abc import ABC, abstractmethod\n": "from abc import abstractmethod\n",
    "BaseModelArgs(ABC):": "BaseModelArgs(contract.BaseModelArgs):",
    "BaseArchonModel(nn.Module, ABC):": "BaseArchonModel(contract.BaseArchonModel):",
    "BaseStateDictAdapter(ABC):": "BaseStateDictAdapter(contract.BaseStateDictAdapter):",
    "\nfrom areal.api.errors import": (
        f"\nfrom {ARCHON} import base as contract\nfrom areal.api.errors import"
    ),
}
"""What makes our bases extend those of the checkout."""

_DOC = '''"""Parts that Archon models share, for those that `scaffold add-archon-model` writes.

They come from AReaL Scaffold; `scaffold update` renews them with the models that import them.
"""
'''
_OURS = re.compile(r"\bareal\.(?:experimental\.models\.archon|api|utils)\.\w[\w.]*")


def shared_modules(texts: Mapping[str, bytes], package: str) -> dict[str, str]:
    """Return the modules of a package of shared parts that written files need.

    Args:
        texts: The written files, by any name.
        package: Dotted name that the shared parts have there.

    Returns:
        Path inside the package to text.

    Raises:
        TemplateError: ``base`` has no base class that could extend the checkout's.
    """
    wanted = [
        ARCHON + name.removeprefix(package)
        for text in texts.values()
        for name in _names(text)
        if name.startswith(f"{package}.")
    ]
    found: dict[str, bytes] = {}
    while wanted:
        name = wanted.pop()
        file = _file(name)
        # A name in a module, or a module that the checkout has.
        if file is None or name in found or name in (*_AS_THEY_ARE, ARCHON):
            continue
        found[name] = file.read_bytes()
        wanted += _names(found[name])
        around = name.rpartition(".")[0]
        wanted += [around] if around.startswith(ARCHON) else []
    if not found:  # templates of the repository's own may do without
        return {}
    modules = {_place(name): _rewritten(name, text, package) for name, text in found.items()}
    return {"__init__.py": _DOC, **dict(sorted(modules.items()))}


def imported(text: bytes) -> Iterator[tuple[str, str]]:
    """Yield the modules that a text imports absolutely, and with each a name from it, or ""."""
    for node in ast.walk(parse(text)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from ((node.module, alias.name) for alias in node.names)


def _names(text: bytes) -> Iterator[str]:
    """Yield what may be a module among all that a text imports."""
    for module, name in imported(text):
        yield module
        if name:
            yield f"{module}.{name}"


def _file(name: str) -> Path | None:
    """Return the file of a module of ours, beside the templates; None of what is no module."""
    if not name.startswith("areal."):
        return None
    base = templates_folder().parent / name.replace(".", "/")
    files = (base.with_suffix(".py"), base / "__init__.py")
    return next((file for file in files if file.is_file()), None)


def _place(name: str) -> str:
    """Return where a module of ours is in the package."""
    inner = _inner(name).replace(".", "/")
    file = _file(name)
    is_package = file is not None and file.name == "__init__.py"
    return str(PurePosixPath(inner, "__init__.py")) if is_package else f"{inner}.py"


def _inner(name: str) -> str:
    # `areal.api.errors` becomes `errors`; all of Archon's keeps its folders.
    return name.removeprefix(f"{ARCHON}.").removeprefix("areal.api.").removeprefix("areal.utils.")


def _rewritten(name: str, text: bytes, package: str) -> str:
    """Return a module with imports as they are in the package."""
    source = text.decode()
    if name == f"{ARCHON}.base":
        for old, new in _BASES.items():
            if old not in source:
                raise TemplateError(f"{name} has no {old.strip()!r}", code="template_invalid")
            source = source.replace(old, new)

    def renamed(match: re.Match[str]) -> str:
        dotted = match[0]
        return dotted if dotted in _AS_THEY_ARE else f"{package}.{_inner(dotted)}"

    return _with_imports(source, lambda block: _OURS.sub(renamed, block))


def _with_imports(source: str, rename: Callable[[str], str]) -> str:
    """Return a text whose imports at the top are renamed, and sorted again."""
    nodes = [n for n in parse(source.encode()).body if isinstance(n, ast.Import | ast.ImportFrom)]
    if not nodes:
        return source
    lines = source.splitlines(keepends=True)
    first, last = nodes[0].lineno - 1, nodes[-1].end_lineno or 0
    block = sorted_imports(rename("".join(lines[first:last])), ("areal",))
    return "".join([*lines[:first], block, *lines[last:]])
