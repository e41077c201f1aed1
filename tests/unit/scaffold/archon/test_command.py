"""The command around a model: all or nothing, registered when proven, and taken back whole."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from scaffold.cli.main import main
from scaffold.errors import TargetError
from scaffold.units.context import Options
from scaffold.units.ledger import find_unit
from scaffold.verify.checks import Level, not_run
from scaffold.verify.interpreter import Interpreter
from scaffold.verify.static import check_static
from tests.reports import REPORTS
from tests.unit.scaffold.archon.conftest import ARCHON, TABLE, Bench

ROOT = Path(__file__).parents[4]
TEST = "tests/unit/experimental/archon/models/test_foo.py"
FILES = {
    f"{ARCHON}/foo/{name}.py" for name in ("__init__", "spec", "model/model", "infra/parallelize")
}


def run(root: Path, *argv: str) -> tuple[int, dict[str, Any]]:
    """Runs a command on the target and returns its status and its JSON report."""
    done = CliRunner().invoke(main, [*argv, "--target", str(root), "--json"])
    report = json.loads(done.stdout)
    REPORTS.validate(report)
    return done.exit_code, report


def text(root: Path, *argv: str) -> str:
    return CliRunner().invoke(main, [*argv, "--target", str(root)]).output


def tree(root: Path) -> dict[str, bytes]:
    paths = [p for p in sorted(root.rglob("*")) if p.is_file() and ".git" not in p.parts]
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in paths}


def test_a_proven_model_is_written_and_registered(models: Path, bench: Bench) -> None:
    status, report = run(models, "add-archon-model", "foo")
    assert (status, report["ok"], report["proof"]["ok"]) == (0, True, True)
    written = {row["path"] for row in report["changes"] if row["action"] == "created"}
    assert written == {*FILES, TEST}
    assert [row["key"] for row in report["registered"]] == ["foo"]
    line = '    "foo": "areal.experimental.models.archon.foo.spec:FOO_SPEC",\n'
    assert (models / ARCHON / "__init__.py").read_text() == TABLE.replace("}\n", line + "}\n")
    unit = find_unit(models, "archon/foo")
    assert (unit.proof, unit.answers["transformers"]) == ("proven", "5.0")


def test_the_proof_runs_before_anything_is_written(models: Path, bench: Bench) -> None:
    before = tree(models)
    seen: list[dict[str, bytes]] = []

    def prove(name: str, *rest: Any) -> dict[str, Any]:
        seen.append(tree(models))
        return bench.probe(name, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("scaffold.archon.pipeline.probe", prove)
        run(models, "add-archon-model", "foo")
    assert seen == [before, before]
    assert set(bench.staged) == {path.removeprefix(f"{ARCHON}/") for path in FILES}
    asked = bench.asked[1][1]
    assert asked["spec"] == "areal.experimental.models.archon.foo.spec:FOO_SPEC"
    assert asked["package"] == "areal.experimental.models.archon"


def test_the_same_again_has_nothing_to_do_and_asks_nothing(models: Path, bench: Bench) -> None:
    run(models, "add-archon-model", "foo")
    before, asked = tree(models), len(bench.asked)
    status, report = run(models, "add-archon-model", "foo")
    assert (status, report["changes"], len(bench.asked)) == (0, [], asked)
    assert tree(models) == before


def test_other_answers_are_refused(models: Path, bench: Bench, tmp_path: Path) -> None:
    run(models, "add-archon-model", "foo")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "foo", "x": "y" * 5000}))
    status, report = run(models, "add-archon-model", str(tmp_path / "config.json"))
    assert (status, report["error"]["code"]) == (1, "answers_differ")
    assert len(report["error"]["message"]) < 1000


def test_what_is_not_proven_is_written_and_not_registered(models: Path, bench: Bench) -> None:
    bench.is_equal = False
    status, report = run(models, "add-archon-model", "foo")
    assert (status, report["ok"], report["registered"]) == (1, False, [])
    assert {row["path"] for row in report["changes"] if row["action"] == "created"} >= FILES
    assert (models / ARCHON / "__init__.py").read_text() == TABLE
    assert find_unit(models, "foo").proof == "unproven"
    assert "unproven" in text(models, "status")
    assert "proof      unproven" in text(models, "show", "archon/foo")
    assert "archon-model/foo (unproven)" in text(models, "list")
    assert report["proof"]["bisection"]["module"] == "layers.0.attention"


def test_an_unproven_model_tells_the_first_difference(models: Path, bench: Bench) -> None:
    bench.is_equal = False
    told = text(models, "add-archon-model", "foo")
    assert "default: forward: logits differ by 0.3" in told
    assert "first difference: layers.0.attention, output" in told
    assert "train with it" not in told


def test_an_unproven_model_may_be_kept_and_is_marked(models: Path, bench: Bench) -> None:
    bench.is_equal = False
    status, report = run(models, "add-archon-model", "foo", "--keep-unproven")
    assert (status, [row["key"] for row in report["registered"]]) == (0, ["foo"])
    assert any("not proven" in line for line in report["warnings"])
    assert find_unit(models, "foo").proof == "unproven"


def test_keeping_it_later_registers_what_stands_there(models: Path, bench: Bench) -> None:
    bench.is_equal = False
    run(models, "add-archon-model", "foo")
    status, report = run(models, "add-archon-model", "foo", "--keep-unproven")
    assert (status, [row["key"] for row in report["registered"]]) == (0, ["foo"])
    assert len(find_unit(models, "foo").entries) == 1


@pytest.mark.parametrize("is_equal", [True, False])
def test_a_dry_run_proves_and_writes_nothing(models: Path, bench: Bench, is_equal: bool) -> None:
    bench.is_equal = is_equal
    before = tree(models)
    status, report = run(models, "add-archon-model", "foo", "--dry-run")
    assert status == (0 if is_equal else 1)
    assert [name for name, _ in bench.asked] == ["derive", "prove"]
    assert report["proof"]["ok"] is is_equal
    assert tree(models) == before
    done = text(models, "add-archon-model", "foo", "--dry-run")
    assert f"+++ b/{ARCHON}/foo/spec.py" in done


def test_a_dry_run_may_do_without_the_proof(models: Path, bench: Bench) -> None:
    status, report = run(models, "add-archon-model", "foo", "--dry-run", "--skip-proof")
    assert (status, [name for name, _ in bench.asked]) == (0, ["derive"])
    assert "proof" not in report
    status, report = run(models, "add-archon-model", "foo", "--skip-proof")
    assert (status, report["error"]["code"]) == (2, "usage")


def test_every_decision_is_explained_when_asked(models: Path, bench: Bench) -> None:
    told = text(models, "add-archon-model", "foo", "--explain", "--dry-run")
    assert "head.bias = false  (probe: in 3 of 3)" in told
    assert "unknown: model.gate: a gate (12-14)" in told
    status, report = run(models, "archon", "explain", "foo")
    assert (status, report["design"]["class_prefix"]) == (0, "Foo")
    assert "refused: hf_config.x == 1" in text(models, "archon", "explain", "foo")
    assert not (models / ARCHON / "foo").exists()


def test_a_name_of_its_own_names_folder_classes_and_key(models: Path, bench: Bench) -> None:
    status, report = run(models, "add-archon-model", "foo", "--name", "My-Model")
    assert status == 0
    assert "class MyModelModel" in (models / ARCHON / "my_model/model/model.py").read_text()
    row = report["registered"][0]
    module = "areal.experimental.models.archon.my_model"
    assert (row["key"], row["value"]) == ("foo", f"{module}.spec:MY_MODEL_SPEC")


def test_a_model_type_that_is_taken_is_registered_by_its_name(models: Path, bench: Bench) -> None:
    run(models, "add-archon-model", "foo")
    status, report = run(models, "add-archon-model", "foo", "--name", "other")
    assert status == 0
    assert report["registered"][0]["key"] == "other"
    assert any("'foo' is already registered" in line for line in report["warnings"])


def test_a_key_is_spelled_as_transformers_does(models: Path, bench: Bench) -> None:
    status, report = run(models, "add-archon-model", "gpt-bar")
    assert (status, report["registered"][0]["key"]) == (0, "gpt-bar")
    assert (models / ARCHON / "gpt_bar/spec.py").read_text().endswith('"gpt-bar"\n')
    assert "untouched" in text(models, "show", "archon/gpt-bar")


def test_a_file_that_the_model_does_not_need_is_not_made(models: Path, bench: Bench) -> None:
    bench.has_plan = False
    run(models, "add-archon-model", "foo")
    assert not (models / ARCHON / "foo/infra/parallelize.py").exists()
    assert "missing" not in text(models, "status")


def test_a_template_of_the_repository_wins_over_what_is_written(models: Path, bench: Bench) -> None:
    assert run(models, "eject", "archon-model/default")[0] == 0
    own = models / ".scaffold/templates/archon-model/default/spec.py.jinja"
    own.write_text('"""Ours."""\n\n{{ upper }}_SPEC = "{{ model_type }}"\n')
    run(models, "add-archon-model", "foo")
    assert (models / ARCHON / "foo/spec.py").read_text() == '"""Ours."""\n\nFOO_SPEC = "foo"\n'


def test_remove_gives_back_the_first_bytes(models: Path, bench: Bench) -> None:
    before = tree(models)
    run(models, "add-archon-model", "foo")
    assert run(models, "remove", "archon/foo")[0] == 0
    assert tree(models) == before
    assert not (models / ARCHON / "foo").exists()


def test_a_lost_line_is_found_and_mended(models: Path, bench: Bench) -> None:
    run(models, "add-archon-model", "foo")
    (models / ARCHON / "__init__.py").write_text(TABLE)
    assert "unregistered" in text(models, "status")
    assert run(models, "status", "--fix")[0] == 0
    assert '"foo"' in (models / ARCHON / "__init__.py").read_text()


def test_update_writes_anew_merges_and_proves(models: Path, bench: Bench) -> None:
    run(models, "add-archon-model", "foo")
    assert run(models, "update", "foo")[1]["changes"] == []
    assert [name for name, _ in bench.asked[2:]] == ["derive"]
    bench.remark = "  # renewed"
    status, _ = run(models, "update", "foo")
    assert (status, bench.asked[-1][0]) == (0, "prove")
    assert "renewed" in (models / ARCHON / "foo/spec.py").read_text()
    assert find_unit(models, "foo").proof == "proven"


def test_an_update_that_is_not_proven_is_registered_no_more(models: Path, bench: Bench) -> None:
    run(models, "add-archon-model", "foo")
    bench.remark, bench.is_equal = "  # renewed", False
    _, report = run(models, "update", "foo")
    assert any("not proven" in line for line in report["warnings"])
    assert (models / ARCHON / "__init__.py").read_text() == TABLE
    assert find_unit(models, "foo").proof == "unproven"


def test_a_refusal_of_the_probe_is_the_error(models: Path, bench: Bench) -> None:
    before = tree(models)
    bench.refusal = TargetError("'foo' is an encoder", code="model_unsuited", hint="another")
    status, report = run(models, "add-archon-model", "foo")
    assert (status, report["error"]["code"]) == (1, "model_unsuited")
    assert tree(models) == before


def test_a_target_without_the_shared_parts_is_refused(models: Path, bench: Bench) -> None:
    (models / ARCHON / "base.py").unlink()
    before = tree(models)
    status, report = run(models, "add-archon-model", "foo")
    assert (status, report["error"]["code"]) == (1, "target_lacks")
    assert "areal.experimental.models.archon.base" in report["error"]["message"]
    assert tree(models) == before


def test_a_target_without_the_registry_is_refused(project: Path, bench: Bench) -> None:
    settings = project / "pyproject.toml"
    lines = settings.read_text().splitlines(keepends=True)
    settings.write_text("".join(row for row in lines if not row.startswith("archon-model =")))
    status, report = run(project, "add-archon-model", "foo")
    assert (status, report["error"]["code"]) == (1, "target_invalid")
    assert "ARCHON_MODELS" in report["error"]["hint"]
    assert bench.asked == []


def checkout(models: Path) -> None:
    """Lay a checkout of AReaL over the target."""
    layout = Path(__file__).parents[3] / "fixtures/layouts/archon/areal"
    shutil.copytree(layout, models / "areal", dirs_exist_ok=True)
    (models / "areal/api/registry.py").unlink()


@pytest.mark.parametrize(
    "line",
    [
        "import areal.experimental.models.archon.aaa.spec",
        "from areal.experimental.models.archon.aaa import spec as aaa_spec",
    ],
)
def test_a_checkout_of_areal_is_registered_by_its_imports(
    models: Path, bench: Bench, line: str
) -> None:
    checkout(models)
    (models / ARCHON / "__init__.py").write_text(f"{line}  # noqa: F401\n")
    status, report = run(models, "add-archon-model", "foo")
    assert (status, report["target"]["layout"]) == (0, "areal-checkout")
    assert line.replace("aaa", "foo") in (models / ARCHON / "__init__.py").read_text()
    assert (models / "tests/experimental/archon/test_foo.py").is_file()
    needs = [request.get("needs") for name, request in bench.asked if name == "derive"]
    assert needs == ["areal.experimental.models.archon"]


def test_a_checkout_without_the_bases_is_refused_before_anything_is_measured(
    models: Path, bench: Bench
) -> None:
    checkout(models)
    (models / ARCHON / "model_spec.py").write_text("class ModelSpec:\n    pass\n")
    status, report = run(models, "add-archon-model", "foo")
    assert (status, report["error"]["code"]) == (1, "target_lacks")
    assert "register_model_spec" in report["error"]["message"]
    assert bench.asked == []


def test_coverage_proves_all_and_writes_the_page(models: Path, bench: Bench) -> None:
    status, report = run(models, "archon", "coverage")
    assert (status, [row["state"] for row in report["coverage"]]) == (0, ["proven", "proven"])
    page = (models / "docs/en/archon-coverage.md").read_text()
    assert "2 of 2 model_types are proven" in page
    assert "| `gpt-bar` | proven | 1/1 | 1/1 | 1/1 | 2 | 1 | 0/0 |  |  | equal | failed |" in page
    assert "## Differences between one and two processes\n\n`foo`:\n\n    pp: x\n" in page


def test_coverage_takes_up_what_is_known_of_the_same_sources(models: Path, bench: Bench) -> None:
    run(models, "archon", "coverage", "--types", "foo")
    asked = len(bench.asked)
    _, report = run(models, "archon", "coverage", "--resume")
    assert [row["model_type"] for row in report["coverage"]] == ["foo", "gpt-bar"]
    assert [name for name, _ in bench.asked[asked:]] == ["types", "derive", "prove"]
    (models / ARCHON / "base.py").write_text("class BaseArchonModel:\n    changed = True\n")
    run(models, "archon", "coverage", "--resume", "--types", "foo")
    assert [name for name, _ in bench.asked[asked + 3 :]] == ["types", "derive", "prove"]


def test_coverage_tells_why_a_model_is_not_proven(models: Path, bench: Bench) -> None:
    bench.is_equal = False
    _, report = run(models, "archon", "coverage", "--types", "foo", "--fast")
    assert report["coverage"][0]["finding"] == "default: forward: logits differ by 0.3"
    assert (bench.asked[-1][1]["fast"], bench.asked[-1][1]["split"]) == (True, False)
    page = (models / "docs/en/archon-coverage.md").read_text()
    assert "first difference: layers.0.attention" in page
    status, report = run(models, "archon", "coverage", "--types", "fop")
    assert (status, report["error"]["code"]) == (2, "model_unknown")
    assert "did you mean 'foo'" in report["error"]["message"]


def test_what_is_registered_without_a_record_is_verified_too(
    models: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(models, "add-archon-model", "foo")
    shutil.rmtree(models / ".scaffold")
    asked: list[dict[str, Any]] = []

    def probe(bench: Any, name: str, request: dict[str, Any], folder: Path) -> Level:
        asked.append(request)
        return not_run("episodes", "a stand-in")

    monkeypatch.setattr("scaffold.verify.levels._run_probe", probe)
    monkeypatch.setattr(Interpreter, "lack", lambda self, names: "")
    _, report = run(models, "verify", "archon/foo")
    levels = {row["level"]: row["status"] for row in report["units"][0]["levels"]}
    assert (levels["static"], levels["tests"]) == ("passed", "passed")
    assert asked[0]["answers"] == {"model_type": "foo"}
    assert asked[0]["symbol"] == "areal.experimental.models.archon.foo.spec:FOO_SPEC"


def test_a_model_that_was_there_before_is_replaced_by_its_folder(
    models: Path, bench: Bench
) -> None:
    run(models, "add-archon-model", "foo")
    shutil.rmtree(models / ".scaffold")
    (models / ARCHON / "foo/spec.py").write_text("FOO_SPEC = 0\n")
    status, report = run(models, "add-archon-model", "foo")
    assert (status, report["error"]["code"]) == (1, "file_exists")
    status, report = run(models, "add-archon-model", "foo", "--overwrite", f"{ARCHON}/foo")
    assert status == 0
    actions = {row["path"]: row["action"] for row in report["changes"]}
    assert actions[f"{ARCHON}/foo/spec.py"] == "replaced"
    status, report = run(models, "add-archon-model", "foo", "--overwrite", f"{ARCHON}/aaa")
    assert (status, report["changes"]) == (0, [])


def test_the_static_contract_wants_a_model_as_the_trainer_calls_it(
    models: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(models, "add-archon-model", "foo")
    path = models / ARCHON / "foo/model/model.py"
    path.write_text(path.read_text().replace("cu_seqlens, max_seqlen", "mask"))
    target = Options(models).find()
    level = check_static(target, find_unit(models, "foo"), "model")
    assert level.status == "failed"
    assert "forward is called as (tokens, positions, cu_seqlens, max_seqlen, ...)" in level.reason
    path.write_text("x = 1\n")
    level = check_static(target, find_unit(models, "foo"), "model")
    assert "no class that derives from BaseArchonModel" in level.reason


def test_uninstall_drops_what_a_survey_keeps(models: Path, bench: Bench) -> None:
    run(models, "archon", "coverage", "--types", "foo")
    kept = list((models / ".git").rglob("foo-*.json"))
    assert len(kept) == 1
    run(models, "uninstall")
    assert not kept[0].parent.exists()


def test_any_kind_by_its_name(models: Path, bench: Bench) -> None:
    status, report = run(models, "add", "archon-model", "foo")
    assert (status, report["command"]) == (0, "add-archon-model")


def test_options_that_the_proof_finds_wrong_are_refused(models: Path, bench: Bench) -> None:
    refusal = {"condition": "hf_config.y is True", "message": "y"}
    bench.wrong = [refusal]

    status, _ = run(models, "add-archon-model", "foo")

    assert status == 0
    proofs = [request for name, request in bench.asked if name == "prove"]
    assert [row["condition"] for row in proofs[0]["design"]["refusals"]] == ["hf_config.x == 1"]
    assert proofs[1]["design"]["refusals"][1:] == [refusal]
    assert len(proofs) == 2


def test_an_update_finds_the_same_options_to_refuse(models: Path, bench: Bench) -> None:
    bench.wrong = [{"condition": "hf_config.y is True", "message": "y"}]
    bench.tells_refusals = True
    run(models, "add-archon-model", "foo")
    assert "hf_config.y is True" in (models / ARCHON / "foo/spec.py").read_text()
    status, report = run(models, "update", "foo")
    assert (status, report["changes"], find_unit(models, "foo").proof) == (0, [], "proven")
    bench.remark = "  # renewed"
    run(models, "update", "foo")
    assert find_unit(models, "foo").proof == "proven"
    text_ = (models / ARCHON / "foo/spec.py").read_text()
    assert "hf_config.y is True" in text_
    assert "renewed" in text_
