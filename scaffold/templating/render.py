"""Manifest and answers in, files out: pure, and in a sandbox."""

from __future__ import annotations

import ast
import json
import re
import shlex
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import CodeType
from typing import Any, cast

import jinja2
from jinja2.bccache import Bucket

from scaffold.edit.ordering import natural
from scaffold.errors import TemplateError
from scaffold.templating.patterns import pattern_cases
from scaffold.templating.request import Request, check_destination
from scaffold.templating.sandbox import FreeText, Sandbox
from scaffold.templating.spec import (
    Answer,
    AnswerValue,
    FileRule,
    all_answers,
    fill,
)

SUFFIX = ".jinja"

LINE_LENGTH = 100
"""Longest line of an import statement, or of a text in rendered rows, before it is broken."""

MAX_DOC = 60
"""Longest piece of an answer that goes into a comment or docstring."""


_FAULTS = (
    jinja2.TemplateError, ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError,
    TypeError, ValueError,
)  # fmt: skip
"""What a template that is wrong, or hostile, may raise."""


@dataclass(frozen=True)
class RenderedFile:
    """One file as it will be in the target; ``path`` is relative and uses slashes."""

    path: str
    role: str
    data: bytes


def template_variables(
    names: Mapping[str, str],
    styles: Iterable[str],
    questions: Mapping[str, Answer],
    answers: Mapping[str, AnswerValue],
) -> dict[str, Any]:
    """Return all that a template may use; answers of free text are marked as such.

    Raises:
        TemplateError: An answer has the name of a standard variable.
    """
    taken = sorted({*names, "styles"} & set(answers))
    if taken:
        raise TemplateError(
            f"answers cannot be called {', '.join(taken)}: the names are taken",
            code="template_invalid",
        )
    # Free text that a template prints as it is, without a filter that quotes it, is refused.
    marked = {
        name: _guarded(value) if questions[name].is_free_text else value
        for name, value in answers.items()
    }
    return {**names, **marked, "styles": list(styles)}


def render_files(
    rules: Iterable[FileRule], sources: Mapping[str, bytes], variables: Mapping[str, Any]
) -> tuple[RenderedFile, ...]:
    """Render the files of a request.

    Args:
        rules: Which template goes where.
        sources: The kind's template folder: path to bytes.
        variables: What the templates may use.

    Raises:
        TemplateError: A template is missing, wrong, or reaches for what it may not.
    """
    environment = _environment(sources, str(variables.get("package", "")))
    return tuple(_render(rule, environment, sources, variables) for rule in rules)


def _guarded(value: Any) -> Any:
    """Return free text, or a list of it, marked so that no template prints it as it is."""
    if isinstance(value, list):
        return [FreeText(each) for each in cast("list[str]", value)]
    return FreeText(value)


def python_literal(value: Any) -> str:
    """Return a value as Python source; text in the quotes that ruff would choose."""
    if isinstance(value, str):
        return _text_literal(str(value))
    if isinstance(value, list | tuple):
        items = cast("list[Any]", value)
        return "[" + ", ".join(python_literal(each) for each in items) + "]"
    return repr(value)


def _text_literal(text: str) -> str:
    # With both quotes in it, repr escapes the single ones and leaves the double ones alone.
    single = repr(text + "'\"")[1:-4]
    if text.count('"') > text.count("'"):
        return f"'{single}'"
    # Between double quotes the single ones need no escape, and the double ones do.
    swap = {"\\'": "'", '"': '\\"'}
    return '"' + re.sub(r"\\.|\"", lambda found: swap.get(found[0], found[0]), single) + '"'


def rows_literal(text: Any) -> str:
    """Return the JSON text of a list of objects as Python source, one value per line.

    Args:
        text: What an answer with the check "rows" holds.
    """
    return _exploded(json.loads(str(text)), "")


def rows_lines(text: Any) -> str:
    """Return the JSON text of a list of objects as JSONL.

    Args:
        text: What an answer with the check "rows" holds.
    """
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in json.loads(str(text)))


def _exploded(value: Any, indent: str) -> str:
    """Return a value as ruff formats it where every list and object ends in a comma."""
    inner = indent + "    "
    if isinstance(value, dict) and value:
        pairs = cast("dict[str, Any]", value).items()
        lines = [_entry(f"{inner}{python_literal(k)}: ", v, inner) for k, v in pairs]
        return "{\n" + "".join(lines) + indent + "}"
    if isinstance(value, list) and value:
        items = cast("list[Any]", value)
        return "[\n" + "".join(_entry(inner, v, inner) for v in items) + indent + "]"
    return python_literal(value)


