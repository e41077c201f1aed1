"""What an existing module defines that tests can be written for, read as text; pure."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from scaffold.errors import RequestError
from scaffold.syntax import parse
from scaffold.templating.spec import AnswerValue
from scaffold.units.columns import ALIASES
from scaffold.units.interfaces import MAX_ROWS, interfaces

# `get_gsm8k_rl_dataset`: the name, and what its rows are for.
LOADER = re.compile(r"get_(\w+)_(sft|rl|rw|dpo)_dataset")

REWARD_BEGINS = ("prompt", "completion", "prompt", "completion")
"""What the names of the first arguments of a reward begin with."""

KNOWN_ARGUMENTS = {
    "workflow": (
        "reward_fn",
        "gconfig",
        "tokenizer",
        "enable_thinking",
        "max_turns",
        "turn_discount",
    ),
    "agent": ("reward_fn", "max_turns", "turn_discount"),
}
"""The arguments of a constructor that the tests know a value for."""

_TRAINING = frozenset(["areal", "httpx"])
"""The packages that the tests themselves import."""

ROW_COLUMNS = ("messages", "answer")
"""The columns of the row that tests run a workflow on."""

MADE_COLUMNS = (
    "input_ids", "loss_mask", "chosen_ids", "rejected_ids", "chosen_loss_mask",
    "rejected_loss_mask", "role", "content", "text", "attention_mask",
)  # fmt: skip
"""What loaders write into their rows, beside messages and answer; a source has none of it."""

NETWORK = ("aiohttp", "anthropic", "http.client", "httpx", "openai", "requests", "urllib.request")
"""Modules by which a reward asks a server, which no test of ours can stand in for."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Subject:
    """What tests are written for.

    Args:
        style: The kind of thing: "reward", "workflow", "agent" or "dataset".
        answers: What the template of its tests has to know.
    """

    style: str
    answers: Mapping[str, AnswerValue] = field(default_factory=dict[str, AnswerValue])


def find_subject(text: str, where: str, style: str = "", only: str = "") -> Subject:
    """Return what a module defines that tests can be written for.

    Args:
        text: The module.
        where: Its path, for messages.
        style: Which kind of thing is meant where it defines several; empty for the only one.
        only: The one function or class that is meant; empty for all that the module has.

    Raises:
        RequestError: It is no Python, or defines nothing of the kind, or several kinds.
    """
    try:
        tree = parse(text)
    except (SyntaxError, ValueError) as error:
        raise _unsuited(f"{where} is not valid Python: {error}", "repair it first") from error
    whole = tree
    if only:
        tree = _with_only(tree, only)
    found = [subject for read in (_rewards, _workflow, _loaders) for subject in read(tree)]
    if style in ANY_CODE or (not found and not style):
        found = list(_any_code(tree, style or ANY_CODE[0], only))
    if style:
        found = [subject for subject in found if subject.style == style]
    if not found:
        if only:
            _check_defined(whole, where, only)
        raise _unsuited(f"{where} {_why_not(tree, style)}", _WANTED)
    if len({subject.style for subject in found}) > 1:
        styles = " or ".join(f"--style {subject.style}" for subject in found)
        raise _unsuited(f"{where} defines things of several kinds", f"give {styles}")
    return found[0]


def imported_modules(text: str) -> list[str]:
    """Return the modules that a Python text imports, at any place."""
    found: dict[str, None] = {}
    for node in ast.walk(parse(text)):
        if isinstance(node, ast.Import):
            found.update(dict.fromkeys(alias.name for alias in node.names))
        elif isinstance(node, ast.ImportFrom):
            found[node.module or ""] = None
            found.update({f"{node.module or ''}.{alias.name}": None for alias in node.names})
    return list(found)


ANY_CODE = ("code", "distributed")
"""The styles that any function or class can have tests of."""


def _check_defined(tree: ast.Module, where: str, name: str) -> None:
    """Refuse a name that the top level of a module does not define, and say what there is.

    Raises:
        RequestError: It does not.
    """
    defined = [n.name for n in tree.body if isinstance(n, Function | ast.ClassDef)]
    if name not in defined:
        public = [each for each in defined if not each.startswith("_")]
        raise _unsuited(
            f"{where} defines no {name}",
            f"it defines {', '.join(public) or 'no public function or class'}",
        )


def _with_only(tree: ast.Module, name: str) -> ast.Module:
    """Return a module without the other functions and classes at its top level."""
    kept = [n for n in tree.body if not isinstance(n, Function | ast.ClassDef) or n.name == name]
    return ast.Module(kept, tree.type_ignores)


