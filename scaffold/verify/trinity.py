"""What the text alone proves of workflows and rewards that are written for Trinity-RFT."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from scaffold.analysis.python.statements import FOR_TYPES, statements
from scaffold.units.ledger import Unit
from scaffold.verify.checks import Check, failed

MODELS = "trinity.common.models"
"""Importing it at run time needs vllm."""

CALLS = ("chat", "generate", "logprobs", "convert_messages_to_experience")
"""Methods of a model that block; each has a twin that ends in _async."""

RUNS = ("run", "run_async", "step", "step_async")
Function = ast.FunctionDef | ast.AsyncFunctionDef


def check_workflow(unit: Unit, path: str, tree: ast.Module) -> Iterator[Check]:
    """Check the class of a workflow, and that the file avoids what fails in Trinity-RFT."""
    found = _class_of(unit, tree)
    if found is None:
        yield failed("contract", f"{path} has no class {unit.symbol.rpartition(':')[2]}")
        return
    yield from _imports(path, tree)
    where = f"{path}:{found.lineno}: {found.name}"
    methods = {node.name: node for node in found.body if isinstance(node, Function)}
    flags = _flags(found)
    if not any(name in methods for name in RUNS):
        yield failed("contract", f"{where} needs run, or run_async with is_async = True")
    is_async = flags.get("is_async") is True
    for name in ("run_async", "step_async") if not is_async else ("run", "step"):
        if name in methods:
            wanted = "is_async = True" if not is_async else "is_async = False"
            yield failed("contract", f"{where} has {name}, which only runs with {wanted}")
    yield from _reset(where, flags, methods)
    if flags.get("can_repeat") is True and "set_repeat_times" not in methods:
        yield failed("contract", f"{where} has can_repeat but no set_repeat_times")
    if not _assigns(found, "eid.run"):
        yield failed("contract", f"{where} never sets eid.run, so runs of a task look alike")
    yield from _calls(path, found)


def check_reward(unit: Unit, path: str, tree: ast.Module) -> Iterator[Check]:
    """Check the class of a reward."""
    found = _class_of(unit, tree)
    if found is None:
        yield failed("contract", f"{path} has no class {unit.symbol.rpartition(':')[2]}")
        return
    yield from _imports(path, tree)
    methods = {node.name: node for node in found.body if isinstance(node, Function)}
    where = f"{path}:{found.lineno}: {found.name}"
    call = methods.get("__call__")
    if call is None:
        yield failed("contract", f"{where} needs __call__(self, response, truth, **kwargs)")
        return
    names = {arg.arg for arg in (*call.args.args, *call.args.kwonlyargs)}
    missing = [name for name in ("response", "truth") if name not in names]
    if missing and call.args.kwarg is None:
        text = f"is called with response and truth; it lacks {', '.join(missing)}"
        yield failed("contract", f"{where} {text}")
    if isinstance(call, ast.AsyncFunctionDef):
        yield failed("contract", f"{where}.__call__ is a coroutine, which is never awaited")


def check_configs(root: Path, unit: Unit) -> Iterator[Check]:
    """Check the YAML files of a unit for what Trinity-RFT refuses, or takes in another sense."""
    import yaml  # costs 25 ms: only units with a configuration need it

    for file in unit.files:
        if file.role != "config" or not (root / file.path).is_file():
            continue
        try:
            content: Any = yaml.safe_load((root / file.path).read_text(encoding="utf-8"))
        except (OSError, ValueError, yaml.YAMLError) as error:
            yield failed("config", f"{file.path} cannot be read: {error}")
            continue
        for key, value in _keys(content):
            if key.endswith("rollout_args.n") and value not in (None, 1):
                text = f"{file.path}: {key} is {value}, which repeat_times multiplies; leave n out"
                yield failed("config", text)
            if key.rpartition(".")[2] == "default_workflow":
                text = f"{file.path}: {key} is unknown; write default_workflow_type"
                yield failed("config", text)


def _keys(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for name, each in cast("Mapping[str, Any]", value).items():
            yield from _keys(each, f"{prefix}.{name}" if prefix else str(name))
    elif isinstance(value, list):
        for each in cast("list[Any]", value):
            yield from _keys(each, prefix)
    else:
        yield prefix, value


def _class_of(unit: Unit, tree: ast.Module) -> ast.ClassDef | None:
    name = unit.symbol.rpartition(":")[2]
    classes = (node for node in tree.body if isinstance(node, ast.ClassDef))
    return next((node for node in classes if node.name == name), None)


def _imports(path: str, tree: ast.Module) -> Iterator[Check]:
    for node, runs in statements(tree.body):
        if runs == FOR_TYPES:
            continue
        modules: list[str] = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            modules = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        if any(each == MODELS or each.startswith(f"{MODELS}.") for each in modules):
            text = f"imports {MODELS} at run time, which needs vllm; do it under TYPE_CHECKING"
            yield failed("imports", f"{path}:{node.lineno}: {text}")


def _flags(node: ast.ClassDef) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for each in node.body:
        targets = each.targets if isinstance(each, ast.Assign) else []
        if isinstance(each, ast.AnnAssign):
            targets = [each.target]
        value = getattr(each, "value", None)
        for target in targets:
            if isinstance(target, ast.Name) and isinstance(value, ast.Constant):
                found[target.id] = value.value
    return found


def _reset(
    where: str, flags: Mapping[str, Any], methods: Mapping[str, Function]
) -> Iterator[Check]:
    reset = methods.get("reset")
    if flags.get("can_reset") is not True:
        if reset is not None:
            yield failed("contract", f"{where} has reset, which needs can_reset = True")
        return
    if reset is None:
        yield failed("contract", f"{where} has can_reset but no reset(self, task)")
        return
    # The reset of 0.6.0 leaves the former task; that of the development line sets it.
    if not _assigns(reset, "self.task"):
        text = "does not set self.task in reset, and the base class of 0.6.0 does not either"
        yield failed("contract", f"{where} {text}; write self.task = task")


def _assigns(node: ast.AST, ending: str) -> bool:
    """Return whether an attribute that ends so is assigned anywhere inside."""
    return any(
        isinstance(each, ast.Attribute)
        and isinstance(each.ctx, ast.Store)
        and f".{ast.unparse(each)}".endswith(f".{ending}")
        for each in ast.walk(node)
    )


def _calls(path: str, node: ast.ClassDef) -> Iterator[Check]:
    for method in (each for each in node.body if isinstance(each, Function)):
        for each in ast.walk(method):
            place = f"{path}:{getattr(each, 'lineno', 0)}"
            if isinstance(each, ast.Attribute) and ast.unparse(each).endswith("rollout_args.n"):
                is_set = isinstance(each.ctx, ast.Store)
                if not is_set:
                    text = "reads rollout_args.n, but the runner already repeats runs"
                    yield failed("contract", f"{place}: {text}; use set_repeat_times")
            if isinstance(each, ast.If | ast.IfExp | ast.BoolOp | ast.UnaryOp):
                yield from _truth_of_task(place, each)
            if isinstance(method, ast.AsyncFunctionDef) and isinstance(each, ast.Call):
                called = ast.unparse(each.func)
                if any(called == f"self.model.{name}" for name in CALLS):
                    text = f"{called} blocks the event loop; await {called}_async"
                    yield failed("blocking", f"{place}: {text}")


def _truth_of_task(
    place: str, node: ast.If | ast.IfExp | ast.BoolOp | ast.UnaryOp
) -> Iterator[Check]:
    tests: list[ast.expr] = []
    if isinstance(node, ast.If | ast.IfExp):
        tests = [node.test]
    elif isinstance(node, ast.BoolOp):
        tests = node.values[:-1]
    elif isinstance(node.op, ast.Not):
        tests = [node.operand]
    if any(ast.unparse(test) in ("task", "self.task") for test in tests):
        text = "a task is an empty dict and always false; compare with `is not None`"
        yield failed("contract", f"{place}: {text}")
