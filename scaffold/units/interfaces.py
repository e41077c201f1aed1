"""What the functions and classes of any module take, as text to write tests from; pure."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

Function = ast.FunctionDef | ast.AsyncFunctionDef

VALUES: dict[str, tuple[str, ...]] = {
    "str": ('""', '"a"', '"\\N{SNOWMAN}"'),
    "int": ("0", "1", "-1"),
    "float": ("0.0", "1.5", "-1.0"),
    "bool": ("True", "False"),
    "bytes": ('b""', 'b"a"'),
    "list": ("[]",),
    "dict": ("{}",),
    "tuple": ("()",),
    "set": ("set()",),
    "None": ("None",),
    "Any": ("None", "0", '""'),
    "Tensor": ("torch.zeros(2, 3)", "torch.ones(1)"),
}
"""The boundaries of a type, by the last part of its name."""

SAME = {
    "object": "Any", "Sequence": "list", "Iterable": "list", "Collection": "list",
    "MutableSequence": "list", "List": "list", "Mapping": "dict", "MutableMapping": "dict",
    "Dict": "dict", "AbstractSet": "set", "Set": "set", "Tuple": "tuple", "Text": "str",
}  # fmt: skip
"""Types whose boundaries are those of another one."""

RETURNED = ("str", "int", "float", "bool", "bytes", "list", "dict", "tuple", "set")
"""What a result can be checked against by its type alone."""

KEEPING = (
    "lru_cache", "cache", "wraps", "contextmanager", "asynccontextmanager", "staticmethod",
    "classmethod", "override", "final", "abstractmethod", "no_grad", "inference_mode",
)  # fmt: skip
"""Decorators that leave the parameters as they are."""

RISKY = frozenset([
    "abort", "argparse", "argv", "chdir", "chmod", "connect", "eval", "exec", "exit", "_exit",
    "fork", "from_pretrained", "getpass", "httpx", "huggingface_hub", "input", "kill",
    "load_dataset", "makedirs", "mkdir", "open", "popen", "remove", "rename", "requests", "rmdir",
    "shutil", "sleep", "socket", "spawn", "subprocess", "system", "unlink", "urlopen",
    "write_bytes", "write_text",
])  # fmt: skip
"""Names of what reaches beyond the process; a function that uses one is called by its author."""

CHANCE = frozenset([
    "datetime", "getpid", "now", "perf_counter", "rand", "randint", "randn", "random", "secrets",
    "time", "today", "urandom", "uuid", "uuid4",
])  # fmt: skip
"""Names of what gives another value each time."""

MAKING = ("__init__", "__new__", "__post_init__")
"""The methods that run when an object is made."""

MAX_ROWS = 6


class Interface(NamedTuple):
    """Hold what tests know of a function, class or method.

    Args:
        name: As an attribute of its module, such as "Stack.push".
        parameters: Their names in order, "=" behind those with a default; None where a decorator
            may have changed them.
        rows: The arguments of calls at the boundaries; empty where only its author knows any.
        drawn: The annotation of each argument of a row, where any value of them can be drawn.
        is_called: Whether a row of arguments is wanted at all: not for methods.
        returns: The builtin type of the result, where it is one.
        raises: The exceptions that its text names.
    """

    name: str
    parameters: str | None
    rows: tuple[str, ...]
    drawn: tuple[str, ...]
    is_called: bool
    returns: str
    raises: tuple[str, ...]


def interfaces(tree: ast.Module, only: str = "") -> list[Interface]:
    """Return what a module defines for others at its top level.

    Args:
        tree: The module.
        only: The one function or class that is wanted, private or not; empty for all public ones.
    """
    bound = [name for node in tree.body for name in _names_bound(node)]
    uses = _Uses(tree)
    found: list[Interface] = []
    for node in tree.body:
        if not isinstance(node, Function | ast.ClassDef) or bound.count(node.name) > 1:
            continue
        if node.name not in _names_bound(node):
            continue
        if node.name != only if only else node.name.startswith("_"):
            continue
        if isinstance(node, ast.ClassDef):
            found += _of_class(node, uses)
        else:
            each = _of_function(node, node.name, uses, is_called=True)
            # Behind another decorator may be anything: a command, a fixture, a wrapped call.
            known = _keeps_parameters(node)
            found.append(
                each if known else each._replace(parameters=None, rows=(), drawn=(), returns="")
            )
    return found


def _names_bound(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, Function) and "overload" in _decorators(node):
        return  # for type checkers; what runs is defined below it
    if isinstance(node, Function | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        yield from (target.id for target in targets if isinstance(target, ast.Name))


def _of_class(node: ast.ClassDef, uses: _Uses) -> Iterator[Interface]:
    methods = [
        each
        for each in node.body
        if isinstance(each, Function) and "overload" not in _decorators(each)
    ]
    names = [each.name for each in methods]
    # A base, a decorator or a metaclass may have a say in how objects are made.
    is_plain = not (node.bases or node.keywords or node.decorator_list or "__new__" in names)
    for each in methods:
        if names.count(each.name) > 1 or not _keeps_parameters(each):
            continue
        if each.name == "__init__" and is_plain:
            yield _of_function(each, node.name, uses, is_called=True, skip=1)
        elif not each.name.startswith("_") or each.name in ("__init__", "__call__"):
            is_class_method = "classmethod" in map(ast.unparse, each.decorator_list)
            name = f"{node.name}.{each.name}"
            yield _of_function(each, name, uses, is_called=False, skip=int(is_class_method))


def _decorators(node: Function) -> list[str]:
    names = (ast.unparse(each).partition("(")[0] for each in node.decorator_list)
    return [name.rpartition(".")[2] for name in names]


def _keeps_parameters(node: Function) -> bool:
    return all(name in KEEPING for name in _decorators(node))


def _of_function(
    node: Function, name: str, uses: _Uses, *, is_called: bool, skip: int = 0
) -> Interface:
    reached = uses.reached(node)
    rows = () if reached & RISKY or not is_called else tuple(_rows(node.args, skip))
    # An abstract type, such as Sequence, allows more than the builtin one in its place.
    returns = "" if node.returns is None else _last_name(node.returns)
    # A generator or a context is no list, whatever its annotation is.
    is_plain = not node.decorator_list and not any(
        isinstance(each, ast.Yield | ast.YieldFrom) for each in ast.walk(node)
    )
    return Interface(
        name,
        # In a class Python has `__x` as `_Owner__x`, also among the parameters.
        _parameters(node.args, skip, "" if name == node.name else name.partition(".")[0]),
        rows,
        tuple(_drawn(node.args, skip)) if rows and not reached & CHANCE else (),
        is_called,
        returns if is_plain and returns in RETURNED and name == node.name else "",
        tuple(sorted(uses.raised(node, reached))),
    )


class _Uses:
    """Hold what the functions of a module use and raise, to find what a call of one reaches."""

    def __init__(self, tree: ast.Module) -> None:
        self.names: dict[str, set[str]] = {}
        self.raises: dict[str, set[str]] = {}
        for node in ast.walk(tree):
            if isinstance(node, Function):
                self._add(node.name, node)
            elif isinstance(node, ast.ClassDef):
                for each in node.body:
                    if isinstance(each, Function) and each.name in MAKING:
                        self._add(node.name, each)
            elif isinstance(node, ast.Import | ast.ImportFrom):
                # `run` of `from subprocess import run` is as risky as the module.
                for alias in node.names:
                    path = f"{getattr(node, 'module', None) or ''}.{alias.name}"
                    name = alias.asname or alias.name.partition(".")[0]
                    self.names.setdefault(name, set()).update(filter(None, path.split(".")))

    def _add(self, name: str, node: Function) -> None:
        self.names.setdefault(name, set()).update(_names_used(node))
        self.raises.setdefault(name, set()).update(_names_raised(node))

    def reached(self, node: Function) -> set[str]:
        """Return the names that a function uses, and those of what it calls in its module."""
        found: set[str] = set()
        waiting = set(_names_used(node))
        while waiting:
            name = waiting.pop()
            found.add(name)
            waiting |= self.names.get(name, set()) - found
        return found

    def raised(self, node: Function, reached: set[str]) -> set[str]:
        """Return the exceptions that the text of a function names, or that of what it calls."""
        return set(_names_raised(node)).union(*(self.raises.get(name, ()) for name in reached))


def _names_raised(node: Function) -> Iterator[str]:
    for each in ast.walk(node):
        if isinstance(each, ast.Raise) and each.exc is not None:
            name = ast.unparse(each.exc).partition("(")[0].rpartition(".")[2]
            if name[:1].isupper() and name.isidentifier():
                yield name


def _names_used(node: Function) -> Iterator[str]:
    for each in ast.walk(node):
        if isinstance(each, ast.Name):
            yield each.id
        elif isinstance(each, ast.Attribute):
            yield each.attr


def _parameters(args: ast.arguments, skip: int, owner: str) -> str:
    def spelt(arg: ast.arg) -> str:
        is_mangled = owner and arg.arg.startswith("__") and not arg.arg.endswith("__")
        return f"_{owner.lstrip('_')}{arg.arg}" if is_mangled else arg.arg

    plain = [*args.posonlyargs, *args.args]
    with_default = len(plain) - len(args.defaults)
    names = [spelt(each) + "=" * (n >= with_default) for n, each in enumerate(plain)][skip:]
    if args.vararg is not None:
        names.append(f"*{spelt(args.vararg)}")
    elif args.kwonlyargs:
        names.append("*")
    keywords = zip(args.kwonlyargs, args.kw_defaults, strict=True)
    names += [spelt(each) + "=" * (default is not None) for each, default in keywords]
    return ", ".join([*names, *([f"**{spelt(args.kwarg)}"] if args.kwarg is not None else [])])


def _rows(args: ast.arguments, skip: int) -> Iterator[str]:
    """Yield arguments for what has no default, one of them at another boundary in each row."""
    plain = [*args.posonlyargs, *args.args]
    required = plain[skip : len(plain) - len(args.defaults)]
    values = [_values(each.annotation) for each in required]
    if not all(values) or any(default is None for default in args.kw_defaults):
        return
    first = [each[0] for each in values]
    rows = [first]
    for n, choices in enumerate(values):
        rows += [[*first[:n], other, *first[n + 1 :]] for other in choices[1:]]
    yield from ("".join(f"{value}, " for value in row).strip() for row in rows[:MAX_ROWS])


DRAWN = frozenset(["str", "int", "float", "bool", "bytes", "None"])
"""Types of which any value can be drawn, alone or as items of a list or dictionary."""


def _drawn(args: ast.arguments, skip: int) -> Iterator[str]:
    """Yield the annotations of what has no default; nothing where one cannot be drawn."""
    plain = [*args.posonlyargs, *args.args]
    required = plain[skip : len(plain) - len(args.defaults)]
    texts = [ast.unparse(each.annotation).strip("'\"") for each in required if each.annotation]
    if len(texts) == len(required) and all(map(_can_be_drawn, texts)):
        yield from texts


def _can_be_drawn(annotation: str) -> bool:
    text = re.sub(r"\b(?:list|dict)\b(?=\[)", "", annotation.replace(" ", ""))
    return {each for each in re.split(r"[\[\],|]", text) if each} <= DRAWN


def _values(annotation: ast.expr | None) -> tuple[str, ...]:
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        try:
            annotation = ast.parse(annotation.value, mode="eval").body
        except SyntaxError:
            return ()
    if isinstance(annotation, ast.BinOp) and isinstance(annotation.op, ast.BitOr):
        parts = [_values(each) for each in (annotation.left, annotation.right)]
        return tuple(dict.fromkeys(value for part in parts for value in part)) if all(parts) else ()
    if annotation is None:
        return ()
    if isinstance(annotation, ast.Subscript) and _type_name(annotation) == "Optional":
        inner = _values(annotation.slice)
        return (*inner, "None") if inner else ()
    return VALUES.get(_type_name(annotation), ())


def _type_name(annotation: ast.expr) -> str:
    name = _last_name(annotation)
    return SAME.get(name, name)


def _last_name(annotation: ast.expr) -> str:
    """Return the last part of a type's name, empty for a union."""
    text, count = ast.unparse(annotation).strip("'\""), 1
    while count:  # what is in brackets may be a union of its own
        text, count = re.subn(r"\[[^\[\]]*\]", "", text)
    return "" if "|" in text else text.rpartition(".")[2]
