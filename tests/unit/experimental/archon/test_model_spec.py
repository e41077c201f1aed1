"""The table of models and specs that are registered beside it."""

import subprocess
import sys
from dataclasses import replace

import pytest

from areal.experimental.models import archon
from areal.experimental.models.archon import model_spec


@pytest.fixture(autouse=True)
def _clean_registry(monkeypatch):
    monkeypatch.setattr(model_spec, "_REGISTERED", {})


def other_spec(*model_types, name="mine"):
    known = model_spec.get_model_spec("qwen3")
    return replace(known, name=name, supported_model_types=frozenset(model_types))


def test_importing_the_package_loads_no_torch():
    code = (
        "import sys, areal.experimental.models.archon as archon; archon.ARCHON_MODELS;"
        "assert not {'torch', 'transformers'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_line_of_the_table_names_a_spec_of_that_type():
    assert list(archon.ARCHON_MODELS) == sorted(archon.ARCHON_MODELS)
    for model_type, target in archon.ARCHON_MODELS.items():
        spec = archon.get_model_spec(model_type)
        folder = model_type.replace("-", "_")
        assert model_type in spec.supported_model_types
        assert target.startswith(f"areal.experimental.models.archon.{folder}.spec:")
        assert archon.is_supported_model(model_type)
    assert archon.get_supported_model_types() == set(archon.ARCHON_MODELS)


def test_an_unknown_type_lists_those_there_are():
    assert not archon.is_supported_model("qwen33")
    with pytest.raises(KeyError, match=r"'qwen33'; did you mean 'qwen3'\? known: .*add-archon"):
        archon.get_model_spec("qwen33")


def test_a_model_from_elsewhere_can_be_registered():
    spec = model_spec.register_model_spec(other_spec("mine", "mine_moe"))
    assert archon.get_model_spec("mine_moe") is spec
    assert archon.is_supported_model("mine")
    assert {"mine", "mine_moe"} <= archon.get_supported_model_types()
    assert model_spec.register_model_spec(spec) is spec


@pytest.mark.parametrize("taken", ["mine", "qwen3"])
def test_a_type_is_registered_once(taken):
    model_spec.register_model_spec(other_spec("mine"))
    with pytest.raises(ValueError, match=taken):
        model_spec.register_model_spec(other_spec("fresh", taken, name="second"))
    assert not archon.is_supported_model("fresh")


def test_the_public_names_are_the_contracts():
    assert "register_model_spec" not in archon.__all__
    assert all(hasattr(archon, name) for name in archon.__all__)
    assert dir(archon) == sorted(archon.__all__)


TABLE = """\
ARCHON_MODELS = {
    "mine": "%(package)s.models:SPEC",
    "qwen3": "%(package)s.models:SPEC",
}
SPEC = "the spec of %(package)s"
"""


def project(folder, package):
    """Make a project whose pyproject.toml names its table of models, and install nothing."""
    (folder / package / "models").mkdir(parents=True)
    (folder / package / "models" / "__init__.py").write_text(TABLE % {"package": package})
    table = f'{package} = "{package}.models:ARCHON_MODELS"\n'
    text = f'[project.entry-points."areal.archon_models"]\n{table}'
    (folder / "pyproject.toml").write_text(text)
    return folder


def test_the_models_of_a_project_on_the_path_are_found_first(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(project(tmp_path, "not_installed"))
    assert archon.is_supported_model("mine")
    assert "mine" in archon.get_supported_model_types()
    assert archon.get_model_spec("mine") == "the spec of not_installed"
    assert archon.get_model_spec("qwen3") == "the spec of not_installed"
    assert archon.get_model_spec("qwen2").name == "qwen2"


def test_the_models_of_an_installed_project_are_found(tmp_path, monkeypatch):
    folder = project(tmp_path, "installed")
    (folder / "pyproject.toml").unlink()
    info = folder / "installed-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: installed\nVersion: 1\n")
    (info / "entry_points.txt").write_text(
        "[areal.archon_models]\ninstalled = installed.models:ARCHON_MODELS\n"
    )
    monkeypatch.syspath_prepend(folder)
    assert archon.get_model_spec("mine") == "the spec of installed"


def test_other_projects_on_the_path_are_none_of_ours(tmp_path, monkeypatch):
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'no toml at all\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert not archon.is_supported_model("mine")
