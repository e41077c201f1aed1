"""The static level: what the text alone proves about a unit's contract, nothing imported."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

from scaffold.analysis.python.statements import FOR_TYPES, statements
from scaffold.edit.shapes import has_entry, text_to_add
from scaffold.errors import ScaffoldError
from scaffold.syntax import parse
from scaffold.target.target import Target
from scaffold.units.ledger import Unit
from scaffold.units.todos import find_todos
from scaffold.verify import trinity
from scaffold.verify.checks import Check, Level, failed, judged, warning

FORBIDDEN = ("areal.engine", "areal.trainer", "scaffold", "tests")
"""Modules that no unit may import: they are no public contract, or never there in training."""

HEAVY = ("torch", "transformers")
"""Packages that rewards and datasets do not import with their module: every process would pay."""

ROOMS = ("dataset", "engine", "reward", "workflow")
"""Rooms of the training package that never import each other."""

BLOCKING = ("time.sleep", "requests.", "urllib.request.", "subprocess.", "asyncio.run")
"""Calls that stop every other episode while they run."""

REWARD_ARGUMENTS = ("prompt", "completions", "prompt_ids", "completion_ids")
AGENT_KEYWORDS = ("base_url", "http_client", "api_key")
LOADER_ARGUMENTS = ("path", "split", "max_length")
MODEL_BASES = ("BaseArchonModel", "BaseDecoder")
MODEL_ARGUMENTS = ("tokens", "positions", "cu_seqlens", "max_seqlen")

Function = ast.FunctionDef | ast.AsyncFunctionDef


def check_static(target: Target, unit: Unit, contract: str) -> Level:
    """Check files, registry lines, imports and the kind's contract.

    Args:
        target: Where the unit is.
        unit: What was made.
        contract: Which rules of kind.toml apply; empty for none.
    """
    findings = [*_registered(target, unit)]
    trees: dict[str, ast.Module] = {}
    for file in unit.files:
        found = _parsed(target.root, file.path)
        if isinstance(found, Check):
            findings.append(found)
        elif found is not None:
            trees[file.path] = found
    roles = {file.path: file.role for file in unit.files}
    for path, tree in trees.items():
        if roles[path] == "source" and contract:
            findings += _imports(target, contract, path, tree)
            findings += CONTRACTS[contract](unit, path, tree)
    if contract.startswith("trinity-"):
        findings += trinity.check_configs(target.root, unit)
    proven = "files, registry, imports and contract" if contract else "files"
    return judged("static", findings, proven)


def has_broken_file(level: Level) -> bool:
    """Return whether a file is missing or no Python, so that nothing can be run."""
    return any(row.check in ("file", "syntax") and row.status == "failed" for row in level.details)


def _registered(target: Target, unit: Unit) -> Iterator[Check]:
    for entry in unit.entries:
        line = text_to_add(entry)
        try:
            is_there = has_entry((target.root / entry.file).read_bytes(), entry)
        except (OSError, ScaffoldError) as error:
            yield failed("registry", f"{entry.file}: {error}; {entry.table} must contain {line}")
            continue
        if not is_there:
            yield failed("registry", f"{entry.file}: add to {entry.table}: {line}")


def _parsed(root: Path, path: str) -> ast.Module | Check | None:
    """Return the syntax tree of a Python file, what is wrong with it, or None for other files."""
    try:
        data = (root / path).read_bytes()
    except OSError:
        return failed("file", f"{path} is missing; restore it from version control")
    if not path.endswith(".py"):
        return None
    try:
        tree = parse(data, path)
        # A mark that marks nothing raises ValueError.
        find_todos(path, data.decode("utf-8-sig"))
    except SyntaxError as error:
        return failed("syntax", f"{path}:{error.lineno}: {error.msg}")
    except ValueError as error:
        return failed("syntax", f"{path}: {error}")
    return tree


# --- imports ------------------------------------------------------------------------------------


def _imports(target: Target, contract: str, path: str, tree: ast.Module) -> Iterator[Check]:
    # What runs at import; a block for type checkers does not.
    at_top = {id(node) for node, runs in statements(tree.body) if runs != FOR_TYPES}
    for node in ast.walk(tree):
        for module in _imported(node):
            where = f"{path}:{getattr(node, 'lineno', 0)}"
            bad = next((name for name in FORBIDDEN if _is_under(module, name)), None)
            if bad:
                public = "use areal.api, areal.utils and areal.workflow_context"
                yield failed("imports", f"{where}: imports {module}; {public}")
            # Engines are already forbidden to all; a room may import itself.
            room = module.split(".")[1] if module.startswith("areal.") else ""
            if target.layout == "areal" and room in ROOMS and room not in ("engine", contract):
                yield failed(
                    "imports", f"{where}: a {contract} imports areal.{room}; go through areal.api"
                )
            is_heavy = any(_is_under(module, name) for name in HEAVY) and id(node) in at_top
            if is_heavy and contract in ("reward", "dataset"):
                text = f"{where}: imports {module} at module level; import it where it is used"
                yield (failed if target.layout == "areal" else warning)("imports", text)


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module and not node.level:
        # `from areal import engine`.
        if node.module == "areal":
            return [f"areal.{alias.name}" for alias in node.names]
        return [node.module]
    return []


def _is_under(module: str, name: str) -> bool:
    return module == name or module.startswith(name + ".")


# --- contracts ----------------------------------------------------------------------------------


def _workflow(unit: Unit, path: str, tree: ast.Module) -> Iterator[Check]:
    name = _registered_name(unit)
    found = next((n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == name), None)
    if found is None:
        yield failed("contract", f"{path} has no class {name}, which the registry names")
        return
    methods = {node.name: node for node in found.body if isinstance(node, Function)}
    bases = [ast.unparse(base).rpartition(".")[2] for base in found.bases]
    is_workflow = any(base.endswith("Workflow") for base in bases)
    where = f"{path}:{found.lineno}"
    if "arun_episode" in methods:
        if not is_workflow:
            yield failed("contract", f"{where}: {name} must derive from areal.api.RolloutWorkflow")
        yield from _episode(path, name, methods["arun_episode"], ("engine", "data"))
    elif "run" in methods:
        yield from _episode(path, name, methods["run"], ("data",))
        yield from _agent(path, name, methods["run"])
    # A class that derives from another workflow inherits the episode.
    elif not is_workflow or bases == ["RolloutWorkflow"]:
        text = "needs `async def arun_episode(self, engine, data)`"
        yield failed("contract", f"{where}: {name} {text}")


def _agent(path: str, name: str, method: Function) -> Iterator[Check]:
    """Check that an agent takes what the trainer's proxy gives it in either mode."""
    given = method.args
    names = {arg.arg for arg in (*given.posonlyargs, *given.args, *given.kwonlyargs)}
    missing = [arg for arg in AGENT_KEYWORDS if arg not in names]
    if missing and given.kwarg is None:
        text = f"{name}.run is called with {', '.join(AGENT_KEYWORDS)} too; take **extra_kwargs"
        yield failed("contract", f"{path}:{method.lineno}: {text}")


