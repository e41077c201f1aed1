"""Options and arguments as click's decorators and typer's signatures declare them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from scaffold.analysis.cli.commands import Argument, Option
from scaffold.analysis.cli.declarations import choices, keyword, literal
from scaffold.analysis.python.sources import Source

STANDARD_OPTIONS = {
    "version_option": Option(("--version",)),
    "help_option": Option(("--help",)),
    "confirmation_option": Option(("--yes",)),
    "password_option": Option(("--password",), num_values=1),
}

_SCALARS = ("str", "int", "float", "Path")
_TYPER_DECLARATIONS = ("typer.Option", "typer.Argument")


def standard_option(name: str, node: ast.expr) -> Option:
    """Return what `click.version_option("-V")` and its like declare."""
    names = _names(node.args) if isinstance(node, ast.Call) else ()
    option = STANDARD_OPTIONS[name]
    return option._replace(names=names) if names else option


def click_option(call: ast.Call) -> Option | None:
    """Return what `click.option(...)` declares; None where that is not written out."""
    names, given = _names(call.args), {each.arg for each in call.keywords}
    if not names or not all(isinstance(literal(each), str) for each in call.args):
        return None
    # Each of these supplies a value that the command line leaves out; None is `**options`.
    is_supplied = bool({"default", "prompt", "envvar", None} & given)
    taken, folds = _choices(call)
    return Option(
        names,
        choices=taken,
        is_repeatable=literal(keyword(call, "multiple")) is True,
        is_required=literal(keyword(call, "required")) is True and not is_supplied,
        num_values=_num_values(call, given),
        folds_case=folds,
    )


def click_argument(call: ast.Call) -> Argument | None:
    """Return what `click.argument(...)` declares; None where that is not written out."""
    name = literal(call.args[0]) if call.args else None
    given = {each.arg: literal(each.value) for each in call.keywords}
    count = given.get("nargs", 1)
    required = given.get("required", count == 1 and "default" not in given)
    if not isinstance(name, str) or required is None or count not in (1, -1):
        return None
    if {None, "cls"} & set(given):
        return None
    is_required = required is True and "envvar" not in given
    return Argument(name.upper(), is_required, count == -1, *_choices(call))


def _names(words: Sequence[ast.expr]) -> tuple[str, ...]:
    """Return the names of an option, both of `--shout/--no-shout`."""
    parts = (part.strip() for word in words for part in str(literal(word)).split("/"))
    return tuple(each for each in parts if each.startswith("-"))


def _num_values(call: ast.Call, given: set[str | None]) -> int | None:
    flags = [literal(keyword(call, each)) for each in ("is_flag", "count") if each in given]
    # click infers a flag from flag_value in ways that differ between versions, and a type of
    # several parts takes as many words.
    is_odd = bool({"cls", "flag_value", None} & given) or None in flags
    if is_odd or "uple" in ast.dump(keyword(call, "type") or call.func):
        return None
    has_two = any("/" in literal(each) for each in call.args)
    if any(flags) or (has_two and "is_flag" not in given):
        return 0
    count = literal(keyword(call, "nargs")) if "nargs" in given else 1
    return count if isinstance(count, int) and count > 0 else None


def _choices(call: ast.Call) -> tuple[tuple[str, ...], bool]:
    """Return what `type=click.Choice([...])` lets through, and whether case is ignored."""
    kind = keyword(call, "type")
    if not (isinstance(kind, ast.Call) and ast.unparse(kind.func).endswith("Choice")):
        return (), False
    given = kind.args[0] if kind.args else keyword(kind, "choices")
    folds = keyword(kind, "case_sensitive")
    # A computed value is taken as ignoring case, which refutes less.
    return choices(given), folds is not None and literal(folds) is not True


def typer_parameters(
    node: ast.FunctionDef | ast.AsyncFunctionDef, source: Source
) -> Iterator[Option | Argument | str]:
    """Yield what the parameters of a typer command declare; a text where that is unsure."""
    spec = node.args
    both = [*spec.posonlyargs, *spec.args]
    # ast aligns defaults to the right.
    defaults = [None] * (len(both) - len(spec.defaults)) + [*spec.defaults, *spec.kw_defaults]
    for parameter, default in zip([*both, *spec.kwonlyargs], defaults, strict=True):
        kind, info = parameter.annotation, default
        if isinstance(kind, ast.Subscript) and ast.unparse(kind.value).endswith("Annotated"):
            kind, info, *_ = [*getattr(kind.slice, "elts", ()), None, None]
        declared = source.dotted(info.func) if isinstance(info, ast.Call) else ""
        call = info if isinstance(info, ast.Call) and declared in _TYPER_DECLARATIONS else None
        shown = "" if kind is None else ast.unparse(kind)
        if shown.endswith("Context"):
            continue
        is_loose = call is not None and None in {each.arg for each in call.keywords}
        if is_loose or shown.endswith(("CallbackParam", "FileText")):
            yield "a parameter is not written out"
        elif declared == "typer.Option" or (call is None and default is not None):
            yield _typer_option(parameter.arg, kind, shown, call)
        else:
            given = default
            if call is not None and call is default:
                given = call.args[0] if call.args else keyword(call, "default")
            is_required = given is None or literal(given) is ...
            # Any tuple counts as many, which only forgives surplus words.
            is_many = any(each in shown.lower() for each in ("list", "tuple"))
            yield Argument(parameter.arg.upper(), is_required, is_many, _literal_choices(kind))


def _typer_option(name: str, kind: ast.expr | None, shown: str, call: ast.Call | None) -> Option:
    is_flag = shown in ("bool", "bool | None", "Optional[bool]", "typing.Optional[bool]")
    dashed = name.replace("_", "-").strip("-")
    own = (f"--{dashed}", *([f"--no-{dashed}"] if is_flag else []))
    counts = call is not None and literal(keyword(call, "count")) is True
    # An unknown type may take several words.
    num_values = 0 if is_flag or counts else 1 if shown in _SCALARS else None
    names = _names(call.args) if call is not None else ()
    return Option(names or own, choices=_literal_choices(kind), num_values=num_values)


def _literal_choices(kind: ast.expr | None) -> tuple[str, ...]:
    if isinstance(kind, ast.Subscript) and ast.unparse(kind.value).endswith("Literal"):
        return choices(kind.slice)
    return ()
