"""Rendering: literals that survive, imports in order, a sandbox, and nothing outside the target."""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from scaffold.errors import TemplateError
from scaffold.templating.render import (
    FreeText,
    doc_text,
    python_literal,
    render_files,
    rows_literal,
    shell_word,
    sorted_imports,
    template_variables,
    toml_literal,
)
from scaffold.templating.request import check_destination
from scaffold.templating.sandbox import Sandbox
from scaffold.templating.spec import Answer, FileRule

HOSTILE = [
    "plain",
    "",
    "a\"b'c",
    '"""',
    "'''",
    "a\nb\r\nc",
    "a\\",
    "\\N{BEL}\\x00",
    "{{ key }}{% raw %}",
    "\x00\x1b[31m\x7f",
    "\N{GRINNING FACE}\u202e\u2028",
    "${x} $(ls) `ls` %s {0}",
    "x" * 4000,
]


def render(text: str, **variables: object) -> str:
    sources = {"f.txt.jinja": text.encode(), "part.jinja": b"part of {{ key }}\n"}
    rules = [FileRule("f.txt.jinja", "f.txt", "source")]
    return render_files(rules, sources, {"package": "pkg", **variables})[0].data.decode()


def test_a_template_is_compiled_once_for_all_units(monkeypatch: pytest.MonkeyPatch):
    text = "{{ key }} of a template that no other test has"
    assert render(text, key="one").startswith("one of")

    def refuse(*_: object) -> None:
        raise AssertionError("it compiles the template again")

    monkeypatch.setattr(Sandbox, "_compile", refuse)
    assert render(text, key="two").startswith("two of")
    with pytest.raises(AssertionError, match="again"):
        render(f"{text}.", key="two")


@pytest.mark.parametrize("value", [*HOSTILE, 1, 1.5, True, False, ["a", 'b"'], []])
def test_python_literals_read_back(value: object):
    assert ast.literal_eval(python_literal(value)) == value
    assert render("{{ value | py }}", value=value) == python_literal(value)


@pytest.mark.parametrize("value", HOSTILE)
def test_hostile_text_in_a_docstring_changes_no_code(value: str):
    text = doc_text(value)
    source = f'def f():\n    """Takes "{text}".\n\n    {text}"""\n    # {text}\n    return 1\n'
    function = ast.parse(source).body[0]
    assert isinstance(function, ast.FunctionDef)
    assert len(function.body) == 2
    assert len(source.splitlines()) == 6


@pytest.mark.parametrize("value", HOSTILE)
def test_toml_literals_read_back(value: str):
    assert tomllib.loads(f"x = {toml_literal(value)}")["x"] == value


@pytest.mark.skipif(shutil.which("sh") is None, reason="no POSIX shell")
def test_shell_words_read_back():
    value = "a b'c\"d$(ls)`ls`\\"
    done = subprocess.run(
        ["sh", "-c", f"printf %s {shell_word(value)}"], capture_output=True, check=True
    )
    assert done.stdout.decode() == value
    with pytest.raises(TemplateError, match="shell word"):
        shell_word("a\nrm")


def test_free_text_is_never_output_as_it_is():
    text = FreeText("x = 1")
    with pytest.raises(TemplateError, match="py or"):
        render("{{ answer }}", answer=text)
    with pytest.raises(TemplateError, match="py or"):
        render("{{ answer or 'other' }}", answer=text)
    assert render("{{ answer | py }}", answer=text) == '"x = 1"'


def test_answers_of_free_text_are_marked():
    questions = {
        "free": Answer("free", "str", "Any."),
        "choice": Answer("choice", "str", "One.", choices=("a",)),
        "number": Answer("number", "int", "Number."),
    }
    variables = template_variables(
        {"key": "k"}, ["s"], questions, {"free": "x", "choice": "a", "number": 1}
    )
    assert isinstance(variables["free"], FreeText)
    assert type(variables["choice"]) is str
    assert variables["styles"] == ["s"]
    with pytest.raises(TemplateError, match="names are taken"):
        template_variables({"free": "k"}, [], questions, {"free": "x"})


def test_variables_includes_and_blocks_render():
    text = "{% if key %}\n{{ key }}\n{% endif %}\n{% include 'part.jinja' %}\n"
    assert render(text, key="k") == "k\npart of k\n"


@pytest.mark.parametrize(
    "text",
    [
        "{{ unknown }}",
        "{{ key.unknown.more }}",
        "{% if %}",
        "{% include '../secret.jinja' %}",
        "{% include '/etc/passwd' %}",
        "{% import 'os' as os %}",
        "{{ ''.__class__.__mro__ }}",
        "{{ key.__class__ }}",
        "{{ cycler.__init__.__globals__ }}",
        "{{ self.__init__.__globals__ }}",
        "{{ lipsum.__globals__ }}",
        "{{ 'a'.format_map }}{{ '{0.__class__}'.format(key) }}",
        "{{ range(9) }}",
        "{{ styles.append('x') }}",
        "{{ 1 // 0 }}",
    ],
)
def test_a_template_that_reaches_out_or_is_wrong_is_stopped(text: str):
    with pytest.raises(TemplateError):
        render(text, key="k", styles=["s"])


@pytest.mark.parametrize(
    "text", ["{{ '{:>9}'.format(key) }}", "{{ '{k:>9}'.format_map({'k': key}) }}"]
)
def test_a_width_cannot_be_asked_for(text: str):
    with pytest.raises(TemplateError, match="unsafe"):
        render(text, key="k")


