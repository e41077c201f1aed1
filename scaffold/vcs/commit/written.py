"""The form of commit messages as a repository writes it down for other tools and for people."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

from scaffold.vcs.commit.conventional import DEFAULT_RULES, Rules

# What `@commitlint/config-conventional` sets, in the terms of `Rules`.
_COMMITLINT = Rules(
    ("build", "chore", "ci", "docs", "feat", "fix", "perf", "refactor", "revert", "style", "test"),
    max_subject=100,
)
# What commitizen's `cz_conventional_commits` accepts.
_COMMITIZEN = (
    "bump", "build", "ci", "docs", "feat", "fix", "perf", "refactor", "style", "test", "chore",
    "revert",
)  # fmt: skip
_LINT_FILES = (
    ".commitlintrc", ".commitlintrc.json", ".commitlintrc.yaml", ".commitlintrc.yml",
    ".commitlintrc.js", ".commitlintrc.cjs", ".commitlintrc.mjs", ".commitlintrc.ts",
    "commitlint.config.js", "commitlint.config.cjs", "commitlint.config.mjs",
    "commitlint.config.ts",
)  # fmt: skip
_PAGES = (
    "CONTRIBUTING.md", ".github/CONTRIBUTING.md", "docs/CONTRIBUTING.md", "CONTRIBUTING.rst",
    "AGENTS.md", "CLAUDE.md",
)  # fmt: skip
_SKILLS = (".agents/skills", ".claude/skills", ".github/skills", "skills")
_MAX_BYTES = 1_000_000
# `'type-enum': [2, 'always', ['a', 'b']]` and `"header-max-length": [2, "always", 120]` in a
# program, of which only literals are read.
_ROW = re.compile(r"""['"](?P<rule>[a-z-]+)['"]\s*:\s*(?:\[\s*(?P<level>2|\w+\.Error)\b(?:\s*,\s*
    ['"]always['"]\s*,\s*(?:(?P<limit>\d+)|\[(?P<words>[^\]]*)\]))?)?""", re.VERBOSE)  # fmt: skip
_WORD = re.compile(r"""(?P<quote>['"])(?P<word>[^'"]+)(?P=quote)""")
_ASKS = re.compile(r"conventional[ -]commits?\b|conventionalcommits\.org", re.IGNORECASE)
# Commas and comments, which stand between the words of a list.
_BETWEEN = re.compile(r"[\s,]|//[^\n]*")
# A sentence ends with its paragraph or its item of a list, too.
_SENTENCE_END = re.compile(r"(?<=[.!?])\s|\n\s*\n|\n\s*[-*+#]")
# What RFC 2119 calls recommended or optional is not asked for, and nor is what is not done.
_LEAVES_OPEN = re.compile(
    r"\b((?:when|where|wherever|whenever|if) "
    r"(?:appropriate|possible|applicable|reasonable|(?:it|this|that) makes sense)"
    r"|optional(?:ly)?|not (?:required|mandatory)|recommended|encouraged?|prefer(?:red|ably)?"
    r"|(?:may|can|could|might)(?: \w+)? (?:used?|follow(?:ed)?|write|written|conventional)"
    r"|try to|consider|feel free)\b"
    rf"|(?:\b(?:not?|never|without|instead of)|n['\u2019]t)\b[^,;:]*?(?:{_ASKS.pattern})"
    rf"|(?:{_ASKS.pattern})[^,;:]*(?:\b(?:not|never)|n['\u2019]t)\b",
    re.IGNORECASE,
)
_TITLES = re.compile(r"\b(?:PR|MR|(?:pull|merge)[ -]request)s?\b", re.IGNORECASE)
_MESSAGES = re.compile(r"\b(?:commits?|messages?)\b", re.IGNORECASE)
_FIELDS = {
    "type-enum": "types", "scope-enum": "scopes", "header-max-length": "max_subject",
    "body-max-line-length": "max_body",
}  # fmt: skip
_PROBLEMS = {
    "type-enum": "type", "header-max-length": "subject-length", "type-empty": "form",
    "body-max-line-length": "body-width", "body-leading-blank": "body-blank",
    "subject-full-stop": "subject-period", "subject-empty": "subject-empty",
}  # fmt: skip
"""What commitlint leaves open where a rule is off or warns, or has a value that is not read."""


class Written(NamedTuple):
    """Rules that a file of the repository sets."""

    path: str
    rules: Rules


def written_rules(root: Path) -> Written | None:
    """Return what commitlint or commitizen is set to; None without them, or where neither is read.

    A configuration that is a program is read for its literals alone; it is never run.
    """
    for path, text in _texts(root, (*_LINT_FILES, "package.json")):
        rules = _commitlint(path, text)
        if rules is not None:
            return Written(path, rules)
    for path, text in _texts(root, ("pyproject.toml", ".cz.toml", "cz.toml")):
        rules = _commitizen(text)
        if rules is not None:
            return Written(path, rules)
    return None


def page_that_asks(root: Path) -> str | None:
    """Return the page for contributors or agents that asks for Conventional Commits, or None."""
    skills = sorted(
        path.relative_to(root).as_posix()
        for folder in _SKILLS
        for path in (root / folder).glob("*commit*/SKILL.md")
    )
    found = _texts(root, (*_PAGES, *skills))
    return next((path for path, text in found if _asks(text)), None)


def _asks(page: str) -> bool:
    sentences = (" ".join(each.split()) for each in _SENTENCE_END.split(page))
    return any(_demands(each) for each in sentences if _ASKS.search(each))


def _demands(sentence: str) -> bool:
    # Of a pull request's title alone the messages of its commits need not have the form.
    is_of_titles = _TITLES.search(sentence) and not _MESSAGES.search(_ASKS.sub("", sentence))
    return not (is_of_titles or _LEAVES_OPEN.search(sentence))


def _texts(root: Path, paths: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for path in paths:
        file = root / path
        try:
            if file.is_file() and file.stat().st_size <= _MAX_BYTES:
                yield path, file.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError):
            continue


def _commitlint(path: str, text: str) -> Rules | None:
    if path.endswith(("js", "cjs", "mjs", "ts")):
        return _with_rules(list(_literal_rules(text)), text)
    import yaml  # the hook runs at every commit, and few repositories have such a file

    try:
        # YAML reads JSON too, which the file without a suffix may be.
        data = json.loads(text) if path == "package.json" else yaml.safe_load(text)
    except (ValueError, yaml.YAMLError, RecursionError):
        return None
    table = _mapping(_mapping(data).get("commitlint")) if path == "package.json" else _mapping(data)
    if not table:
        return None
    return _with_rules(list(_plain_rules(_mapping(table.get("rules")))), str(table.get("extends")))


def _plain_rules(table: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    for name, row in table.items():
        parts = cast("list[Any]", row) if isinstance(row, list) else []
        # `[2, "always", VALUE]`; level 0 is off, and level 1 warns.
        is_error = parts[:1] == [2]
        yield name, parts[2] if is_error and len(parts) == 3 and parts[1] == "always" else is_error


def _literal_rules(text: str) -> Iterator[tuple[str, object]]:
    for match in _ROW.finditer(text):
        words = match["words"]
        # A name or a spread between the words may bring more of them.
        if words is not None and not _BETWEEN.sub("", _WORD.sub("", words)):
            yield match["rule"], [each["word"] for each in _WORD.finditer(words)]
        else:
            limit = match["limit"]
            yield match["rule"], int(limit) if limit else match["level"] is not None


def _with_rules(rows: list[tuple[str, object]], extends: str) -> Rules | None:
    """Return rules with those of a configuration; None where it asks for no form of the header."""
    is_conventional = "conventional" in extends
    if not is_conventional and not any(name == "type-enum" and value for name, value in rows):
        return None
    rules = _COMMITLINT
    for name, value in rows:
        field, unasked = _FIELDS.get(name), rules.unasked
        if field is not None and isinstance(value, int) and not isinstance(value, bool):
            rules = rules._replace(**{field: value})
        elif field is not None and isinstance(value, list) and value:
            rules = rules._replace(**{field: tuple(map(str, cast("list[Any]", value)))})
        elif name in _PROBLEMS and (field is not None or value is False):
            rules = rules._replace(unasked=unasked | {_PROBLEMS[name]})
    return rules


def _commitizen(text: str) -> Rules | None:
    try:
        table = _mapping(_mapping(tomllib.loads(text).get("tool")).get("commitizen"))
    except (tomllib.TOMLDecodeError, RecursionError):
        return None
    if not table:
        return None
    own = _mapping(table.get("customize")).get("schema_pattern")
    limit = table.get("message_length_limit")
    length = limit if isinstance(limit, int) and limit else DEFAULT_RULES.max_subject
    rules = Rules(_COMMITIZEN, max_subject=length)
    if not isinstance(own, str):
        # Any other plugin is a program, whose form is not known.
        name = table.get("name", "cz_conventional_commits")
        return rules if name == "cz_conventional_commits" else None
    try:
        re.compile(own)
    except re.error:
        return None
    return rules._replace(pattern=own)


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}