def _episode(path: str, name: str, method: Function, expected: tuple[str, ...]) -> Iterator[Check]:
    where = f"{path}:{method.lineno}"
    wanted = f"async def {method.name}(self, {', '.join(expected)})"
    if not isinstance(method, ast.AsyncFunctionDef):
        yield failed(
            "contract", f"{where}: {name}.{method.name} must be `{wanted}`: it is not a coroutine"
        )
    if _yields(method):
        text = f"{name}.{method.name} is a generator; it must return its result"
        yield failed("contract", f"{where}: {text}")
    given = method.args
    names = [arg.arg for arg in (*given.posonlyargs, *given.args)]
    # Defaults belong to the last parameters; below, one more is `self`.
    required = len(names) - len(given.defaults)
    too_few = len(names) < len(expected) + 1 and given.vararg is None
    if too_few or required > len(expected) + 1 or _required_keywords(method):
        yield failed("contract", f"{where}: it is called as `{wanted}`; found ({', '.join(names)})")
    for node in ast.walk(method):
        call = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
        # `requests.` covers every function of the module.
        if any(call == b or (b.endswith(".") and call.startswith(b)) for b in BLOCKING):
            place = f"{path}:{getattr(node, 'lineno', 0)}"
            text = f"{call} blocks all other episodes; await an asynchronous call"
            yield warning("blocking", f"{place}: {text}")


