"""Templates that attack: through the real command, each is stopped and the tree is untouched."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from scaffold.cli.main import main

KIND = """
schema = 1
version = 1
title = "Loss"
help = "Adds a loss."
[style]
default = "plain"
[place]
source = "losses/{key}.txt"
[[registry]]
shape = "text"
file = "losses.txt"
key = "{key}"
"""
STYLE = """
schema = 1
version = 1
title = "Plain"
help = "A plain loss."
[answers.note]
type = "str"
default = "nothing"
help = "Free text."
[[files]]
from = "loss.jinja"
to = "{source}"
"""
CONFIG = '[tool.scaffold]\nschema = 1\npackage = "losses"\n'


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Makes a target with a kind of its own, beside a secret that it may not read."""
    root = tmp_path / "target"
    style = root / ".scaffold/templates/loss/plain"
    style.mkdir(parents=True)
    (style.parent / "kind.toml").write_text(KIND)
    (style / "template.toml").write_text(STYLE)
    (style / "loss.jinja").write_text("{{ key }}\n")
    (root / "pyproject.toml").write_text(CONFIG)
    (root / "losses.txt").write_text("mean\n")
    (tmp_path / "secret.jinja").write_text("the secret\n")
    monkeypatch.chdir(root)
    return root


def tree(root: Path) -> dict[str, bytes | str]:
    """Returns all that is there, beside the target too."""
    paths = sorted(root.parent.rglob("*"))
    return {
        str(path): os.readlink(path) if path.is_symlink() else path.read_bytes()
        for path in paths
        if path.is_symlink() or path.is_file()
    }


def run(*argv: str) -> tuple[int, dict[str, Any]]:
    result = CliRunner().invoke(main, [*argv, "--json"])
    return result.exit_code, json.loads(result.stdout)


def refused(target: Path, *codes: str, argv: tuple[str, ...] = ()) -> str:
    """Runs the add, which has to be refused without a trace; returns the message."""
    before = tree(target)
    status, report = run("add", "loss", "sums", *argv)
    assert (status, report["error"]["code"]) in [(1, code) for code in codes], report["error"]
    assert tree(target) == before
    assert "the secret" not in json.dumps(report)
    return report["error"]["message"]


def test_the_template_itself_is_sound(target: Path):
    status, report = run("add", "loss", "sums")
    assert (status, report["error"]) == (0, None)
    assert (target / "losses/sums.txt").read_text() == "sums\n"
    assert (target / "losses.txt").read_text() == "mean\nsums\n"


REACHING = [
    "{{ ''.__class__ }}",
    "{{ ''['__class__'] }}",
    "{{ ''['__cla' ~ 'ss__'] }}",
    "{{ key|attr('__class__') }}",
    "{{ (key|list).__class__.__mro__[1].__subclasses__() }}",
    "{{ cycler.__init__.__globals__.os.system('touch hacked') }}",
    "{{ lipsum.__globals__ }}",
    "{{ joiner.__init__.__globals__ }}",
    "{{ namespace() }}",
    "{{ self.__init__.__globals__ }}",
    "{{ self._TemplateReference__context }}",
    "{{ self.environment }}",
    "{% import 'os' as os %}{{ os.system('touch hacked') }}",
    "{% from 'os' import system %}",
    "{{ url_for.__globals__ }}",
    "{{ '{0.__class__}'.format(key) }}",
    "{{ '{0.__class__.__mro__}'.format_map({'0': key}) }}",
    "{{ ('%s' % key) }}",
    "{% macro m() %}x{% endmacro %}{{ m.__call__.__globals__ }}",
    "{% macro m() %}x{% endmacro %}{{ m._func }}",
    "{% for x in styles %}{{ loop._iterator }}{% endfor %}",
    "{% for x in styles %}{{ loop.__class__ }}{% endfor %}",
    "{{ styles.append('x') }}",
    "{{ {}.update({1: 2}) }}",
    "{{ ''.join.__self__ }}",
    "{{ key.encode() }}",
    "{{ [key]|map(attribute='__class__')|list }}",
    "{{ [key]|sort(attribute='__class__.__name__') }}",
    "{{ [key]|map('attr', '__class__')|list }}",
    "{% include '../secret.jinja' %}",
    "{% include '../../../../secret.jinja' %}",
    "{% include '/etc/passwd' %}",
    "{% extends '/etc/passwd' %}",
    "{% extends 'plain/template.toml' %}",
    "{{ note }}",
    "{{ note ~ '' }}",
    "{{ '' + note }}",
    "{{ [note]|join }}",
    "{{ 'x'|replace('x', note) }}",
]

