"""What a design is called in the target, and which files it comes to."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from scaffold.archon.pipeline import model_request
from scaffold.archon.render import named_design, with_written
from scaffold.archon.source import ModelSource
from scaffold.errors import TemplateError
from scaffold.templating.manifests import load_kind
from scaffold.templating.request import Request
from scaffold.units.context import Options
from tests.unit.scaffold.archon.codegen.designs import qwen3
from tests.unit.scaffold.archon.conftest import Bench, design_of


def request(models: Path, model_type: str, name: str | None = None) -> Request:
    kind = load_kind("archon-model")
    return model_request(Options(models).find(), kind, ModelSource(model_type), {}, name)


def named(models: Path, model_type: str, of: str, name: str | None = None) -> dict[str, Any]:
    return named_design(request(models, model_type, name), design_of(of))


def test_names_follow_from_the_model_type(models: Path) -> None:
    found = named(models, "gpt-bar", "gpt-bar")
    module = "areal.experimental.models.archon.gpt_bar"
    assert (found["folder"], found["module"]) == ("gpt_bar", module)
    assert (found["spec_name"], found["class_prefix"]) == ("GPT_BAR_SPEC", "Foo")
    assert found["composite"] == ""


def test_a_name_of_its_own_names_the_classes(models: Path) -> None:
    found = named(models, "foo", "foo", "my_own")
    assert (found["spec_name"], found["class_prefix"]) == ("MY_OWN_SPEC", "MyOwn")


def test_a_composite_model_is_found_by_both_of_its_types(models: Path, bench: Bench) -> None:
    assert named(models, "both", "both_text")["composite"] == "both"


def test_a_composite_configuration_is_read_by_its_part_for_text(models: Path) -> None:
    design = {**qwen3(), "model_type": "both_text"}
    own: dict[str, bytes] = {}
    _, sources = with_written(request(models, "both"), design, own)
    spec, args = (sources[f"default/{path}"].decode() for path in ("spec.py", "model/args.py"))
    assert 'frozenset({"both", "both_text"})' in spec
    assert "hf_config = hf_config.get_text_config()" in args
    _, sources = with_written(request(models, "both_text"), design, own)
    assert "get_text_config" not in sources["default/model/args.py"].decode()
    for text in sources.values():
        ast.parse(text)


def test_a_written_file_that_no_manifest_lists_is_a_fault(
    models: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scaffold.archon.render.write_model", lambda design: {"odd.py": ""})
    with pytest.raises(TemplateError, match=r"lists no file 'default/odd\.py'"):
        with_written(request(models, "foo"), design_of("foo"), {})