def _reward(unit: Unit, path: str, tree: ast.Module) -> Iterator[Check]:
    name = _registered_name(unit)
    found = _top_function(tree, name)
    if found is None:
        text = f"{path} has no function {name} at its top level, which the registry names"
        yield failed("contract", f"{text}; reward processes import it by name")
        return
    where = f"{path}:{found.lineno}"
    if isinstance(found, ast.AsyncFunctionDef):
        yield warning(
            "contract", f"{where}: {name} is a coroutine, which AReaL's reward pool cannot run"
        )
    if _yields(found):
        yield failed("contract", f"{where}: {name} is a generator; it must return one float")
    given = found.args
    positional = [arg.arg for arg in (*given.posonlyargs, *given.args)]
    if len(positional) < len(REWARD_ARGUMENTS) and given.vararg is None:
        called = f"({', '.join(REWARD_ARGUMENTS)}, **row)"
        yield failed("contract", f"{where}: {name} takes {positional}; it is called as {called}")
    if given.kwarg is None:
        yield failed("contract", f"{where}: {name} needs **kwargs for the other columns of the row")


def _dataset(unit: Unit, path: str, tree: ast.Module) -> Iterator[Check]:
    for style in unit.styles:
        name = f"get_{unit.name}_{style}_dataset"
        found = _top_function(tree, name)
        if found is None:
            yield failed("contract", f"{path} has no function {name}, which loads type {style}")
            continue
        where = f"{path}:{found.lineno}"
        if isinstance(found, ast.AsyncFunctionDef) or _yields(found):
            yield failed(
                "contract", f"{where}: {name} must be a plain function that returns the rows"
            )
        given = found.args
        names = {arg.arg for arg in (*given.posonlyargs, *given.args, *given.kwonlyargs)}
        missing = [arg for arg in LOADER_ARGUMENTS if arg not in names]
        missing += [] if names & {"tokenizer", "processor"} else ["tokenizer"]
        if missing and given.kwarg is None:
            yield failed("contract", f"{where}: {name} lacks the parameters {', '.join(missing)}")


def _model(unit: Unit, path: str, tree: ast.Module) -> Iterator[Check]:
    """Check that the file defines a model that is called as the trainer calls models."""
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    found = next((node for node in classes if _derives(node, *MODEL_BASES)), None)
    if found is None:
        yield failed(
            "contract", f"{path} has no class that derives from {' or '.join(MODEL_BASES)}"
        )
        return
    methods = {node.name: node for node in found.body if isinstance(node, Function)}
    where = f"{path}:{found.lineno}"
    if "forward" not in methods:
        if _derives(found, "BaseDecoder"):  # which is called as the trainer calls models
            return
        yield failed("contract", f"{where}: {found.name} has no method forward")
        return
    given = methods["forward"].args
    names = [arg.arg for arg in (*given.posonlyargs, *given.args)][1:]
    if tuple(names[: len(MODEL_ARGUMENTS)]) != MODEL_ARGUMENTS:
        called = f"({', '.join(MODEL_ARGUMENTS)}, ...)"
        yield failed("contract", f"{where}: {found.name}.forward is called as {called}")


def _derives(node: ast.ClassDef, *names: str) -> bool:
    return any(ast.unparse(base).rpartition(".")[2] in names for base in node.bases)


CONTRACTS: dict[str, Callable[[Unit, str, ast.Module], Iterator[Check]]] = {
    "dataset": _dataset,
    "model": _model,
    "reward": _reward,
    "trinity-reward": trinity.check_reward,
    "trinity-workflow": trinity.check_workflow,
    "workflow": _workflow,
}


def _registered_name(unit: Unit) -> str:
    return unit.symbol.partition(":")[2]


def _top_function(tree: ast.Module, name: str) -> Function | None:
    found = (node for node in tree.body if isinstance(node, Function))
    return next((node for node in found if node.name == name), None)


def _required_keywords(function: Function) -> bool:
    pairs = zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)
    return any(default is None for _, default in pairs)


def _yields(function: Function) -> bool:
    """Return whether a function is a generator; one defined inside it does not count."""
    pending: list[ast.AST] = list(function.body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Yield | ast.YieldFrom):
            return True
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            pending += ast.iter_child_nodes(node)
    return False
