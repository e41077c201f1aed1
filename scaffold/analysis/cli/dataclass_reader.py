"""Read the options of a program whose parser is built from the fields of a class.

`HfArgumentParser((A, B))`, `tyro.cli(A)` and pydantic's settings make an option of each field,
`chz.entrypoint(A)` and `OmegaConf.structured(A)` a key, as `lr=1e-5`. A field of another class of
the repository gives its own fields behind a dot. Each has every spelling that one of the libraries
gives it. A base from elsewhere, a renamed field or a choice between classes makes the command open,
and it refutes nothing then.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from scaffold.analysis.cli.commands import Command, Option
from scaffold.analysis.cli.declarations import FUNCTIONS, declared, keyword, literal
from scaffold.analysis.lazy_re import lazy_re
from scaffold.analysis.python.index import PythonIndex
from scaffold.analysis.python.sources import Source, Sources
from scaffold.analysis.python.statements import all_nodes

# A class may contain itself (a tree of nodes), and its fields would have no end.
_MOST_DEPTH = 8
_OMEGACONF = "omegaconf.OmegaConf.structured"
_NESTED = "chz.nested_entrypoint"
_MAKERS = frozenset(
    {"transformers.HfArgumentParser", "tyro.cli", "pydantic_settings.CliApp.run", "chz.entrypoint"}
    | {_NESTED, _OMEGACONF}
)
# Words in a module with which its program may take more, or other words, than its fields; what is
# merged by OmegaConf decides which keys there are.
_OPENING = lazy_re(
    r"alias|return_remaining_strings|parse_known_args|add_argument|args_file_flag|sys\.argv"
    r"|tyro\.(?:conf|MISSING)|from tyro|import tyro as|\bcli_(?!parse_args)\w+|Cli[A-Z](?!pp)\w+"
    r"|blueprint_unspecified|meta_factory|allow_hyphens|OmegaConf"
)
_PLAIN_BASES = frozenset({"object", "BaseModel", "BaseSettings", "ABC", "Generic", "Protocol"})
_SCALARS = frozenset({"str", "int", "float", "bool", "Path", "pathlib.Path"})
_MAPPING = lazy_re(r"\b(?:dict|Dict|Mapping|MutableMapping|OrderedDict)\b")
_NAME = lazy_re(r"[A-Za-z_][\w.]*")
_LITERAL = lazy_re(r"(?:typing\.|t\.)?Literal\[(.*)\]")


class _Row(NamedTuple):
    """A field of a class or a parameter of a function."""

    dotted: str
    annotation: str
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
    own = [each for each in source.tree.body if isinstance(each, FUNCTIONS)]
    body = next((each for each in own if each.name == function), source.tree)
    calls = [each for each in all_nodes(body) if isinstance(each, ast.Call)]
    found = [each for each in calls if _makes(each, source)]
    return _Reader(source, sources, python, found[0]).read() if len(found) == 1 else None


def _makes(call: ast.Call, source: Source) -> bool:
    maker = source.dotted(call.func)
    # A structured config alone is no program: from_cli() is what reads the command line.
    is_unread = maker == _OMEGACONF and "OmegaConf.from_cli(" not in source.text
    return (maker in _MAKERS and not is_unread) or _is_settings(call)


def _is_settings(call: ast.Call) -> bool:
    """Return whether a call makes pydantic's settings: `Settings(_cli_parse_args=True)`."""
    return literal(keyword(call, "_cli_parse_args")) is True