GREEDY = [
    "{{ 'a' * 10**9 }}",
    "{{ 10**9 * 'a' }}",
    "{{ ('a' * 5000000) * 1000 }}",
    "{{ [1] * 10**9 }}",
    "{{ 10 ** (10 ** 10) }}",
    "{{ (10 ** 200) ** 2 ** 20 }}",
    "{{ '%1000000000d' % 1 }}",
    "{{ '{:>1000000000}'.format(1) }}",
    "{{ 'a'.ljust(1000000000) }}",
    "{{ 'a'.zfill(1000000000) }}",
    "{{ '\\t'.expandtabs(1000000000) }}",
    "{{ 'a'|center(1000000000) }}",
    "{{ 'a'|indent(1000000000, true) }}",
    "{{ 'a'|format(1) }}",
    "{{ [1]|batch(1000000000, 'x')|list }}",
    "{{ range(10**9) }}",
    "{% for i in range(10**9) %}{% endfor %}",
    "{% set s = 'ab' * 1000 %}" + "{% set s = s ~ s %}" * 40,
    "{% set s = 'ab' * 1000 %}" + "{% set s = s + s %}" * 40,
    "{% set s = 'ab' * 1000 %}" + "{% set s = s|replace('a', s) %}" * 9,
    "{% set s = 'ab' * 1000 %}" + "{% set s = [s, s]|join %}" * 40,
    "{% set s %}ab{% endset %}" + "{% set s %}{{ s }}{{ s }}{% endset %}" * 40,
    "{% set s = 'a' * 3000 %}{% for a in s %}{% for b in s %}{% endfor %}{% endfor %}",
    "{% for a in 'a' * 9000 %}{% for b in 'a' * 9000 if a %}{{ b }}{% endfor %}{% endfor %}",
    "{% set s = 'ab' * 99999 %}{% for a in s %}{{ s.count('b') }}{% endfor %}",
    "{% set s = 'ab' * 99999 %}{% for a in s %}{{ s|sort|first }}{% endfor %}",
    "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "{% include 'plain/loss.jinja' %}",
    "{% for x in styles recursive %}{{ loop(styles) }}{% endfor %}",
    "{% set l = [1] * 1000 %}" + "{% set l = l + l %}" * 40,
    "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
    "{{ " + "-" * 5000 + "1 }}",
    "{{ 1.5|round(10**9, 'ceil') }}",
    "{{ 9 ** (9 ** 9) }}",
]


@pytest.mark.parametrize("text", REACHING)
def test_a_template_that_reaches_out_is_stopped(target: Path, text: str):
    (target / ".scaffold/templates/loss/plain/loss.jinja").write_text(text)
    refused(target, "template_invalid")


@pytest.mark.parametrize("text", GREEDY, ids=[text[:60] for text in GREEDY])
def test_a_template_that_takes_time_or_memory_without_end_is_stopped(target: Path, text: str):
    (target / ".scaffold/templates/loss/plain/loss.jinja").write_text(text)
    refused(target, "template_invalid")


