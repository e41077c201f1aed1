"""Other generators, each in an environment of its own, made to write the same two files."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.cli.scenes import Scene, Stage
from benchmarks.processes import ProcessError

INSTALL_LIMIT_S = 300.0


@dataclass(frozen=True)
class Rival:
    """One other generator.

    Args:
        package: Its pinned release, as its registry calls it.
        program: What is run, relative to the folder that it is installed into.
        write_template: Writes its template into a folder, from the files that are wanted.
        arguments: Of the run that makes the files of a name: template, folder, name.
        made: The folder that holds them then: folder, name.
    """

    package: str
    program: str
    write_template: Callable[[Path, Mapping[str, str], str], None]
    arguments: Callable[[Path, Path, str], list[str]]
    made: Callable[[Path, str], Path]


def prepare(rival: Rival, place: Path, wanted: Mapping[str, str], name: str, stage: Stage) -> Scene:
    """Install a generator and sees that it writes what is wanted, byte for byte.

    Args:
        rival: Which one.
        place: An empty folder for it.
        wanted: The files by their paths, as they are for `name`.
        name: A name that stands in paths and texts for nothing else.
        stage: Where commands run.

    Raises:
        ProcessError: It cannot be installed, or writes other files.
    """
    _install(rival, place)
    template, out = place / "template", place / "out"
    template.mkdir()
    out.mkdir()
    rival.write_template(template, wanted, name)
    program = str(place / rival.program)
    env = {"HYGEN_TMPLS": str(template)}
    stage.run([program, *rival.arguments(template, out, name)], out, env)
    for path, text in wanted.items():
        file = rival.made(out, name) / path
        if not file.is_file() or file.read_text() != text:
            raise ProcessError(f"{rival.package} does not write {path} as scaffold does")

    def command(i: int) -> list[str]:
        return [program, *rival.arguments(template, out, f"round{i:03}")]

    return Scene(command, out, env)


def _install(rival: Rival, place: Path) -> None:
    if "==" in rival.package:
        python = place / "bin" / "python"
        _quietly([sys.executable, "-m", "venv", str(place)])
        _quietly([str(python), "-m", "pip", "install", "--quiet", rival.package])
    elif shutil.which("npm") is None:
        raise ProcessError("npm, which installs it, was not found")
    else:
        place.mkdir()
        _quietly(
            ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(place), rival.package]
        )


def _quietly(command: list[str]) -> None:
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_LIMIT_S)
    except subprocess.TimeoutExpired as error:
        raise ProcessError(f"not installed in {INSTALL_LIMIT_S:.0f} s") from error
    if ran.returncode:
        last = (ran.stderr.strip() or ran.stdout.strip() or "no message").splitlines()[-1]
        raise ProcessError(f"not installed: {last}")


def _marked(text: str, name: str, variable: str, keep: str, end: str) -> str:
    """Return a text as a template that takes all but the name for what it is."""
    return keep + text.replace(name, end + variable + keep) + end


def _write(folder: Path, path: str, text: str) -> None:
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    (folder / path).write_text(text)


def _write_cookiecutter(template: Path, wanted: Mapping[str, str], name: str) -> None:
    variable = "{{ cookiecutter.name }}"
    _write(template, "cookiecutter.json", '{"name": "sums"}\n')
    for path, text in wanted.items():
        inside = f"{variable}/{path.replace(name, variable)}"
        _write(template, inside, _marked(text, name, variable, "{% raw %}", "{% endraw %}"))


def _write_copier(template: Path, wanted: Mapping[str, str], name: str) -> None:
    _write(template, "copier.yml", "name:\n  type: str\n")
    for path, text in wanted.items():
        inside = path.replace(name, "{{ name }}") + ".jinja"
        _write(template, inside, _marked(text, name, "{{ name }}", "{% raw %}", "{% endraw %}"))


def _write_hygen(template: Path, wanted: Mapping[str, str], name: str) -> None:
    for i, (path, text) in enumerate(wanted.items()):
        head = f"---\nto: {path.replace(name, '<%= name %>')}\n---\n"
        body = text.replace("<%", "<%%").replace(name, "<%= name %>")
        _write(template, f"reward/new/{i}.ejs.t", head + body)


def _write_django(template: Path, wanted: Mapping[str, str], name: str) -> None:
    for path, text in wanted.items():
        inside = path.replace(name, "app_name").removesuffix(".py") + ".py-tpl"
        verbatim = ("{% verbatim %}", "{% endverbatim %}")
        _write(template, inside, _marked(text, name, "{{ app_name }}", *verbatim))


RIVALS: dict[str, Rival] = {
    "cookiecutter": Rival(
        "cookiecutter==2.6.0",
        "bin/cookiecutter",
        _write_cookiecutter,
        lambda template, out, name: [str(template), "--no-input", "-o", str(out), f"name={name}"],
        lambda out, name: out / name,
    ),
    "copier": Rival(
        "copier==9.6.0",
        "bin/copier",
        _write_copier,
        lambda template, out, name: [
            "copy", "--quiet", "--defaults", "--data", f"name={name}", str(template), str(out)
        ],
        lambda out, name: out,
    ),
    "django-admin startapp": Rival(
        "Django==5.2.8",
        "bin/django-admin",
        _write_django,
        lambda template, out, name: ["startapp", "--template", str(template), name],
        lambda out, name: out / name,
    ),
    "hygen": Rival(
        "hygen@6.2.11",
        "node_modules/.bin/hygen",
        _write_hygen,
        lambda template, out, name: ["reward", "new", name],
        lambda out, name: out,
    ),
}  # fmt: skip
"""Every generator that an add is measured against, by its command."""