class _Reader:
    def __init__(
        self, source: Source, sources: Sources, python: PythonIndex, call: ast.Call
    ) -> None:
        self._source = source
        self._sources = sources
        self._python = python
        self._call = call
        self._maker = source.dotted(call.func)
        self._why_open: list[str] = []

    def read(self) -> Command | None:
        call = self._call
        first = call.args[0] if call.args else None
        first = call.func if _is_settings(call) else first
        # `HfArgumentParser((ModelArgs, DataArgs))`, `tyro.cli(train)`.
        many = first.elts if isinstance(first, (ast.Tuple, ast.List)) else [first]
        options = [Option(("-h", "--help"))]
        for each in many:
            rows = None if each is None else self._rows_of(ast.unparse(each), self._source.path)
            if rows is None:
                return None
            for row in self._all_rows(rows, 0):
                names = tuple(dict.fromkeys(_spellings(row.dotted, row.annotation == "bool")))
                options.append(Option(names, num_values=None))
        given = {each.arg for each in call.keywords}
        if not _is_settings(call) and (len(call.args) > 1 or not given <= {"prog", "description"}):
            self._why_open.append("its parser is made in a way of its own")
        self._note_words(self._source.path)
        place = f"{self._source.path}:{call.lineno}"
        return declared([*options, *self._why_open], place, abbreviates=True)

    def _note_words(self, path: str) -> None:
        source = self._sources.get(path)
        if source is None or _OPENING.search(source.text):
            self._why_open.append(f"{path} may change what it takes")

    def _rows_of(self, name: str, path: str) -> list[_Row] | None:
        """Return the fields of a class, or of what a function called with it takes."""
        if not all(part.isidentifier() for part in name.split(".")):
            return None
        found = self._python.find_in(path, name)
        fields = self._python.fields_of(found)
        if fields is not None:
            for unknown in sorted(self._python.foreign_bases(found) - _PLAIN_BASES):
                self._why_open.append(f"the fields of {unknown} are not known")
            return [_Row(each.name, each.annotation, each.path) for each in fields if each.init]
        signature = self._python.signature_of(found) if found.kind == "function" else None
        if signature is None:
            return None
        # tyro takes positional-only parameters as words, and `*args` as any number of them.
        if any(each.kind.startswith(("positional_only", "var")) for each in signature.parameters):
            self._why_open.append(f"{name} takes words by their place")
        taken = [_Row(e.name, e.annotation or "", signature.path) for e in signature.parameters]
        # chz hands the one parameter of a nested entry point what it made of the command line.
        is_nested = self._maker == _NESTED and bool(taken)
        return self._rows_of(taken[0].annotation, signature.path) if is_nested else taken

    def _all_rows(self, rows: list[_Row], depth: int) -> Iterator[_Row]:
        """Yield the fields, and behind one of another class the fields of that."""
        for row in rows:
            self._note_words(row.path)
            row = row._replace(annotation=row.annotation.strip("\"' "))
            yield row
            inner = self._rows_of(row.annotation, row.path) if depth < _MOST_DEPTH else None
            if inner is None:
                self._note_choice(row.annotation, row.path)
            for each in self._all_rows(inner or [], depth + 1):
                yield each._replace(dotted=f"{row.dotted}.{each.dotted}")
            if self._maker.startswith("chz.") and row.annotation not in _SCALARS:
                # `model=Other` takes the keys of Other, and `names.0=a` is one of a list.
                self._why_open.append(f"{row.dotted} may be made of something else")

    def _note_choice(self, annotation: str, path: str) -> None:
        # tyro makes an option of each key of a default.
        is_open = _MAPPING.search(annotation) is not None
        for each in set(_NAME.findall(_LITERAL.sub("", annotation))) - _SCALARS:
            found = self._python.find_in(path, each)
            is_open |= found.kind == "undecided" or self._python.fields_of(found) is not None
        if is_open:
            self._why_open.append(f"a field is a {annotation}")


def _spellings(dotted: str, is_flag: bool) -> Iterator[str]:
    yield dotted
    if len(dotted) == 1:
        yield f"-{dotted}"  # pydantic gives an option of one letter one dash
    lead = dotted[: dotted.rfind(".") + 1]
    for sign in ("", "no_")[: 1 + is_flag]:
        option = f"--{lead}{sign}{dotted.removeprefix(lead)}"
        yield from (option, option.replace("_", "-"))