def test_a_template_error_names_file_and_line():
    with pytest.raises(TemplateError, match=r"f\.txt\.jinja:2"):
        render("ok\n{% if %}\n")


def test_python_that_does_not_parse_is_the_template_s_fault():
    rules = [FileRule("f.py.jinja", "f.py", "source")]
    with pytest.raises(TemplateError, match="no valid Python"):
        render_files(rules, {"f.py.jinja": b"def f(:\n"}, {})


def test_files_without_the_suffix_are_copied():
    data = b"\x00\xff{{ key }}\r\n"
    assert render_files([FileRule("logo", "a/logo", "source")], {"logo": data}, {})[0].data == data


def test_a_missing_template_file_is_an_error():
    with pytest.raises(TemplateError, match="missing"):
        render_files([FileRule("gone.jinja", "f", "source")], {}, {})


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "../x.py",
        "a/../../x.py",
        "a\\b.py",
        "C:/x.py",
        "",
        "a/",
        ".git/hooks/pre-commit",
        ".GIT/config",
        "vendor/tool/.git/hooks/pre-commit",
        ".git./config",
        "other/.scaffold/made/x.toml",
        ".scaffold/made/x.toml",
        "a\nb.py",
        "a\x00b.py",
    ],
)
def test_destinations_outside_the_target_are_refused(path: str):
    with pytest.raises(TemplateError) as refusal:
        check_destination(path)
    assert refusal.value.code == "outside_target"


def test_plain_destinations_are_normalised():
    assert check_destination("a/./b.py") == "a/b.py"
    assert check_destination(".gitignore") == ".gitignore"


IMPORTS = """
from areal.api import RolloutWorkflow, AsyncRewardWrapper
import torch

from areal.api import ModelRequest
from pkg.reward.x import x_reward_fn as reward_fn
import pytest
from pkg.b10 import B, a, CONST
from pkg.b9 import z
from pkg.b9 import a_long_name as y
from pkg.b9 import X as x
import re
from __future__ import annotations
from typing import Any
import numpy as np
import pkg.reward.x as module
"""


def test_imports_come_out_in_sections():
    assert sorted_imports(IMPORTS, ["pkg"]) == (
        "from __future__ import annotations\n\n"
        "import re\nfrom typing import Any\n\n"
        "import numpy as np\nimport pytest\nimport torch\n"
        "from areal.api import AsyncRewardWrapper, ModelRequest, RolloutWorkflow\n\n"
        "import pkg.reward.x as module\n"
        "from pkg.b9 import X as x\nfrom pkg.b9 import a_long_name as y\nfrom pkg.b9 import z\n"
        "from pkg.b10 import CONST, B, a\n"
        "from pkg.reward.x import x_reward_fn as reward_fn\n"
    )


def test_a_long_import_is_broken():
    names = ", ".join(f"name_number_{n}" for n in range(10))
    text = sorted_imports(f"from pkg import {names}", [])
    assert text.startswith("from pkg import (\n    name_number_0,\n")
    assert max(map(len, text.splitlines())) <= 100


@pytest.mark.parametrize("block", ["x = 1", "from . import x", "import ("])
def test_what_is_no_import_is_refused(block: str):
    with pytest.raises(TemplateError):
        sorted_imports(block, [])


@pytest.mark.parametrize("first_party", ["pkg", "areal"])
def test_ruff_agrees_on_the_order(first_party: str, tmp_path: Path):
    ruff = Path(sys.executable).with_name("ruff")
    if not ruff.exists():
        pytest.skip("ruff is not installed")
    for module in ("api", "b9", "b10", "reward/x"):  # ruff looks for the very module
        path = tmp_path / first_party / f"{module}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (tmp_path / "f.py").write_text(sorted_imports(IMPORTS, [first_party]))
    command = [ruff, "check", "--isolated", "--select", "I", "--line-length", "100", "f.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


LONG = "A fence is thirty metres long and has a post at each end, " * 4 + "\n\nHow many\tposts?  "


@pytest.mark.parametrize("text", [LONG, "x" * 300, f"{'y' * 90} z", "'\" \\" * 40, "short"])
def test_long_texts_of_rows_are_cut_at_blanks_and_stay_what_they_are(text: str) -> None:
    rows = [{"story": text, "turns": [{"role": "user", "content": text}]}, {"list": [text]}]
    literal = rows_literal(json.dumps(rows))
    assert ast.literal_eval(literal) == rows
    words = max(map(len, text.split()))
    assert all(len(line) <= 100 or words > 80 for line in literal.splitlines())


def test_a_list_of_free_text_is_refused_and_quoted_like_one() -> None:
    questions = {"names": Answer("names", "str", "Names.", multiple=True)}
    variables = template_variables({}, (), questions, {"names": ["a", '"b']})
    rules = [FileRule("x.py.jinja", "x.py", "source")]
    for text in ("{{ names }}", "{{ names[0] }}"):
        with pytest.raises(TemplateError, match="goes through"):
            render_files(rules, {"x.py.jinja": text.encode()}, variables)
    (file,) = render_files(rules, {"x.py.jinja": b"{{ names | py }}"}, variables)
    assert ast.literal_eval(file.data.decode()) == ["a", '"b']