def _any_code(tree: ast.Module, style: str, only: str) -> Iterator[Subject]:
    found = interfaces(tree, only)
    if style == "distributed":
        found = [each for each in found if each.is_called]
    if not found:
        return
    most = 1 if style == "distributed" else MAX_ROWS
    called = (each for each in found if each.is_called)
    rows = [(each.name, row) for each in called for row in each.rows[:most] or ("?",)]
    answers: dict[str, AnswerValue] = {
        "signatures": "\n".join(
            f"{each.name}|{each.parameters}" for each in found if each.parameters is not None
        ),
        "cases": "\n".join(f"{name}|{row}" for name, row in rows),
        "returned": "\n".join(f"{each.name}|{each.returns}" for each in found if each.returns),
        "refusals": "\n".join(f"{e.name}|{' '.join(e.raises)}" for e in found if e.raises),
        "drawn": "\n".join(f"{e.name}|{', '.join(e.drawn)}" for e in found if e.drawn),
        "has_tensors": any("torch." in row for _, row in rows),
    }
    yield Subject(style, answers if style == ANY_CODE[0] else {"cases": answers["cases"]})


_WANTED = (
    "tests are written for a function (prompt, completions, prompt_ids, completion_ids, ...), "
    "for a class with `async def arun_episode(self, engine, data)` or `async def run(self, data, "
    "**kwargs)`, for loaders get_<name>_<type>_dataset, and for any public function or class, at "
    "the top level of the module"
)


def _why_not(tree: ast.Module, style: str) -> str:
    classes = (node for node in tree.body if isinstance(node, ast.ClassDef))
    bases = {base.rpartition(".")[2] for node in classes for base in map(ast.unparse, node.bases)}
    # A spec is known by the call that makes it, a model by its base.
    calls = {ast.unparse(n.func) for n in ast.walk(tree) if isinstance(n, ast.Call)}
    if bases & {"BaseArchonModel", "BaseDecoder"} or any(
        call.endswith("ModelSpec") for call in calls
    ):
        return "defines a model, whose tests come with `scaffold archon`"
    return f"defines no {style or 'public function or class'}"


# --- rewards ------------------------------------------------------------------------------------


def _rewards(tree: ast.Module) -> Iterator[Subject]:
    functions = [node for node in tree.body if isinstance(node, Function) and _is_reward(node)]
    if functions:
        columns = dict.fromkeys(name for each in functions for name in _required(each, skip=4))
        yield Subject(
            "reward",
            {
                "functions": " ".join(each.name for each in functions),
                "columns": " ".join(columns),
            },
        )


def _is_reward(function: Function) -> bool:
    if function.name.startswith("_") or len(_names(function)) < len(REWARD_BEGINS):
        return False
    pairs = zip(_names(function), REWARD_BEGINS, strict=False)
    return all(name.startswith(begin) for name, begin in pairs)


def _names(function: Function) -> list[str]:
    return [arg.arg for arg in (*function.args.posonlyargs, *function.args.args)]


def _required(function: Function, skip: int) -> list[str]:
    """Return the arguments without a default, but for the first ones."""
    given = function.args
    names = _names(function)
    # ast has a default for each keyword-only argument, None where there is none.
    keywords = [
        arg.arg
        for arg, default in zip(given.kwonlyargs, given.kw_defaults, strict=True)
        if default is None
    ]
    return [*names[skip : max(skip, len(names) - len(given.defaults))], *keywords]


# --- workflows ----------------------------------------------------------------------------------


def _workflow(tree: ast.Module) -> Iterator[Subject]:
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    for node in classes.values():
        style = _style_of(classes, node)
        # The first public workflow of a file is the subject; helpers and bases are passed over.
        if node.name.startswith("_") or not style:
            continue
        constructor = _find(classes, node, "__init__")
        wanted = [] if constructor is None else _required(constructor, skip=1)
        taken = [] if constructor is None else _names(constructor)[1:]
        columns = _subscripts(tree, {"data", "row", "sample"})
        known = KNOWN_ARGUMENTS[style]
        answers: dict[str, str | bool] = {
            "class_name": node.name,
            "arguments": " ".join(each for each in known if each in taken),
            "unknown": " ".join(each for each in wanted if each not in known),
            "columns": " ".join(each for each in columns if each not in ROW_COLUMNS),
        }
        if style == "agent":
            answers["packages"] = " ".join(_packages(tree))
        yield Subject(style, answers)
        return


def _packages(tree: ast.Module) -> list[str]:
    """Return the packages that a module cannot be imported without, but for those of training."""
    found: set[str] = set()
    rows = list(tree.body)
    for node in tree.body:
        # Where each way out of a failed import raises, the import is needed as well.
        if isinstance(node, ast.Try) and all(
            isinstance(each.body[-1], ast.Raise) for each in node.handlers
        ):
            rows += node.body
    for node in rows:
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add((node.module or "").partition(".")[0])
    return sorted(found - sys.stdlib_module_names - _TRAINING)


