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

from scaffold.analysis.cli.commands import Command, Option
from scaffold.analysis.cli.declarations import declared, keyword, literal
from scaffold.analysis.lazy_re import lazy_re
from scaffold.analysis.python.index import PythonIndex
from scaffold.analysis.python.sources import Source, Sources
from scaffold.analysis.python.statements import all_nodes

# A class may contain itself (a tree of nodes), and its fields would have no end.
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
    "huggingface": lazy_re(
        r"aliases|return_remaining_strings|parse_known_args|add_argument|args_file_flag|sys\.argv"
    ),
    "tyro": lazy_re(r"tyro\.(?:conf|MISSING)|from tyro|import tyro as|sys\.argv"),
    "simple_parsing": lazy_re(
        r"alias|subparsers|subgroups|flatten|positional|negative_\w+|sys\.argv"
    ),
    "pydantic": lazy_re(r"alias|\bcli_(?!parse_args)\w+|Cli[A-Z](?!pp)\w+|sys\.argv"),
    "chz": lazy_re(r"blueprint_unspecified|meta_factory|allow_hyphens|sys\.argv"),
    "omegaconf": lazy_re(r""),  # what else is merged decides which keys there are
}
"""Words in a module with which its program may take more, or other words, than its fields."""

_PLAIN_BASES = frozenset({"object", "BaseModel", "BaseSettings", "ABC", "Generic", "Protocol"})
_SCALARS = frozenset({"str", "int", "float", "Path", "pathlib.Path"})
_MAPPING = lazy_re(r"\b(?:dict|Dict|Mapping|MutableMapping|OrderedDict)\b")
_NAME = lazy_re(r"[A-Za-z_][\w.]*")
_LITERAL = lazy_re(r"(?:typing\.|t\.)?Literal\[(.*)\]")


