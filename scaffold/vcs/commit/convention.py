"""The convention of a repository's commit messages: what it writes down and what its history keeps.

A rule of form that more than a tenth of the newest messages break is not the repository's.
"""

from __future__ import annotations

import json
import math
import re
import tomllib
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from scaffold.analysis.files.git import git_output
from scaffold.vcs.commit.conventional import (
    DEFAULT_RULES,
    HEADER_RULES,
    MAX_SUBJECT,
    PROBLEMS,
    TYPES,
    Rules,
    check_message,
    read_header,
    subject_length,
)
from scaffold.vcs.commit.settings import CommitSettings

DEPTH = 300
"""The newest messages that are looked at; merges and those of bots are not among them."""

ENOUGH = 20
"""With fewer messages a history shows no form."""

KEPT = 0.9
"""The share of messages that keep a rule of the repository."""

FITS = 0.98
"""The share of first lines that are no longer than a limit that no file sets."""

# Faults of a draft or of bytes are none of form: a history that has them has no convention of them.
_NEVER_UNASKED = frozenset({"draft", "empty", "encoding"})

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
# Commas and comments, which are between the words of a list.
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


class Convention(NamedTuple):
    """What a repository asks of its messages, and how that is known."""

    rules: Rules
    evidence: tuple[str, ...]
    examples: tuple[str, ...] = ()
    """Its newest subjects."""


def learn_convention(root: Path, settings: CommitSettings, start: str = "HEAD") -> Convention:
    """Return the convention of a repository.

    The settings of this tool come first, then those of commitlint and commitizen, then the history
    before a commit, then a page that asks for Conventional Commits. Without any of them, messages
    are Conventional Commits.
    """
    messages = _messages(root, start)
    examples = tuple(each.partition("\n")[0] for each in messages[:3])
    if settings.is_set:
        return Convention(settings.rules, ("set in [tool.scaffold.commits]",), examples)
    written = written_rules(root)
    page = None if written else page_that_asks(root)
    asked = f"{page} asks for Conventional Commits"
    if len(messages) < ENOUGH:
        rules = written.rules if written else DEFAULT_RULES
        where = written.path if written else asked if page else "the default: Conventional Commits"
        return Convention(rules, (where,), examples)
    headers = [(each, read_header(each.partition("\n")[0])) for each in messages]
    # A word in capitals before a colon is a label, such as the name of a product.
    used = Counter(h.type for each, h in headers if h is not None and each.startswith(h.type))
    count = f"{used.total()} of the newest {len(messages)} subjects are Conventional Commits"
    if written:
        rules, evidence = written.rules, [written.path]
    else:
        # A word of the history is a type of the repository, unless it is a slip.
        own = (word for word, times in used.most_common() if times > 1)
        limit, told = _longest(messages)
        rules = Rules(tuple(dict.fromkeys((*TYPES, *own))), max_subject=limit)
        evidence = [count, *told]
        if page:
            evidence.append(asked)
        # A page and half of the history are as good as nearly all of it.
        if used.total() < (0.5 if page else KEPT) * len(messages):
            rules = rules._replace(is_conventional=False)
            evidence.append("so the form is not asked for")
    # Areas of the code may be where a type does: a history full of new ones has no list of them.
    asked_always = HEADER_RULES if written else HEADER_RULES - {"type"}
    return _kept(rules, messages, evidence, examples, _NEVER_UNASKED | asked_always)


def _longest(messages: Sequence[str]) -> tuple[int, list[str]]:
    """Return the longest first line that a history keeps to, with the evidence for it."""
    lengths = sorted(subject_length(each.partition("\n")[0]) for each in messages)
    limit = lengths[math.ceil(FITS * len(lengths)) - 1]
    # Where many are longer than usual, length is no concern of the repository.
    if limit <= MAX_SUBJECT or lengths[int(KEPT * len(lengths))] > MAX_SUBJECT:
        return MAX_SUBJECT, []
    count = bisect_right(lengths, limit)
    return limit, [f"{count} of {len(lengths)} have at most {limit} characters"]


def _kept(
    rules: Rules,
    messages: Sequence[str],
    evidence: list[str],
    examples: tuple[str, ...],
    asked_always: frozenset[str],
) -> Convention:
    """Leave out the rules that the history does not keep, but for those that are asked always."""
    broken = Counter(
        rule
        for message in messages
        for rule in {each.rule for each in check_message(message, None, rules)}
    )
    limit = (1 - KEPT) * len(messages)
    unasked = {rule for rule in PROBLEMS if broken[rule] > limit}
    unasked -= asked_always
    if unasked:
        counts = ", ".join(f"{rule} ({broken[rule]} break it)" for rule in sorted(unasked))
        evidence = [*evidence, f"not asked for: {counts}"]
    rules = rules._replace(unasked=rules.unasked | unasked)
    return Convention(rules, tuple(evidence), examples)


def _messages(root: Path, start: str) -> list[str]:
    """Return the newest messages that people wrote, comments and merges apart."""
    options = ("--no-merges", f"--max-count={DEPTH}", "-z", "--format=%an%n%B")
    output = git_output(root, "log", *options, start, "--") or b""
    rows = (each.partition("\n") for each in output.decode("utf-8", "replace").split("\0"))
    return [message.strip() for name, _, message in rows if not name.endswith("[bot]") and message]


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
    return next((path for path, text in found if any(_demands(text))), None)


def _demands(page: str) -> Iterator[bool]:
    for sentence in (" ".join(each.split()) for each in _SENTENCE_END.split(page)):
        if _ASKS.search(sentence):
            # Of a pull request's title alone the messages of its commits need not have the form.
            is_of_titles = _TITLES.search(sentence) and not _MESSAGES.search(
                _ASKS.sub("", sentence)
            )
            yield not (is_of_titles or _LEAVES_OPEN.search(sentence))


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
