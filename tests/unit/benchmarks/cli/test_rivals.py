"""The templates for other generators: as each of them reads them, they give the wanted files."""

from __future__ import annotations

import sys
from pathlib import Path

import jinja2
import pytest

from benchmarks.cli.rivals import RIVALS, prepare
from benchmarks.cli.scenes import Stage

NAME = "probe000"
WANTED = {
    f"lib/{NAME}.py": f'"""Is {NAME}."""\n\nBRACES = "{{{{ {NAME} }}}} {{% if %}} <% x %>"\n',
    f"tests/test_{NAME}.py": f"from lib.{NAME} import BRACES\n\nassert BRACES\n",
}


def templates_of(name: str, folder: Path) -> dict[str, str]:
    RIVALS[name].write_template(folder, WANTED, NAME)
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_text() for path in files}


@pytest.mark.parametrize(
    ("name", "question", "variables", "prefix", "suffix"),
    [
        ("cookiecutter", "cookiecutter.json", {"cookiecutter": {"name": "sums"}}, "sums/", ""),
        ("copier", "copier.yml", {"name": "sums"}, "", ".jinja"),
    ],
)
def test_jinja_templates_give_the_files_under_another_name(
    tmp_path: Path, name: str, question: str, variables: dict[str, object], prefix: str, suffix: str
) -> None:
    env = jinja2.Environment(keep_trailing_newline=True)
    found = templates_of(name, tmp_path)
    assert found.pop(question)
    rendered = {
        env.from_string(path).render(variables): env.from_string(text).render(variables)
        for path, text in found.items()
    }
    assert rendered == {
        f"{prefix}{path}{suffix}".replace(NAME, "sums"): text.replace(NAME, "sums")
        for path, text in WANTED.items()
    }


def test_hygen_is_told_the_place_and_keeps_its_own_marks_out(tmp_path: Path) -> None:
    found = templates_of("hygen", tmp_path)
    assert found["reward/new/0.ejs.t"] == (
        '---\nto: lib/<%= name %>.py\n---\n"""Is <%= name %>."""\n\n'
        'BRACES = "{{ <%= name %> }} {% if %} <%% x %>"\n'
    )


def test_django_takes_braces_for_text(tmp_path: Path) -> None:
    found = templates_of("django-admin startapp", tmp_path)
    text = found["lib/app_name.py-tpl"]
    assert text.startswith('{% verbatim %}"""Is {% endverbatim %}{{ app_name }}{% verbatim %}.')
    assert text.endswith("{% endverbatim %}")


@pytest.mark.network
@pytest.mark.skipif(sys.platform == "win32", reason="os.wait4 is not there")
@pytest.mark.parametrize("name", sorted(RIVALS))
def test_a_generator_can_be_installed_and_writes_the_same_files(tmp_path: Path, name: str) -> None:
    text = f'"""Is {NAME}."""\n\nBRACES = "{{{{ answer }}}} {{% if %}} {{# x #}}"\n'
    wanted = {f"lib/{NAME}.py": text, f"tests/test_{NAME}.py": f"from lib import {NAME}\n"}
    stage = Stage(tmp_path)
    scene = prepare(RIVALS[name], tmp_path / "place", wanted, NAME, stage)
    stage.run(scene.command(7), scene.folder, scene.env)
    source = RIVALS[name].made(scene.folder, "round007") / "lib" / "round007.py"
    assert source.read_text().startswith('"""Is round007."""\n')
