"""Is the text true? Its paths, links, commands, flags, keys, symbols and code are resolved."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import importlib.util
import re
import shlex
import textwrap
import typing
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import click
import pytest
import yaml

from areal.api.cli_args import GRPOConfig, SFTConfig, load_expr_config
from areal.trainer.cli import main as areal_main
from scaffold.cli.main import main as scaffold_main

ROOT = Path(__file__).parents[2]
COMMANDS: dict[str, click.Command] = {"areal": areal_main, "scaffold": scaffold_main}
SHELL = {"bash", "sh", "shell", "console"}
# A word that the reader replaces: NAME, <name>, {name}, ..., or a file that a command makes.
PLACEHOLDER = re.compile(r"<[^>]*>|\{[^}]*\}|\.\.\.|…|\bNAME\b|\bname\b")

TAUGHT = ("scraper",)
"""Kinds that a page teaches by `scaffold init`; tests/integration/scaffold runs its commands."""


def documents() -> list[Path]:
    """Returns every text that people and agents read."""
    names = ("README.md", "README.zh.md", "CONTRIBUTING.md", "areal/README.md")
    found = [ROOT / name for name in names]
    for folder in ("docs", ".agents"):
        found += sorted((ROOT / folder).rglob("*.md"))
    # The pages of rules show what is wrong on purpose; their fixtures are what is tested.
    rules = ROOT / "docs" / "en" / "rules"
    return [path for path in found if path.parent != rules]


class Block(NamedTuple):
    """Is a fenced block: its language and text."""

    language: str
    text: str


def blocks_and_prose(text: str) -> tuple[list[Block], str]:
    """Splits a document into its fenced blocks and the rest."""
    blocks: list[Block] = []

    def take(match: re.Match[str]) -> str:
        blocks.append(Block(match["language"].lower(), match["text"]))
        return ""

    fence = r"^(?P<mark>```+|~~~+)[ ]*(?P<language>[\w+-]*)[^\n]*\n(?P<text>.*?)^(?P=mark)[ ]*$"
    return blocks, re.sub(fence, take, text, flags=re.MULTILINE | re.DOTALL)


def spans(prose: str) -> list[str]:
    """Returns the inline code of a text."""
    return [span.strip() for span in re.findall(r"`([^`\n]+)`", prose)]


def shell_lines(block: Block) -> Iterator[str]:
    """Yields the commands of a shell block; in a console block only the lines behind a prompt."""
    text = block.text.replace("\\\n", " ")
    for line in text.splitlines():
        is_prompt = line.startswith("$ ")
        if is_prompt or block.language != "console":
            yield line.removeprefix("$ ").strip()


def commands_in(document: Path) -> Iterator[list[str]]:
    """Yields the argument vectors of every command that a document shows."""
    blocks, prose = blocks_and_prose(document.read_text(encoding="utf-8"))
    lines = [line for block in blocks if block.language in SHELL for line in shell_lines(block)]
    # In a table a bar is written with a backslash.
    told = (span.replace("\\|", "|") for span in spans(prose))
    lines += [span for span in told if span.split()[0] in {*COMMANDS, "make"}]
    for line in lines:
        for part in re.split(r"&&|\|\||;|\|", line):
            try:
                words = shlex.split(part, comments=True)
            except ValueError:
                pytest.fail(f"{document}: {line!r} is no shell command")
            while words and "=" in words[0]:  # VARIABLE=value in front
                words = words[1:]
            if words:
                yield words


@cache
def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))


@cache
def config_keys(cls: type) -> set[str]:
    """Returns every dotted key of a configuration, blocks included."""
    keys: set[str] = set()
    hints = typing.get_type_hints(cls)
    for field in dataclasses.fields(cls):
        keys.add(field.name)
        for kind in (hints[field.name], *typing.get_args(hints[field.name])):
            if dataclasses.is_dataclass(kind) and isinstance(kind, type):
                keys |= {f"{field.name}.{key}" for key in config_keys(kind)}
    return keys


def command_faults(words: list[str]) -> list[str]:
    """Returns what is wrong with one command line of ours; [] for those of others."""
    if words[0] == "make":
        goals = [w for w in words[1:] if not w.startswith("-") and "=" not in w]
        return [f"no make target {goal}" for goal in goals if goal not in make_targets()]
    if words[0] not in COMMANDS:
        return []
    command, path = COMMANDS[words[0]], words[0]
    rest = words[1 : words.index("--") if "--" in words else None]  # behind it stands another's
    context = click.Context(command)
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        if PLACEHOLDER.search(rest[0]) or rest[0] in ("KIND", *TAUGHT):
            return []
        found = command.get_command(context, rest[0])
        if found is None:
            return [f"{path} has no command {rest[0]}"]
        command, path, rest = found, f"{path} {rest[0]}", rest[1:]
    known = {"--help", "-h"}
    for parameter in command.get_params(context):
        known |= {*parameter.opts, *parameter.secondary_opts}
    flags = [word.split("=")[0] for word in rest if re.match(r"--?[a-z]", word)]
    faults = [f"{path} has no option {flag}" for flag in flags if flag not in known]
    if path == "areal train":
        keys = [w.split("=")[0] for w in rest if re.match(r"[a-z_.]+=", w)]
        every_key = config_keys(GRPOConfig) | config_keys(SFTConfig) | {"key"}
        faults += [f"no configuration key {key}" for key in keys if key not in every_key]
    return faults


@pytest.mark.parametrize("document", documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_every_command_exists_with_its_options(document: Path):
    faults = {shlex.join(words): command_faults(words) for words in commands_in(document)}
    assert {line: found for line, found in faults.items() if found} == {}


def test_a_new_projects_readme_shows_commands_that_exist(tmp_path: Path):
    argv = ["new", "my_rl", "--target", str(tmp_path), "--no-input"]
    with pytest.raises(SystemExit, match="0"):
        scaffold_main(argv)
    (readme,) = tmp_path.rglob("README.md")
    shown = list(commands_in(readme))
    assert ["areal", "train", "-c", "grpo.yaml"] in shown
    assert [fault for words in shown for fault in command_faults(words)] == []


def path_faults(document: Path) -> list[str]:
    """Returns the paths and links of a document that lead nowhere."""
    _, prose = blocks_and_prose(document.read_text(encoding="utf-8"))
    faults = []
    for link in re.findall(r"\]\(([^)\s]+)\)", prose):
        target = link.split("#")[0]
        if target and not re.match(r"[a-z]+:", target) and not (document.parent / target).exists():
            faults.append(f"link {link}")
    # What documents say of .scaffold they say of any target, and not of this repository's own.
    top = {path.name for path in ROOT.iterdir()} - {".scaffold"}
    for span in spans(prose):
        word = span.split(":")[0].rstrip("/")
        is_path = "/" in span.rstrip("/") or span.endswith("/") or word in top
        if not is_path or " " in span or PLACEHOLDER.search(span) or word.split("/")[0] not in top:
            continue
        if not list(ROOT.glob(word)):
            faults.append(f"path {span}")
    return faults


@pytest.mark.parametrize("document", documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_every_path_and_link_leads_somewhere(document: Path):
    assert path_faults(document) == []


def resolves(dotted: str) -> bool:
    """Return whether a dotted name is a module, or something in one."""
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        try:
            for name in parts[length:]:
                found = getattr(found, name)
        except AttributeError:
            return False
        return True
    return False


@pytest.mark.parametrize("document", documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_every_symbol_resolves(document: Path):
    _, prose = blocks_and_prose(document.read_text(encoding="utf-8"))
    names = {
        span.replace(":", ".")
        for span in spans(prose)
        if re.fullmatch(r"(areal|scaffold)(\.\w+)+(:\w+)?", span)
    }
    assert [name for name in sorted(names) if not resolves(name)] == []


def import_faults(code: str) -> list[str]:
    """Returns the imports from our packages that a code block gets wrong."""
    faults = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        own = {"areal", "scaffold"}
        faults += [n for n in names if n.split(".")[0] in own and not resolves(n)]
    return faults


@pytest.mark.parametrize("document", documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_code_blocks_parse_and_their_imports_resolve(document: Path):
    blocks, _ = blocks_and_prose(document.read_text(encoding="utf-8"))
    for block in blocks:
        if block.language in ("python", "py"):
            assert import_faults(textwrap.dedent(block.text)) == []  # a part of a function, too


@pytest.mark.parametrize("document", documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_configurations_load(document: Path, tmp_path: Path):
    blocks, _ = blocks_and_prose(document.read_text(encoding="utf-8"))
    for block in blocks:
        if block.language not in ("yaml", "yml"):
            continue
        content = yaml.safe_load(block.text)
        if "experiment_name" in content:
            file = tmp_path / "config.yaml"
            file.write_text(block.text, encoding="utf-8")
            load_expr_config(
                ["--config", str(file)], GRPOConfig if "gconfig" in content else SFTConfig
            )


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        ("make nothing", "no make target nothing"),
        ("scaffold debug run --nothing -- torchrun", "scaffold debug run has no option --nothing"),
        ("scaffold add-rewards x", "scaffold has no command add-rewards"),
        ("scaffold add-reward x --styles exact", "scaffold add-reward has no option --styles"),
        ("areal trian", "areal has no command trian"),
        ("areal train -c x.yaml actor.lrr=1", "no configuration key actor.lrr"),
    ],
)
def test_a_false_claim_is_found(words: str, fault: str):
    assert command_faults(words.split()) == [fault]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("see [this](nowhere.md)", "link nowhere.md"),
        ("see `areal/nowhere.py`", "path areal/nowhere.py"),
        ("see `tests/*/nothing_*.py`", "path tests/*/nothing_*.py"),
    ],
)
def test_a_false_path_is_found(tmp_path: Path, text: str, fault: str):
    document = tmp_path / "document.md"
    document.write_text(text)
    assert path_faults(document) == [fault]


def test_a_false_symbol_and_a_false_import_are_found():
    assert not resolves("areal.api.Nothing")
    assert not resolves("areal.nothing")
    assert import_faults("from areal.api import Nothing\nimport json") == ["areal.api.Nothing"]


def test_fences_spans_and_prompts_are_read():
    text = "a `make test`\n```console\n$ scaffold list\nsome output --flag\n```\n`x`"
    blocks, prose = blocks_and_prose(text)
    assert blocks == [Block("console", "$ scaffold list\nsome output --flag\n")]
    assert spans(prose) == ["make test", "x"]
    assert list(shell_lines(blocks[0])) == ["scaffold list"]