def _style_of(classes: Mapping[str, ast.ClassDef], node: ast.ClassDef) -> str:
    """Return "workflow" or "agent" by the coroutine that runs an episode; empty for neither."""
    if _find(classes, node, "arun_episode") is not None:
        return "workflow"
    run = _find(classes, node, "run")
    is_agent = isinstance(run, ast.AsyncFunctionDef) and "data" in _names(run)[1:2]
    return "agent" if is_agent else ""


def _find(classes: Mapping[str, ast.ClassDef], node: ast.ClassDef, name: str) -> Function | None:
    """Return a method of a class, or that of a base in the same module."""
    found = _method(node, name)
    bases = [classes[base] for base in map(ast.unparse, node.bases) if base in classes]
    inherited = (_find(classes, base, name) for base in bases if base is not node)
    return found or next((each for each in inherited if each is not None), None)


def _method(node: ast.ClassDef, name: str) -> Function | None:
    methods = (each for each in node.body if isinstance(each, Function))
    return next((each for each in methods if each.name == name), None)


def _subscripts(tree: ast.Module, names: set[str]) -> list[str]:
    """Return every text that a variable of one of these names is indexed with, in order."""
    constants = _constants(tree)
    keys = [
        constants.get(ast.unparse(node.slice), _text(node.slice))
        for node in ast.walk(tree)
        if isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Name)
        and node.value.id in names
        and isinstance(node.ctx, ast.Load)
    ]
    return list(dict.fromkeys(key for key in keys if key))


def _constants(tree: ast.Module) -> dict[str, str]:
    """Return the texts that have a name at the top level."""
    assigned = [node for node in tree.body if isinstance(node, ast.Assign)]
    return {
        target.id: _text(node.value)
        for node in assigned
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _text(node: ast.expr) -> str:
    """Return the text that an expression is, empty for others."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return ""


# --- datasets -----------------------------------------------------------------------------------


def _loaders(tree: ast.Module) -> Iterator[Subject]:
    functions = [node for node in tree.body if isinstance(node, Function)]
    loaders = [node for node in functions if LOADER.fullmatch(node.name)]
    if not loaders:
        return
    names = [name for loader in loaders for name in _names(loader)]
    sources = _columns(tree, {match[2] for each in loaders if (match := LOADER.match(each.name))})
    yield Subject(
        "dataset",
        {
            "loaders": " ".join(loader.name for loader in loaders),
            "columns": " ".join(sources),
            "is_generated": all("path" not in _required(loader, skip=0) for loader in loaders),
            "has_processor": "processor" in names,
            "configs": " ".join(_configs(tree)),
        },
    )


def _configs(tree: ast.Module) -> list[str]:
    """Return the configurations of a source that the loaders ask for: ``name="main"``."""
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    asked = (
        word.value
        for call in calls
        if ast.unparse(call.func).split(".")[-1] == "load_dataset"
        for word in (*call.keywords, *(ast.keyword("name", each) for each in call.args[1:2]))
        if word.arg == "name"
    )
    names = (node.value for node in asked if isinstance(node, ast.Constant))
    return sorted({name for name in names if isinstance(name, str) and name.isidentifier()})


def _columns(tree: ast.Module, types: set[str]) -> list[str]:
    """Return the columns of the source, as ``name=role``; none where they cannot be told."""
    read = _subscripts(tree, {"row", "sample", "example", "x", "item", "data"})
    # Columns are often listed in a tuple, or as values of a dictionary that renames them.
    several = [
        node.elts if isinstance(node, ast.Tuple) else node.values
        for node in ast.walk(tree)
        if isinstance(node, ast.Tuple | ast.Dict)
    ]
    listed = [_text(item) for items in several for item in items]
    found: dict[str, str] = {}
    for name in [*listed, *read]:
        role = _role(name)
        if role:
            found[name] = role
        # A column that is read and plays no known role may be needed: no sample row can be made up.
        elif name in read and name not in MADE_COLUMNS:
            return []
    needed = {"question", "answer"} if types & {"rl", "sft"} else set[str]()
    needed |= {"chosen", "rejected"} if types & {"rw", "dpo"} else set[str]()
    is_complete = needed <= set(found.values())
    return [f"{name}={role}" for name, role in found.items()] if is_complete else []


def _role(name: str) -> str:
    """Return what a column of this name holds; messages are written more often than read."""
    for role in ("chosen", "rejected", "question", "answer"):
        if name != "messages" and name in " ".join(ALIASES[role]).split():
            return role
    return "messages" if name == "messages" else ""


def _unsuited(message: str, hint: str) -> RequestError:
    return RequestError(message, code="module_unsuited", hint=hint)
