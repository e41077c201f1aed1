"""Which decorators leave a signature as it is."""

from __future__ import annotations

KEEPING = frozenset(
    {"staticmethod", "classmethod", "property", "abstractmethod", "override", "final", "overload"}
    | {"cache", "lru_cache", "cached_property", "contextmanager", "asynccontextmanager"}
    | {"no_grad", "inference_mode", "enable_grad", "set_grad_enabled", "no_type_check"}
    | {"deprecated", "setter", "getter", "deleter", "abstractproperty", "abstractclassmethod"}
    | {"abstractstaticmethod", "singledispatch", "wraps", "runtime_checkable", "unique"}
    | {"total_ordering", "dataclass", "dataclass_transform", "skip", "skipif", "parametrize"}
)
"""The last parts of names of decorators that neither add nor take parameters."""

PROPERTIES = frozenset({"property", "cached_property", "abstractproperty", "functional_property"})


def last_part(dotted: str) -> str:
    """Returns the part of a dotted name after its last dot."""
    return dotted.rpartition(".")[2]


def keeps_signature(decorators: tuple[str, ...]) -> bool:
    """Tells whether all of these are known to leave the signature alone."""
    return all(last_part(each) in KEEPING for each in decorators)


def has_decorator(decorators: tuple[str, ...], *names: str) -> bool:
    """Tells whether one of these decorators has one of these last names."""
    return any(last_part(each) in names for each in decorators)
