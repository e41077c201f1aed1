"""Options and arguments as click's decorators and typer's signatures declare them."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any, cast

from scaffold.analysis.cli.commands import Argument, Option
from scaffold.analysis.cli.literals import Literals, keyword, literal
from scaffold.analysis.python.sources import Source

STANDARD_OPTIONS = {
    "version_option": Option(("--version",)),
    "help_option": Option(("--help",)),
    "confirmation_option": Option(("--yes",)),
    "password_option": Option(("--password",), num_values=1),
}


def declared_names(call: ast.Call) -> list[Any]:
    """Return the names in `click.option("-x", "--long")` or `click.Option(["-x", "--long"])`."""
    first = call.args[0] if call.args else keyword(call, "param_decls")
    given = first.elts if isinstance(first, (ast.List, ast.Tuple)) else call.args
    return [literal(each) for each in given]


def click_option(call: ast.Call, source: Source, literals: Literals) -> Option | None:
    """Return what `click.option(...)` declares; None where that is not written out."""
    words = declared_names(call)
    if not all(isinstance(each, str) for each in words):
        return None
    names, has_two = _split_names([each for each in words if each.lstrip(" /").startswith("-")])
    if not names:
        return None
    choices, folds = _choices(keyword(call, "type"), source, literals)
    return Option(
        tuple(names),
        choices=choices,
        is_repeatable=literal(keyword(call, "multiple")) is True,
        is_required=literal(keyword(call, "required")) is True
        # Each of these supplies a value that the command line leaves out; None is `**options`.
        and not {"default", "prompt", "envvar", None} & {each.arg for each in call.keywords},
        num_values=_num_values(call, has_two=has_two),
        folds_case=folds,
    )


def _split_names(words: Sequence[str]) -> tuple[list[str], bool]:
    """Split `--shout/--no-shout`; return whether there was any as well."""
    names = [part.strip() for word in words for part in word.split("/") if part.strip()]
    # In "-x/" or "--on/--off" the slash makes a boolean flag.
    return [each for each in names if each.startswith("-")], len(names) > len(words)


def _num_values(call: ast.Call, *, has_two: bool) -> int | None:
    given = {each.arg for each in call.keywords}
    # click infers a flag from flag_value in ways that differ between versions.
    if {"cls", None} & given or ("flag_value" in given and "is_flag" not in given):
        return None
    for name in ("is_flag", "count"):
        value = literal(keyword(call, name))
        if name in given and value is None:
            return None
        if value:
            return 0
    if has_two and "is_flag" not in given:
        return 0
    kind = keyword(call, "type")
    if isinstance(kind, ast.Tuple):
        return len(kind.elts)
    if "nargs" in given:
        count = literal(keyword(call, "nargs"))
        return count if isinstance(count, int) and count > 0 else None
    return None if isinstance(kind, ast.Call) and _name_of(kind.func) == "Tuple" else 1


def click_argument(call: ast.Call, source: Source, literals: Literals) -> Argument | None:
    """Return what `click.argument(...)` declares; None where that is not written out."""
    name = next(iter(declared_names(call)), None)
    given = {each.arg for each in call.keywords}
    if not isinstance(name, str) or None in given or "cls" in given:
        return None
    count = literal(keyword(call, "nargs")) if "nargs" in given else 1
    required = literal(keyword(call, "required")) if "required" in given else None
    if count not in (1, -1) or ("required" in given and required is None):
        return None
    is_required = bool(required) if required is not None else count == 1 and "default" not in given
    choices, folds = _choices(keyword(call, "type"), source, literals)
    return Argument(
        name.upper(), is_required and "envvar" not in given, count == -1, choices, folds
    )


def _choices(
    kind: ast.expr | None, source: Source, literals: Literals
) -> tuple[tuple[str, ...], bool]:
    if not (isinstance(kind, ast.Call) and source.dotted(kind.func).endswith("click.Choice")):
        return (), False
    given = kind.args[0] if kind.args else keyword(kind, "choices")
    folds = keyword(kind, "case_sensitive")
    # case_sensitive is True by default; a computed value is taken as folding, which refutes less.
    return literals.choices(given, source), folds is not None and literal(folds) is not True


def _name_of(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def typer_parameter(
    parameter: ast.arg, default: ast.expr | None, source: Source
) -> Option | Argument | str | None:
    """Return what a parameter of a typer command declares, or a text: why that is unsure.

    A parameter that is none of the command line, as `typer.Context` is, gives None.
    """
    kind, info = _annotation(parameter.annotation, source)
    if isinstance(default, ast.Call) and _is_info(default, source):
        info, default = default, _default_of(default)
    shown = "" if kind is None else ast.unparse(kind)
    if shown.rpartition(".")[2] in ("Context", "CallbackParam", "FileText"):
        return None if shown.endswith("Context") else "a parameter of a special type"
    if info is not None and any(each.arg is None for each in info.keywords):
        return "an option is not written out"
    is_option = default is not None if info is None else _name_of(info.func) == "Option"
    if not is_option:
        return _typer_argument(parameter.arg, kind, default)
    return _typer_option(parameter.arg, kind, info)


def _annotation(node: ast.expr | None, source: Source) -> tuple[ast.expr | None, ast.Call | None]:
    if isinstance(node, ast.Subscript) and _name_of(node.value) == "Annotated":
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else []
        infos = [e for e in parts[1:] if isinstance(e, ast.Call) and _is_info(e, source)]
        return (parts[0] if parts else None), (infos[0] if infos else None)
    return node, None


def _is_info(call: ast.Call, source: Source) -> bool:
    return source.dotted(call.func) in ("typer.Option", "typer.Argument")


def _default_of(info: ast.Call) -> ast.expr | None:
    first = info.args[0] if info.args else keyword(info, "default")
    is_none_given = isinstance(first, ast.Constant) and first.value is ...
    return None if is_none_given else first


def _typer_argument(name: str, kind: ast.expr | None, default: ast.expr | None) -> Argument:
    shown = "" if kind is None else ast.unparse(kind).lower()
    # Any tuple counts as many, which only forgives surplus words.
    is_many = shown.startswith(("list", "typing.list", "tuple", "optional[list"))
    return Argument(name.upper(), default is None, is_many, _literal_choices(kind))


def _typer_option(name: str, kind: ast.expr | None, info: ast.Call | None) -> Option | str:
    given = [literal(each) for each in info.args] if info is not None else []
    written = [each for each in given if isinstance(each, str) and each.startswith("-")]
    names, _ = _split_names(written)
    shown = "" if kind is None else ast.unparse(kind)
    is_flag = shown in ("bool", "bool | None", "Optional[bool]", "typing.Optional[bool]")
    if not names:
        dashed = name.replace("_", "-").strip("-")
        names = [f"--{dashed}", *([f"--no-{dashed}"] if is_flag else [])]
    counts = info is not None and literal(keyword(info, "count")) is True
    known = shown in ("str", "int", "float", "Path") or is_flag or counts
    return Option(
        tuple(names),
        choices=_literal_choices(kind),
        # An unknown type may take several words.
        num_values=0 if is_flag or counts else 1 if known else None,
    )


def _literal_choices(kind: ast.expr | None) -> tuple[str, ...]:
    if isinstance(kind, ast.Subscript) and _name_of(kind.value) == "Literal":
        given = literal(kind.slice)
        rows = cast("tuple[Any, ...]", given) if isinstance(given, tuple) else (given,)
        return tuple(str(each) for each in rows if each is not None)
    return ()