class _Row(NamedTuple):
    """A field of a class or a parameter of a function."""

    name: str
    annotation: str
    default: str | None
    has_default: bool
    path: str
    above: tuple[str, ...] = ()

    @property
    def dotted(self) -> str:
        return ".".join((*self.above, self.name))


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

    def read(self) -> Command | None:
        call = self._call
        is_class = self._style == "pydantic" and keyword(call, "_cli_parse_args") is not None
        first = call.func if is_class else call.args[0] if call.args else None
        # `HfArgumentParser((ModelArgs, DataArgs))`, `tyro.cli(train)`,
        # `Settings(_cli_parse_args=True)`.
        many = first.elts if isinstance(first, (ast.Tuple, ast.List)) else [first]
        found: list[_Row] = []
        for each in many:
            rows = None if each is None else self._rows_of(ast.unparse(each), self._source.path)
            if rows is None:
                return None
            found += self._all_rows(rows, ())
        given = {each.arg for each in call.keywords}
        if not is_class and (len(call.args) > 1 or not given <= {"prog", "description"}):
            self._why_open = "its parser is made in a way of its own"
        self._note_words(self._source.path)
        place = f"{self._source.path}:{call.lineno}"
        # Both are argparse underneath, which accepts the unambiguous beginning of an option.
        has_beginnings = self._style in ("huggingface", "simple_parsing")
        options = [*(self._option(each, found) for each in found), Option(("-h", "--help"))]
        why = [self._why_open] if self._why_open else []
        return declared([*options, *why], place, abbreviates=has_beginnings)

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
            unknown = self._python.foreign_bases(found) - _PLAIN_BASES
            if unknown:
                self._why_open = f"the fields of {min(unknown)} are not known"
            return [
                _Row(each.name, each.annotation, each.default, each.has_default, each.path)
                for each in fields
                if each.init
            ]
        # chz hands the one parameter of a nested entry point what it made of the command line.
        is_nested = self._source.dotted(self._call.func) == "chz.nested_entrypoint"
        signature = self._python.signature_of(found) if found.kind == "function" else None
        if signature is None or self._style not in ("tyro", "chz"):
            return None
        rows = [
            _Row(each.name, each.annotation or "", each.default, each.has_default, signature.path)
            for each in signature.parameters
        ]
        # tyro takes positional-only parameters as words, and `*args` as any number of them.
        if any(each.kind.startswith(("positional_only", "var")) for each in signature.parameters):
            self._why_open = f"{name} takes words by their place"
        return self._rows_of(rows[0].annotation, signature.path) if is_nested and rows else rows

    def _all_rows(self, rows: list[_Row], above: tuple[str, ...]) -> Iterator[_Row]:
        """Yield the fields, and in the place of one of another class the fields of that."""
        for row in rows:
            self._note_words(row.path)
            row = row._replace(annotation=row.annotation.strip("\"' "), above=above)
            inner = None
            # HfArgumentParser does not descend into fields that are dataclasses.
            if self._style != "huggingface" and len(above) < _MOST_DEPTH:
                inner = self._rows_of(row.annotation, row.path)
            if inner is not None:
                yield from self._all_rows(inner, (*above, row.name))
            elif self._style != "huggingface":
                self._note_choice(row.annotation, row.path)
            if self._style == "chz" and row.annotation not in _SCALARS | {"bool"}:
                # `model=Other` takes the keys of Other, and `names.0=a` is one of a list.
                self._why_open = f"{row.dotted} may be made of something else"
            # Keys and pydantic's options may set a nested object as a whole as well.
            if inner is None or self._takes_keys or self._style == "pydantic":
                yield row if inner is None else row._replace(has_default=True)

    def _note_choice(self, annotation: str, path: str) -> None:
        if self._style == "tyro" and _MAPPING.search(annotation):
            # tyro makes an option of each key of a default.
            self._why_open = f"a field is a {annotation}"
        for each in set(_NAME.findall(_LITERAL.sub("", annotation))) - _SCALARS - {"bool"}:
            found = self._python.find_in(path, each)
            if found.kind == "undecided" or self._python.fields_of(found) is not None:
                self._why_open = f"a field is a {annotation}"

    def _option(self, row: _Row, rows: list[_Row]) -> Option:
        # tyro makes a flag of a bool with a default.
        is_flag = row.annotation == "bool" and self._style == "tyro" and row.has_default
        names = tuple(dict.fromkeys(self._names(row, rows)))
        return Option(names, num_values=0 if is_flag else None)

    def _names(self, row: _Row, rows: list[_Row]) -> Iterator[str]:
        is_flag = row.annotation == "bool"
        lead = row.dotted.removesuffix(row.name)
        if self._takes_keys:
            yield row.dotted
        elif self._style == "pydantic":
            # An option of one letter has one dash.
            yield f"--{row.dotted}" if len(row.dotted) > 1 else f"-{row.dotted}"
        elif self._style == "huggingface":
            yield from _variants(row.name)
            if is_flag and row.default == "True":
                yield from _variants(f"no_{row.name}")
        elif self._style == "tyro":
            yield from _variants(row.dotted)
            if is_flag and row.has_default:
                yield from _variants(f"{lead}no_{row.name}")
        else:
            # simple_parsing puts as much before a name as it takes to tell fields apart; the one
            # that is nested least may keep its name.
            depths = [len(each.above) for each in rows if each.name == row.name]
            is_alone, depth = len(depths) == 1, len(row.above)
            is_first = depths.count(depth) == 1 and depth == min(depths)
            for start in [depth] if is_alone else range(depth + is_first):
                before = "".join(f"{each}." for each in row.above[start:])
                yield f"--{before}{row.name}"
                if is_flag:
                    yield f"--{before}no{row.name}"
                if len(row.name) == 1:
                    yield f"-{before}{row.name}"


def _variants(name: str) -> Iterator[str]:
    yield f"--{name}"
    yield f"--{name.replace('_', '-')}"
