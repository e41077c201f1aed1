"""Dotted keys of the configuration: ``actor.optimizer.lr``, in text, overrides and YAML."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from scaffold.analysis.lazy_re import lazy_re
from scaffold.analysis.repository import Repository
from scaffold.findings import Fix
from scaffold.skills.check.claim import Claim, Verdict
from scaffold.skills.check.claims.command_words import find_commands
from scaffold.skills.check.claims.kind import Kind
from scaffold.skills.check.context import block_silence, is_placeholder
from scaffold.skills.check.documents import Document
from scaffold.skills.check.markdown import Block
from scaffold.skills.check.sentence import sentence_around

_KEY = r"(?P<key>[a-z_]\w*(?:\.[a-z_]\w*)+)"
_IN_TEXT = lazy_re(rf"{_KEY}(?P<value>\s*[=:]\s*\S.*)?")
_OVERRIDE = lazy_re(rf"(?:--)?{_KEY}=.*", re.DOTALL)
_FILE_END = lazy_re(
    r"\.(?:py|md|toml|ya?ml|json|sh|txt|js|tsx?|cfg|ini|lock|html|css|env|com|org|io|ai|dev|net|log"
    r"|rs|go|java|rb|cpp|h|png|svg|csv|jsonl|sql|xml|conf|service)$"
)
_OTHERWISE = lazy_re(
    r"\b(?:no longer|not|never|deprecat\w*|remov\w*|renam\w*|old|legacy|instead|formerly|previously"
    r"|was|were|add(?:s|ed|ing)?|new|introduc\w*|your|would|could|missing|unknown|invalid|typo|if"
    r"|upstream|import\w*|call\w*|method\w*|function|attribute|module|package|class)\b",
    re.IGNORECASE,
)


# Without a value a dotted name is a key only where the text speaks of keys.
_ABOUT_KEYS = lazy_re(
    r"\b(?:config\w*|settings?|overrid\w*|ya?ml|keys?|options?|hydra|defaults?|set|fields?)\b",
    re.IGNORECASE,
)
# Blocks of YAML that begin so are of other programs, whatever stands in them.
_FOREIGN = frozenset(
    {"on", "jobs", "services", "apiVersion", "repos", "steps", "stages", "openapi", "swagger"}
    | {"nav", "site_name", "channels", "runs", "hooks", "plugins", "allowed-tools", "description"}
)


class Key(NamedTuple):
    """A key as a text gives it.

    Args:
        key: The key.
        is_override: Whether a value is given with it.
        silent: Why it claims nothing, or empty.
        beside: All keys of the same block of YAML.
    """

    key: str
    is_override: bool
    silent: str
    beside: tuple[str, ...] = ()


def find_config_keys(document: Document) -> Iterator[Claim]:
    """Yield the dotted names that may be keys, in documents about their own repository."""
    if not document.is_about_here:
        return
    for span in document.markdown.codes:
        found = _IN_TEXT.fullmatch(span.text)
        if found and _is_key(found["key"]):
            words = " ".join(sentence_around(span))
            about = " ".join([words, span.block.info, *span.block.headings[-1:]])
            if not found["value"] and not _ABOUT_KEYS.search(about):
                continue
            silent = ""
            if _OTHERWISE.search(words):
                silent = "the text may say that it is not there, or be about code"
            data = Key(found["key"], bool(found["value"]), silent)
            yield Claim("config key", found["key"], span.line, span.column, data)
    for command in find_commands(document):
        for word in command.words:
            found = _OVERRIDE.fullmatch(word.text)
            if found and _is_key(found["key"]):
                silent = command.silent if command.is_wrong else ""
                data = Key(found["key"], True, silent)
                line = command.line_of(word)
                yield Claim("config key", found["key"], line, word.column + 1, data)
    for fence in document.markdown.fences:
        if fence.info.split()[:1] in (["yaml"], ["yml"]):
            yield from _in_yaml(fence)


def _is_key(text: str) -> bool:
    return not _FILE_END.search(text) and not is_placeholder(text)


def _in_yaml(fence: Block) -> Iterator[Claim]:
    rows = [(key, line) for key, line in _yaml_keys(fence.text) if not is_placeholder(key)]
    every = tuple(key for key, _ in rows)
    if _FOREIGN & set(every):
        return
    silent = block_silence(fence) or ""
    for key, line in rows:
        if "." in key:
            yield Claim("config key", key, fence.line + line, 1, Key(key, True, silent, every))


def _yaml_keys(text: str) -> list[tuple[str, int]]:
    """Return the dotted keys of a text of YAML with their lines, from 0."""
    import yaml  # costs 25 ms: only blocks of YAML need it

    library: Any = yaml  # its stubs leave the nodes untyped
    found: list[tuple[str, int]] = []

    def walk(node: Any, lead: str, depth: int) -> None:
        if not isinstance(node, yaml.MappingNode) or depth > 8:
            return
        pairs: Any = node.value
        for name, value in pairs:
            if re.fullmatch(r"[a-z_]\w*", str(name.value)):
                key = f"{lead}{name.value}"
                found.append((key, int(name.start_mark.line)))
                walk(value, f"{key}.", depth + 1)

    try:
        walk(library.compose(text, Loader=library.SafeLoader), "", 0)
    except (yaml.YAMLError, ValueError, RecursionError):
        return []
    return found


def judge_config_key(claim: Claim, document: Document, repository: Repository) -> Verdict:
    """Judge a key: do the classes of the repository have it, part by part?"""
    key: Key = claim.data
    classes = repository.config_classes
    parts = key.key.split(".")
    if not key.is_override and parts[0] not in classes.top_keys:
        return Verdict.open("no YAML of the repository has its first part: it may be code")
    answer = classes.find(key.key)
    if answer.state == "there":
        return Verdict.holds(answer.reason)
    if answer.state == "open":
        return Verdict.open(answer.reason)
    if answer.depth < len(parts) - 1 and key.beside:
        return Verdict.open("a part above it is wrong already")
    if classes.yaml_has(key.key):
        return Verdict.open("no class has it, and a YAML file of the repository does")
    if key.beside and not _is_mostly_true(key.beside, repository):
        return Verdict.open("most of the block is no configuration of this repository")
    if key.silent:
        return Verdict.open(key.silent)
    wrong = parts[answer.depth]
    fix = Fix(claim.line, wrong, answer.near, is_safe=False) if answer.near else None
    return Verdict.fails(
        "config-key-missing",
        f"{key.key!r} is no key of the configuration",
        answer.reason,
        now=f"there is {answer.near!r}" if answer.near else "",
        fix=fix,
    )


def _is_mostly_true(keys: tuple[str, ...], repository: Repository) -> bool:
    states = [repository.config_classes.find(key).state for key in keys if "." in key]
    return states.count("there") >= max(1, states.count("missing"))


CONFIG_KEYS = Kind("config key", find_config_keys, judge_config_key)