def _entry(start: str, value: Any, indent: str) -> str:
    """Return one entry of a list or an object; a text too long for its line is cut at blanks."""
    line = f"{start}{_exploded(value, indent)},\n"
    if not isinstance(value, str) or len(line) - 1 <= LINE_LENGTH:
        return line
    inner = indent + "    "
    parts = [""]
    # A blank ends a part rather than beginning the next one, as people cut long texts.
    for word in re.findall(r"^\s+|\S+\s*", value):
        if parts[-1] and len(inner + python_literal(parts[-1] + word)) > LINE_LENGTH:
            parts.append(word)
        else:
            parts[-1] += word
    if len(parts) == 1:
        return line
    return f"{start}(\n" + "".join(f"{inner}{python_literal(p)}\n" for p in parts) + f"{indent}),\n"


def toml_literal(value: Any) -> str:
    """Return text as a TOML basic string; JSON's escapes are TOML's, but for DEL."""
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")


def shell_word(value: Any) -> str:
    """Return text as one word of a POSIX shell command, on one line.

    Raises:
        TemplateError: The text spans lines, which a command in a document cannot.
    """
    if len(str(value).splitlines()) > 1:
        raise TemplateError(f"no shell word: {str(value)!r}", code="template_invalid")
    return shlex.quote(str(value))


def doc_text(value: Any) -> str:
    """Return text that can be in a comment or a docstring: one line, cut, nothing to end it."""
    # A line separator of Unicode ends a comment for some readers, though not for Python.
    line = " ".join("".join(c if c.isprintable() else " " for c in str(value)).split())
    line = line if len(line) <= MAX_DOC else line[: MAX_DOC - 3] + "..."
    return line.replace("\\", "\\\\").replace('"', "'")


def sorted_imports(block: str, first_party: Iterable[str]) -> str:
    """Return import statements in the order of ruff and isort, sections apart by an empty line.

    Args:
        block: Import statements in any order; duplicates and blank lines are welcome.
        first_party: Top-level packages that belong to the target.

    Raises:
        TemplateError: The block holds something else than imports.
    """
    try:
        statements = ast.parse(block).body
    except SyntaxError as error:
        raise TemplateError(f"no import block: {error}", code="template_invalid") from error
    own = frozenset(first_party)
    # By section, and members by section and module.
    plain: dict[int, set[str]] = {}
    members: dict[tuple[int, str], set[str]] = {}
    for node in statements:
        if isinstance(node, ast.Import):
            for alias in node.names:
                plain.setdefault(_section(alias.name, own), set()).add(ast.unparse(alias))
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            group = members.setdefault((_section(node.module, own), node.module), set())
            group.update(ast.unparse(alias) for alias in node.names)
        else:
            raise TemplateError(f"no import: {ast.unparse(node)}", code="template_invalid")
    sections = sorted({*plain, *(section for section, _ in members)})
    return "\n\n".join(_section_text(each, plain, members) for each in sections) + "\n"


class _Compiled(jinja2.BytecodeCache):
    """Keep what templates compile to, so that units of one kind compile its templates once."""

    def __init__(self) -> None:
        self._code: dict[tuple[str, str], CodeType] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        bucket.code = self._code.get((bucket.key, bucket.checksum))

    def dump_bytecode(self, bucket: Bucket) -> None:
        assert bucket.code is not None, "jinja dumps what it compiled"
        self._code[bucket.key, bucket.checksum] = bucket.code


_COMPILED = _Compiled()


def _environment(sources: Mapping[str, bytes], package: str) -> Sandbox:
    texts = {name: _text(name, data) for name, data in sources.items() if name.endswith(SUFFIX)}
    environment = Sandbox(
        loader=jinja2.DictLoader(texts),
        undefined=jinja2.StrictUndefined,
        # What is rendered is source and no HTML; free text is guarded by `finalize` below.
        autoescape=False,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        # It sees all that a template prints, so that no answer reaches a file as code.
        finalize=_refuse_free_text,
        bytecode_cache=_COMPILED,
    )

    def imports(block: Any) -> str:
        return sorted_imports(str(block), (package, "tests"))

    def cases(pattern: Any, captures: bool) -> list[list[Any]]:
        found = pattern_cases(str(pattern), captures)
        return [[FreeText(text), FreeText(answer), reward] for text, answer, reward in found]

    environment.filters["cases"] = cases
    environment.filters["py"] = python_literal
    environment.filters["doc"] = doc_text
    environment.filters["rows"] = rows_literal
    environment.filters["jsonl"] = rows_lines
    environment.filters["toml"] = toml_literal
    environment.filters["sh"] = shell_word
    environment.filters["imports"] = imports
    return environment


