"""From what a configuration names to a class: a key, a dotted path, or a class in a file."""

from __future__ import annotations

import importlib.util
import logging
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from areal.api.errors import ConfigError
from areal.api.registry import import_from_string
from areal.experimental.trinity.package import load_package

logger = logging.getLogger("Trinity")

_PREFIX = "_areal_trinity_plugins"
_loaded: dict[Path, ModuleType] = {}
_failures: dict[Path, str] = {}


def load_workflow(named: Any, plugin_dir: str | None = None) -> Any:
    """Return a workflow's class.

    Args:
        named: A class, a registered key, a dotted path, or ``file.py:Name``.
        plugin_dir: A folder whose top-level files are loaded first, as they may register keys.

    Raises:
        ConfigError: It is none of these, or no workflow.
    """
    package = load_package()
    found = _load(named, package.workflows, "workflow_type", plugin_dir)
    if not (isinstance(found, type) and issubclass(found, package.Workflow)):
        raise ConfigError(
            f"workflow_type {_name(named)} is {found!r}, no subclass of "
            f"trinity.common.workflows.Workflow{_wanted_package(found)}"
        )
    return found


def load_reward_fn(named: Any, plugin_dir: str | None = None) -> Any:
    """Return a reward function's class; None gives None.

    Raises:
        ConfigError: It cannot be found, or is no subclass of RewardFn.
    """
    if named is None or named == "":
        return None
    package = load_package()
    found = _load(named, package.reward_functions, "reward_fn_type", plugin_dir)
    if not (isinstance(found, type) and issubclass(found, package.RewardFn)):
        raise ConfigError(
            f"reward_fn_type {_name(named)} is {found!r}, no subclass of "
            "trinity.common.rewards.RewardFn"
        )
    return found


def load_plugins(folder: str) -> dict[str, str]:
    """Import every top-level file of a plugin folder, each once, so that it registers its classes.

    Returns:
        The files that raise on import, with the reason; the rest of the folder serves all the same.

    Raises:
        ConfigError: There is no such folder.
    """
    load_package()
    place = Path(folder)
    if not place.is_dir():
        raise ConfigError(f"plugin_dir {folder!r} is not a folder")
    for file in sorted(place.glob("*.py")):
        is_plugin = file.is_file() and file.name != "__init__.py"
        if is_plugin and file.resolve() not in _failures:
            try:
                load_file(file)
            except ConfigError as error:
                logger.warning("%s", error)
    return {str(file): why for file, why in _failures.items() if file.parent == place.resolve()}


def load_file(file: Path) -> ModuleType:
    """Import a file by its path, once.

    Raises:
        ConfigError: There is none, or it raises on import.
    """
    load_package()
    path = file.resolve()
    if path in _loaded:
        return _loaded[path]
    name = f"{_PREFIX}.{path.stem}_{len(_loaded)}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise ConfigError(f"{file} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # a script among the plugins may call sys.exit
        del sys.modules[name]
        _failures[path] = f"{type(error).__name__}: {error}"
        raise ConfigError(
            f"{file} raises on import: {type(error).__name__}: {error}; what it registers is "
            "missing until that is fixed"
        ) from error
    _loaded[path] = module
    return module


def _load(named: Any, registry: Any, what: str, plugin_dir: str | None) -> Any:
    failures = load_plugins(plugin_dir) if plugin_dir else {}
    if not isinstance(named, str):
        return named
    file, colon, name = named.partition(":")
    if colon and file.endswith(".py"):
        found = getattr(load_file(Path(file)), name, None)
        if found is None:
            raise ConfigError(f"{what}: {file} has no {name}")
        return found
    try:
        return import_from_string(named) if colon else registry.get(named)
    except (ImportError, AttributeError, ValueError, KeyError) as error:
        broken = "; ".join(f"{file} raises on import: {why}" for file, why in failures.items())
        raise ConfigError(
            f"{what} {named!r} is not a registered key, a dotted path or file.py:Name: {error}"
            + (f"; {broken}" if broken else "")
        ) from error


def _name(named: Any) -> str:
    return repr(named) if isinstance(named, str) else getattr(named, "__name__", repr(named))


def _wanted_package(found: Any) -> str:
    bases = getattr(found, "__mro__", ())
    if any(base.__module__.startswith("trinity.") for base in bases):
        return " as it is loaded here; import it after areal has loaded the package"
    return ""
