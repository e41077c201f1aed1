"""Options and arguments as click's decorators and typer's signatures declare them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from scaffold.analysis.cli.commands import Argument, Option
from scaffold.analysis.cli.literals import choices, keyword, literal
from scaffold.analysis.python.sources import Source

STANDARD_OPTIONS = {
    "version_option": Option(("--version",)),
    "help_option": Option(("--help",)),
    "confirmation_option": Option(("--yes",)),
    "password_option": Option(("--password",), num_values=1),
}

_TYPER_DECLARATIONS = ("typer.Option", "typer.Argument")


def standard_option(name: str, node: ast.expr) -> Option | str:
    """Return what `click.version_option("-V")` and its like declare."""
    given = [literal(each) for each in node.args] if isinstance(node, ast.Call) else []
    names, _ = _split_names([each for each in given if isinstance(each, str)])
    option = STANDARD_OPTIONS[name]
    return option._replace(names=tuple(names)) if names else option


def click_option(call: ast.Call) -> Option | None:
    """Return what `click.option(...)` declares; None where that is not written out."""
    words = [literal(each) for each in call.args]
    if not all(isinstance(each, str) for each in words):
        return None
    names, has_two = _split_names([each for each in words if each.lstrip(" /").startswith("-")])
    given = {each.arg for each in call.keywords}
    # Each of these supplies a value that the command line leaves out; None is `**options`.
    is_supplied = bool({"default", "prompt", "envvar", None} & given)
    taken, folds = _choices(call)
    option = Option(
        tuple(names),
        choices=taken,
        is_repeatable=literal(keyword(call, "multiple")) is True,
        is_required=literal(keyword(call, "required")) is True and not is_supplied,
        num_values=_num_values(call, given, has_two=has_two),
        folds_case=folds,
    )
    return option if names else None


def click_argument(call: ast.Call) -> Argument | None:
    """Return what `click.argument(...)` declares; None where that is not written out."""
    name = literal(call.args[0]) if call.args else None
    given = {each.arg: literal(each.value) for each in call.keywords}
    count = given.get("nargs", 1)
    required = given.get("required", count == 1 and "default" not in given)
    if not isinstance(name, str) or {None, "cls"} & set(given) or count not in (1, -1):
        return None
    is_required = required is True and "envvar" not in given
    return (
        None
        if required is None
        else Argument(name.upper(), is_required, count == -1, *_choices(call))
    )


def _split_names(words: list[str]) -> tuple[list[str], bool]:
    """Split `--shout/--no-shout`; return whether there was any, which makes a flag, as well."""
    names = [part.strip() for word in words for part in word.split("/")]
    return [each for each in names if each.startswith("-")], any("/" in each for each in words)


def _num_values(call: ast.Call, given: set[str | None], *, has_two: bool) -> int | None:
    flags = [literal(keyword(call, each)) for each in ("is_flag", "count") if each in given]
    kind = keyword(call, "type")
    # click infers a flag from flag_value in ways that differ between versions, and a type of
    # several parts takes as many words.
    if (
        {"cls", "flag_value", None} & given
        or None in flags
        or "uple" in ast.dump(kind or call.func)
    ):
        return None
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
    defaults = [None] * (len(both) - len(spec.defaults))
    pairs = [*zip(both, [*defaults, *spec.defaults], strict=True)]
    pairs += [*zip(spec.kwonlyargs, spec.kw_defaults, strict=True)]
    for parameter, default in pairs:
        kind, info = parameter.annotation, default
        if isinstance(kind, ast.Subscript) and ast.unparse(kind.value).endswith("Annotated"):
            kind, info, *_ = [*getattr(kind.slice, "elts", ()), None, None]
        declared = source.dotted(info.func) if isinstance(info, ast.Call) else ""
        call = info if isinstance(info, ast.Call) and declared in _TYPER_DECLARATIONS else None
        shown = "" if kind is None else ast.unparse(kind)
        if shown.endswith("Context"):
            continue
        if shown.endswith(("CallbackParam", "FileText")) or (
            call is not None and None in {each.arg for each in call.keywords}
        ):
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
            name = parameter.arg.upper()
            yield Argument(name, is_required, is_many, _literal_choices(kind))


def _typer_option(name: str, kind: ast.expr | None, shown: str, call: ast.Call | None) -> Option:
    written = [literal(each) for each in call.args] if call is not None else []
    names, _ = _split_names([each for each in written if isinstance(each, str) and each[:1] == "-"])
    is_flag = shown in ("bool", "bool | None", "Optional[bool]", "typing.Optional[bool]")
    dashed = name.replace("_", "-").strip("-")
    names = names or [f"--{dashed}", *([f"--no-{dashed}"] if is_flag else [])]
    counts = call is not None and literal(keyword(call, "count")) is True
    # An unknown type may take several words.
    num_values = 1 if shown in ("str", "int", "float", "Path") else None
    given = _literal_choices(kind)
    return Option(tuple(names), choices=given, num_values=0 if is_flag or counts else num_values)


def _literal_choices(kind: ast.expr | None) -> tuple[str, ...]:
    if isinstance(kind, ast.Subscript) and ast.unparse(kind.value).endswith("Literal"):
        return choices(kind.slice)
    return ()
