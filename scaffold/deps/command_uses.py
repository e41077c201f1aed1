"""Command lines in a tree that run a program of the package, with the options that they give."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

import yaml

from scaffold.analysis.cli.shell_words import commands_of, read_shell
from scaffold.analysis.files.files import Files
from scaffold.deps.import_names import Names
from scaffold.deps.pin import logical_lines
from scaffold.deps.source_code import Code
from scaffold.deps.use import Use

_SHELL = re.compile(r"\.(sh|bash|zsh|slurm|sbatch|mk)$|(^|/)(Makefile|justfile|Justfile)$")
_DOCKER = re.compile(r"(^|/)(Dockerfile|Containerfile)[^/]*$|\.[Dd]ockerfile$")
# `RUN pip install x`, `CMD ["vllm", "serve"]`; then `python3.11`, `/usr/bin/python`, `$PYTHON`.
_INSTRUCTION = re.compile(r"^\s*(?:RUN|CMD|ENTRYPOINT)\s+(.*)$", re.IGNORECASE)
_PYTHON = re.compile(r"(?:^|/)(?:python[\d.]*|\$\{?PYTHON\}?|pypy3?)$")
_WORD = re.compile(r"[A-Za-z][\w-]*$")
_MOST_DOCUMENT = 400_000

Words = Sequence[str | None]
"""A command line; None stands for a word that is computed."""


def commands_in_files(files: Files, names: Names) -> list[Use]:
    """Return the options given to the package's programs in scripts and configurations."""
    found: list[Use] = []
    for path in sorted(files.paths):
        is_yaml = path.endswith((".yml", ".yaml"))
        if not (is_yaml or _SHELL.search(path) or _DOCKER.search(path)):
            continue
        text = files.text(path) or ""
        if not any(each in text for each in (*names.programs, *names.imports)):
            continue
        for line, words in _in_yaml(text) if is_yaml else _in_script(path, text):
            found += _uses(words, names, path, line)
    return found


def commands_in_python(code: Code, names: Names) -> list[Use]:
    """Return the options in lists of words and in shell strings of a Python source."""
    found: list[Use] = []
    for node in ast.walk(code.source.tree):
        if isinstance(node, (ast.List, ast.Tuple)) and len(node.elts) > 1:
            words = [text_of(each) for each in node.elts]
            found += _uses(words, names, code.source.path, node.lineno)
        elif isinstance(node, ast.Call) and node.args and _runs_shell(node):
            text = text_of(node.args[0]) or ""
            for _, words in _in_shell(text):
                found += _uses(words, names, code.source.path, node.lineno)
    return found


def text_of(node: ast.expr) -> str | None:
    """Return the text that an expression writes out; None where it writes out none."""
    value = node.value if isinstance(node, ast.Constant) else None
    if isinstance(node, ast.JoinedStr):
        # `{}` is in the place of what an f-string computes.
        parts = [each.value if isinstance(each, ast.Constant) else "{}" for each in node.values]
        return "".join(str(each) for each in parts)
    return value if isinstance(value, str) else None


def _runs_shell(node: ast.Call) -> bool:
    name = ast.unparse(node.func) if isinstance(node.func, (ast.Name, ast.Attribute)) else ""
    return name.rpartition(".")[2] in (
        *("run", "Popen", "call", "check_call", "check_output", "system"),
        *("getoutput", "split", "create_subprocess_shell", "spawn"),
    )


def _in_script(path: str, text: str) -> Iterator[tuple[int, Words]]:
    if not _DOCKER.search(path):
        yield from _in_shell(text)
        return
    for offset, row in logical_lines(text):
        instruction = _INSTRUCTION.match(row)
        if instruction is None:
            continue
        number = text.count("\n", 0, offset) + 1
        body = instruction[1].strip()
        try:
            # The exec form is JSON; a list with single quotes falls back to the shell form.
            words: Any = json.loads(body) if body.startswith("[") else None
        except ValueError:
            words = None
        if isinstance(words, list):
            yield number, [str(each) for each in cast("list[Any]", words)]
        else:
            yield from ((number, words) for _, words in _in_shell(body))


def _in_shell(text: str) -> Iterator[tuple[int, Words]]:
    for each in commands_of(read_shell(text)):
        line = each.words[0].line + 1
        yield line, [word.text for word in each.words]


def _in_yaml(text: str) -> Iterator[tuple[int, Words]]:
    """Yield the command lines of compose files, workflows and manifests of pods."""
    if len(text) > _MOST_DOCUMENT:
        return
    try:
        found: object = yaml.compose_all(text, yaml.SafeLoader)  # pyright: ignore  # untyped
        read = cast("Iterator[object]", found)
        pending = [each for each in read if isinstance(each, yaml.Node)]
    except (yaml.YAMLError, RecursionError, ValueError):
        return
    while pending:
        node = pending.pop()
        if isinstance(node, yaml.MappingNode):
            fields = {key.value: value for key, value in node.value}
            words = [*_words(fields.get("command")), *_words(fields.get("args"))]
            # In manifests of pods `command` is the entry point and `args` follow it.
            first = fields.get("command") or fields.get("args")
            if first is not None and words:
                yield first.start_mark.line + 1, words
            pending += [value for _, value in node.value]
        elif isinstance(node, yaml.SequenceNode):
            pending += node.value
        elif isinstance(node, yaml.ScalarNode) and (" " in node.value):
            # The text of a block scalar begins on the line after its sign.
            start = node.start_mark.line + (node.style in ("|", ">"))
            yield from ((start + line, words) for line, words in _in_shell(node.value))


def _words(node: yaml.Node | None) -> list[str]:
    if isinstance(node, yaml.SequenceNode):
        rows = [each.value for each in node.value if isinstance(each, yaml.ScalarNode)]
        return [str(each) for each in rows]
    return []


