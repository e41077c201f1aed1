"""``trinity.utils.registry``: classes by name, by lazy path, or by dotted path."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Mapping
from typing import Any

logger = logging.getLogger("trinity")


class Registry:
    """Finds classes by name.

    Args:
        name: What it holds, for messages.
        default_mapping: Name to the dotted path of a class that is imported when it is asked for.
    """

    def __init__(self, name: str, default_mapping: Mapping[str, str] | None = None) -> None:
        self.name = name
        self._default_mapping = dict(default_mapping or {})
        self._modules: dict[str, Any] = {}

    def get(self, module_key: str) -> Any:
        """Return what is registered, else what the default mapping or a dotted path leads to.

        Raises:
            ValueError: The key is none of these.
            ImportError: The path cannot be imported.
        """
        if module_key in self._modules:
            return self._modules[module_key]
        path = self._default_mapping.get(module_key, module_key)
        if "." not in path:
            known = ", ".join(sorted({*self._modules, *self._default_mapping}))
            raise ValueError(f"Invalid module key: {module_key}; {self.name} has: {known}")
        found = _import(path)
        if module_key in self._default_mapping:
            self._modules[module_key] = found
        return found

    def register_module(
        self, module_name: str, module_cls: Any = None, force: bool = False, lazy: bool = False
    ) -> Any:
        """Register a class, or return a decorator that does.

        Args:
            module_name: The key; one of the default mapping may be taken over.
            module_cls: None gives a decorator.
            force: Replace what is registered.
            lazy: The class is the dotted path of one.

        Raises:
            KeyError: The name is registered already.
        """
        if module_cls is not None:
            self._register(module_name, _import(module_cls) if lazy else module_cls, force)
            return module_cls

        def register(cls: Any) -> Any:
            self._register(module_name, cls, force)
            return cls

        decorator: Callable[[Any], Any] = register
        return decorator

    def _register(self, name: str, cls: Any, force: bool) -> None:
        if name in self._modules and not force:
            raise KeyError(f"{name} is already registered in {self.name}")
        self._modules[name] = cls


def _import(path: str) -> Any:
    module, _, attribute = path.rpartition(".")
    try:
        return getattr(importlib.import_module(module), attribute)
    except AttributeError as error:
        raise ImportError(f"{module} has no {attribute}") from error
