"""Read what a program takes whose parser is built from the fields of a class.

`HfArgumentParser((A, B))`, `tyro.cli(A)`, `simple_parsing.parse(A)` and pydantic's settings make an
option of each field, `chz.entrypoint(A)` and `OmegaConf.structured(A)` a key, as `lr=1e-5`. A field
of another class of the repository gives its own fields behind a dot. A base from elsewhere, a
renamed field or a choice between classes makes the command open, and it refutes nothing then.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Literal, NamedTuple

from scaffold.analysis.cli.commands import Argument, Command, Option
from scaffold.analysis.cli.literals import keyword, literal
from scaffold.analysis.lazy_re import lazy_re
from scaffold.analysis.python.index import Found, PythonIndex
from scaffold.analysis.python.sources import Source, Sources
from scaffold.analysis.python.statements import all_nodes

_MOST_DEPTH = 8
_Style = Literal["huggingface", "tyro", "simple_parsing", "pydantic", "chz", "omegaconf"]
_MAKERS: dict[str, _Style] = {
    "transformers.HfArgumentParser": "huggingface",
    "tyro.cli": "tyro",
    "simple_parsing.parse": "simple_parsing",
    "pydantic_settings.CliApp.run": "pydantic",
    "chz.entrypoint": "chz",
    "chz.nested_entrypoint": "chz",
    "omegaconf.OmegaConf.structured": "omegaconf",
}
_OPENING = {
    "huggingface": lazy_re(r"aliases|return_remaining_strings|parse_known_args|sys\.argv"),
    "tyro": lazy_re(r"tyro\.(?:conf|MISSING)|from tyro|sys\.argv"),
    "simple_parsing": lazy_re(r"alias|subparsers|subgroups|flatten|sys\.argv"),
    "pydantic": lazy_re(r"alias|\bcli_(?!parse_args)\w+|Cli[A-Z](?!pp)\w+|sys\.argv"),
    "chz": lazy_re(r"blueprint_unspecified|meta_factory|allow_hyphens|sys\.argv"),
    "omegaconf": lazy_re(r""),  # what else is merged decides which keys there are
}
"""Words in a module with which its program may take more, or other words, than its fields."""

_PLAIN_BASES = frozenset({"object", "BaseModel", "BaseSettings", "ABC", "Generic", "Protocol"})
_SCALARS = frozenset({"str", "int", "float", "Path", "pathlib.Path"})
_NAME = lazy_re(r"[A-Za-z_][\w.]*")
_LITERAL = lazy_re(r"(?:typing\.|t\.)?Literal\[(.*)\]")


class _Row(NamedTuple):
    """A field of a class or a parameter of a function."""

    name: str
    annotation: str
    default: str | None
    has_default: bool
    path: str


def read_dataclasses(
    path: str, function: str, sources: Sources, python: PythonIndex
) -> Command | None:
    """Return what a program takes; None where it makes not one parser of classes it has.

    Args:
        path: The source that begins it.
        function: The function that is called; "" where the file is run as a script.
        sources: The sources of the repository.
        python: Its names.
    """
    source = sources.get(path)
    if source is None:
        return None
    body: ast.AST = source.tree
    for node in source.tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == function:
            body = node
    calls = [each for each in all_nodes(body) if isinstance(each, ast.Call)]
    found = [each for each in calls if _style(each, source) is not None]
    style = _style(found[0], source) if len(found) == 1 else None
    return None if style is None else _Reader(source, sources, python, found[0], style).read()


def _style(call: ast.Call, source: Source) -> _Style | None:
    if literal(keyword(call, "_cli_parse_args")) is True:
        return "pydantic"
    style = _MAKERS.get(source.dotted(call.func))
    # A structured config alone is no program: from_cli() is what reads the command line.
    is_unread = style == "omegaconf" and not source.mentions("OmegaConf.from_cli(")
    return None if is_unread else style


class _Reader:
    def __init__(
        self, source: Source, sources: Sources, python: PythonIndex, call: ast.Call, style: _Style
    ) -> None:
        self._source = source
        self._sources = sources
        self._python = python
        self._call = call
        self._style: _Style = style
        self._why_open = ""
        self._options: list[Option] = []

    def read(self) -> Command | None:
        call = self._call
        is_class = self._style == "pydantic" and keyword(call, "_cli_parse_args") is not None
        first = call.func if is_class else call.args[0] if call.args else None
        many = first.elts if isinstance(first, (ast.Tuple, ast.List)) else [first]
        for each in many:
            rows = None if each is None else self._rows_of(ast.unparse(each), self._source.path)
            if rows is None:
                return None
            self._add_rows(rows, (), 0)
        if not is_class and not {each.arg for each in call.keywords} <= {"prog", "description"}:
            self._why_open = "its parser is made in a way of its own"
        self._note_words(self._source.path)
        arguments: tuple[Argument, ...] = ()
        if self._takes_keys:
            arguments = (Argument("key=value", is_required=False, is_repeatable=True),)
        place = f"{self._source.path}:{call.lineno}"
        why, has_beginnings = self._why_open, self._style in ("huggingface", "simple_parsing")
        options = (*self._options, Option(("-h", "--help")))
        return Command("", "", options, arguments, None, bool(why), why, place, has_beginnings)

    @property
    def _takes_keys(self) -> bool:
        return self._style in ("chz", "omegaconf")

    def _note_words(self, path: str) -> None:
        source = self._sources.get(path)
        if source is None or _OPENING[self._style].search(source.text):
            self._why_open = self._why_open or f"{path} may change what it takes"

    def _rows_of(self, name: str, path: str) -> list[_Row] | None:
        """Return the fields of a class, or of what a function called with it takes."""
        if not all(part.isidentifier() for part in name.split(".")):
            return None
        found = self._python.find_in(path, name)
        fields = self._python.fields_of(found)
        if fields is not None:
            self._note_bases(found)
            return [
                _Row(each.name, each.annotation, each.default, each.has_default, each.path)
                for each in fields
                if each.init
            ]
        signature = self._python.signature_of(found) if found.kind == "function" else None
        if signature is None or self._style not in ("tyro", "chz"):
            return None
        rows = [
            _Row(each.name, each.annotation or "", each.default, each.has_default, signature.path)
            for each in signature.parameters
        ]
        # chz hands the one parameter of a nested entry point what it made of the command line.
        is_nested = self._style == "chz"
        return self._rows_of(rows[0].annotation, signature.path) if is_nested and rows else rows

    def _note_bases(self, found: Found) -> None:
        unknown = self._python.foreign_bases(found) - _PLAIN_BASES
        if unknown:
            self._why_open = f"the fields of {min(unknown)} are not known"

    def _add_rows(self, rows: list[_Row], above: tuple[str, ...], depth: int) -> None:
        for row in rows:
            self._note_words(row.path)
            annotation = row.annotation.strip("\"' ")
            inner = None
            # HfArgumentParser does not descend into fields that are dataclasses.
            if self._style != "huggingface" and depth < _MOST_DEPTH:
                inner = self._rows_of(annotation, row.path)
            if inner is not None:
                self._add_rows(inner, (*above, row.name), depth + 1)
            elif self._style != "huggingface":
                self._note_choice(annotation, row.path)
            # Keys and pydantic's options may set a nested object as a whole as well.
            if inner is None or self._takes_keys or self._style == "pydantic":
                self._options.append(self._option(row, annotation, above, inner is not None))

    def _note_choice(self, annotation: str, path: str) -> None:
        for each in set(_NAME.findall(_LITERAL.sub("", annotation))) - _SCALARS - {"bool"}:
            found = self._python.find_in(path, each)
            if found.kind == "undecided" or self._python.fields_of(found) is not None:
                self._why_open = f"a field is a {annotation}"

    def _option(
        self, row: _Row, annotation: str, above: tuple[str, ...], is_nested: bool
    ) -> Option:
        kind = annotation.removesuffix("| None").strip().removeprefix("Optional[").rstrip("]")
        choices = _LITERAL.fullmatch(annotation)
        given = _literal_choices(choices[1]) if choices is not None else ()
        names_value = self._style in ("huggingface", "tyro", "simple_parsing")
        return Option(
            tuple(dict.fromkeys(self._names(row, annotation == "bool", above))),
            choices=given,
            # A field of a nested class may be supplied by the default of the outer one.
            is_required=names_value and not (row.has_default or above or is_nested),
            num_values=1 if kind in _SCALARS or given else None,
        )

    def _names(self, row: _Row, is_flag: bool, above: tuple[str, ...]) -> Iterator[str]:
        dotted = ".".join((*above, row.name))
        if self._takes_keys:
            yield dotted
        elif self._style == "pydantic":
            yield f"--{dotted}"
        elif self._style == "huggingface":
            names = [row.name]
            if is_flag and row.default == "True":
                names.append(f"no_{row.name}")
            yield from _variants(names)
        elif self._style == "tyro":
            lead = dotted.removesuffix(row.name)
            names = [dotted, f"{lead}no_{row.name}", f"no_{dotted}"] if is_flag else [dotted]
            yield from _variants(names)
        else:
            # simple_parsing leaves out what stands before the dot where two fields do not meet.
            yield from _variants([row.name, dotted, f"no{row.name}", f"no_{row.name}"])


def _variants(names: list[str]) -> Iterator[str]:
    for each in names:
        yield f"--{each}"
        yield f"--{each.replace('_', '-')}"


def _literal_choices(text: str) -> tuple[str, ...]:
    """Return the values in `Literal[...]` as texts; none where they are not written out."""
    try:
        return tuple(str(each) for each in ast.literal_eval(f"({text},)") if each is not None)
    except (ValueError, SyntaxError):
        return ()