@pytest.mark.parametrize(
    ("before", "after", "codes"),
    [
        ('to = "{source}"', 'to = "../hacked"', ("outside_target",)),
        ('to = "{source}"', 'to = "/tmp/hacked"', ("outside_target",)),
        ('to = "{source}"', 'to = "C:\\\\hacked"', ("outside_target",)),
        ('to = "{source}"', 'to = "{note}"', ("outside_target",)),
        ('to = "{source}"', 'to = ".git/hooks/pre-commit"', ("outside_target",)),
        ('to = "{source}"', 'to = ".scaffold/templates/loss/kind.toml"', ("outside_target",)),
        ('to = "{source}"', 'to = "linked/hacked.txt"', ("outside_target",)),
        ('from = "loss.jinja"', 'from = "../../../../../secret.jinja"', ("template_invalid",)),
        ('from = "loss.jinja"', 'from = "/etc/passwd"', ("template_invalid",)),
        ('from = "loss.jinja"', 'from = "linked.jinja"', ("template_invalid",)),
        ('from = "loss.jinja"', 'from = "linked/secret.jinja"', ("template_invalid",)),
        ('to = "{source}"', 'to = "{unknown}"', ("template_invalid",)),
        ("version = 1", "version = 1\nexec = 'x'", ("template_invalid",)),
    ],
)
def test_a_manifest_that_leads_out_is_stopped(
    target: Path, before: str, after: str, codes: tuple[str, ...]
):
    style = target / ".scaffold/templates/loss/plain"
    (style / "template.toml").write_text(STYLE.replace(before, after, 1))
    (style / "linked.jinja").symlink_to(target.parent / "secret.jinja")
    (style / "linked").symlink_to(target.parent)
    (target / "linked").symlink_to(target.parent)
    refused(target, *codes, argv=("--note", "../hacked"))


@pytest.mark.parametrize(
    ("before", "after", "codes"),
    [
        ('file = "losses.txt"', 'file = "../outside.txt"', ("outside_target",)),
        ('file = "losses.txt"', 'file = "linked.txt"', ("outside_target",)),
        ('file = "losses.txt"', 'file = ".git/config"', ("outside_target",)),
        ('source = "losses/{key}.txt"', 'source = "../{key}.txt"', ("outside_target",)),
        ('shape = "text"', 'shape = "exec"', ("registry_computed", "template_invalid")),
    ],
)
def test_a_kind_that_leads_out_is_stopped(
    target: Path, before: str, after: str, codes: tuple[str, ...]
):
    (target.parent / "outside.txt").write_text("mean\n")
    (target / "linked.txt").symlink_to(target.parent / "outside.txt")
    (target / ".scaffold/templates/loss/kind.toml").write_text(KIND.replace(before, after, 1))
    refused(target, *codes)


def test_a_kind_that_is_a_link_is_none(target: Path):
    kind = target / ".scaffold/templates/loss"
    kind.rename(target.parent / "elsewhere")
    kind.symlink_to(target.parent / "elsewhere")
    status, report = run("add", "loss", "sums")
    assert (status, report["error"]["code"]) == (2, "usage")


@pytest.mark.parametrize(
    "broken", ["schema = ", "schema = 1", KIND.replace("[place]", "[plaice]"), "\0", "\xff" * 9]
)
def test_a_wrong_kind_stops_no_other_and_says_what_is_wrong(target: Path, broken: str):
    other = target / ".scaffold/templates/bad/plain"
    other.mkdir(parents=True)
    (other.parent / "kind.toml").write_text(broken, encoding="latin-1")
    (other / "template.toml").write_text(STYLE)
    before = tree(target)
    status, report = run("add", "bad", "sums")
    assert (status, report["error"]["code"]) == (1, "template_invalid")
    assert "bad/kind.toml" in report["error"]["message"]
    assert tree(target) == before
    status, report = run("list")
    assert status == 0
    assert any("bad/kind.toml" in warning for warning in report["warnings"])
    assert run("target")[0] == 0
    assert run("add", "loss", "sums")[0] == 0
    assert run("status")[0] == 0
    assert run("remove", "sums")[0] == 0