def _text(name: str, data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise TemplateError(f"{name} is not UTF-8", code="template_invalid") from error


def _holds_free_text(value: Any) -> bool:
    parts = cast("list[Any]", value) if isinstance(value, list) else [value]
    return any(isinstance(part, FreeText) for part in parts)


def _refuse_free_text(value: Any) -> Any:
    if _holds_free_text(value):
        raise TemplateError(
            "an answer of free text goes through | py or | doc", code="template_invalid"
        )
    return value


def _render(
    rule: FileRule,
    environment: Sandbox,
    sources: Mapping[str, bytes],
    variables: Mapping[str, Any],
) -> RenderedFile:
    # The path comes from an answer too, so it is checked after it is filled.
    path = check_destination(fill(rule.to, variables))
    if rule.source not in sources:
        raise TemplateError(f"template file {rule.source!r} is missing", code="template_invalid")
    # A file without the suffix, such as an image, is copied as it is.
    if not rule.source.endswith(SUFFIX):
        return RenderedFile(path, rule.role, sources[rule.source])
    try:
        template = environment.get_template(rule.source)
        # A template is other people's code, and a loop in it need not end.
        with environment.limited_steps():
            text = template.render(variables)
    except _FAULTS as error:
        line = f":{error.lineno}" if isinstance(error, jinja2.TemplateSyntaxError) else ""
        why = str(error) or type(error).__name__
        if isinstance(error, jinja2.TemplateNotFound):
            why = f"a template includes no other file, such as {error.name!r}"
        raise TemplateError(f"{rule.source}{line}: {why}", code="template_invalid") from error
    if path.endswith(".py"):
        _check_python(rule.source, text)
    return RenderedFile(path, rule.role, text.encode("utf-8"))


def _check_python(source: str, text: str) -> None:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise TemplateError(
            f"{source} renders no valid Python: {error}", code="template_invalid"
        ) from error


def _section(module: str, first_party: frozenset[str]) -> int:
    top = module.partition(".")[0]
    # ruff's sections: 0 future, 1 standard library, 2 third party, 3 first party.
    if top == "__future__":
        return 0
    if top in sys.stdlib_module_names:
        return 1
    return 3 if top in first_party else 2


def _section_text(
    section: int, plain: Mapping[int, set[str]], members: Mapping[tuple[int, str], set[str]]
) -> str:
    rows = [f"import {name}" for name in sorted(plain.get(section, ()), key=_regardless_of_case)]
    modules = (module for each, module in members if each == section)
    for module in sorted(modules, key=_regardless_of_case):
        rows += _from_lines(module, members[section, module])
    return "\n".join(rows)


def _from_lines(module: str, names: set[str]) -> list[str]:
    plain = sorted((name for name in names if " as " not in name), key=_member_key)
    line = f"from {module} import {', '.join(plain)}"
    if len(line) > LINE_LENGTH:
        line = f"from {module} import (\n" + "".join(f"    {name},\n" for name in plain) + ")"
    lines = {plain[0]: line} if plain else {}
    # ruff and isort give each name with an `as` a line of its own.
    lines |= {name: f"from {module} import {name}" for name in sorted(names - set(plain))}
    return [lines[name] for name in sorted(lines, key=lambda n: _member_key(n.split(" as ")[0]))]


def _member_key(name: str) -> tuple[int, Any]:
    """Order constants before classes before functions, as ruff does."""
    rank = 0 if name.isupper() and len(name) > 1 else 1 if name[:1].isupper() else 2
    return rank, _regardless_of_case(name)


def _regardless_of_case(name: str) -> tuple[str | int, ...]:
    return natural(name.lower())


def render_request(request: Request, sources: Mapping[str, bytes]) -> tuple[RenderedFile, ...]:
    """Render the files of a request.

    Args:
        request: What is to be made.
        sources: The kind's template files: path to bytes.

    Raises:
        TemplateError: A template is wrong.
    """
    questions = all_answers(request.kind, request.styles)
    variables = template_variables(request.names, request.style_names, questions, request.answers)
    return render_files(request.files(), sources, variables)