def _uses(words: Words, names: Names, path: str, line: int) -> Iterator[Use]:
    """Yield the uses in one command line: its program, and each option that it gives."""
    for index, word in enumerate(words):
        if word is None:
            continue
        if word.rpartition("/")[2] in names.programs and (index == 0 or _leads(words[:index])):
            yield from _options(word.rpartition("/")[2], words[index + 1 :], path, line)
            return
        if _is_module(words, index, names):
            program = f"python -m {words[index + 1]}"
            yield from _options(program, words[index + 2 :], path, line)
            return


def _leads(words: Words) -> bool:
    """Return whether words in front of a program only start it: ``exec``, ``uv run``, ``A=b``."""
    starters = {"exec", "sudo", "env", "nohup", "time", "uv", "run", "poetry", "pdm", "-m", "--"}
    return all(each is not None and (each in starters or "=" in each) for each in words)


def _is_module(words: Words, index: int, names: Names) -> bool:
    word, following = words[index], words[index + 1] if index + 1 < len(words) else None
    if word != "-m" or following is None:
        return False
    # The interpreter may be computed, or be in front of a list that begins with `-m`.
    before = words[index - 1] if index else None
    is_python = before is None or bool(_PYTHON.search(before)) or before == "{}"
    tops = tuple(names.imports)
    return is_python and any(following == top or following.startswith(f"{top}.") for top in tops)


def _options(program: str, words: Words, path: str, line: int) -> Iterator[Use]:
    inner: list[str] = []
    for each in words:
        # Subcommands come before the options; from the first other word on they may be values.
        if each is None or not _WORD.match(each) or len(inner) == 2:
            break
        inner.append(each)
    name = " ".join([program, *inner[:1]])
    shown = " ".join(each if each is not None else "..." for each in words)
    detail = f"{program} {shown}".strip()[:110]
    yield Use("flag", (name,), path, line, detail)
    for each in words:
        if each is not None and re.match(r"--[A-Za-z]", each):
            yield Use("flag", (name, each.partition("=")[0]), path, line, detail)


_SUFFIXES = (".toml", ".cfg", ".ini", ".yaml", ".yml", ".json", ".jsonc")
_FILES = frozenset({"py", "toml", "cfg", "txt", "json", "yaml", "yml", "md", "rst", "com", "org"})
_LOCKS = re.compile(
    r"\.lock$|(^|/)(package-lock|poetry|uv|pdm|Pipfile|conda-lock)[^/]*\.(json|ya?ml)$"
)
_LONGEST_LINE = 2_000


def text_uses(files: Files, imports: Iterable[str]) -> list[Use]:
    """Return the places where a configuration names something of the package."""
    names = "|".join(sorted(re.escape(each) for each in imports))
    pattern = re.compile(
        rf"(?:^|[\s\"'=:,\[(])((?:{names})(?:\.[A-Za-z_]\w*)+(?::[A-Za-z_][\w.]*)?"
        rf"|(?:{names}):[A-Za-z_][\w.]*)(?=$|[\s\"',\])#])"
    )
    found: list[Use] = []
    for path in sorted(files.paths):
        if path.endswith(_SUFFIXES) and not _LOCKS.search(path):
            found += _in_file(path, files.text(path) or "", pattern)
    return found


def _in_file(path: str, text: str, pattern: re.Pattern[str]) -> Iterator[Use]:
    for number, row in enumerate(text.splitlines(), 1):
        # Headers of tables name tools, and very long lines are data.
        if len(row) > _LONGEST_LINE or row.lstrip().startswith(("#", "[")):
            continue
        for each in pattern.finditer(row):
            parts = tuple(each[1].replace(":", ".").split("."))
            # "package.py" or "package.com" is a file or a host, not a dotted name.
            if parts[-1] not in _FILES:
                yield Use("string", parts, path, number, row.strip()[:110])


_METHODS = frozenset({"get", "post", "put", "delete", "patch", "head", "options"})
_OTHERS = frozenset({"request", "stream", "urlopen", "Request", "send", "fetch", "urljoin"})
# `https://host/v1/models?limit=1`, `{}/v1/models/{}`, or the path alone.
_PATH = re.compile(r"^(?:https?://[^/\s]+|\{\})?(/[A-Za-z][\w\-./{}:]*)(?:\?\S*)?$")


def requests_in(code: Code) -> list[Use]:
    """Return the paths of requests, with their method where it is the call's name."""
    found: list[Use] = []
    nodes = list(ast.walk(code.source.tree))
    # `@app.get("/x")` serves a route of the tree's own and asks for none.
    served = {id(mark) for each in nodes for mark in getattr(each, "decorator_list", ())}
    for node in nodes:
        if not isinstance(node, ast.Call) or not node.args or id(node) in served:
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        name = node.func.id if isinstance(node.func, ast.Name) else name
        if name not in _METHODS and name not in _OTHERS:
            continue
        method = name.upper() if name in _METHODS else "ANY"
        # request("GET", url) has the path second.
        for each in node.args[:2]:
            path = _path(each)
            if path:
                detail = f"{name}({ast.unparse(each)})"[:110]
                found.append(Use("endpoint", (method, path), code.source.path, each.lineno, detail))
    return found


def _path(node: ast.expr) -> str:
    """Return the path in a text or f-string, with ``{}`` for what is filled in; "" for none."""
    # In `base + "/v1/models"` the path is the right side.
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        node = node.right
    text = text_of(node) or ""
    # A computed host becomes one placeholder, as _PATH allows only one before the path.
    text = re.sub(r"^https?://\{\}(?::\{\}|:\d+)?", "{}", text)
    found = _PATH.match(text)
    return found[1].rstrip("/") if found else ""
