"""The frame of the model probes: what is refused, what is left behind, what is tested."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

RUNNERS = Path(__file__).parents[5] / "scaffold" / "runners"


@pytest.fixture(scope="module", autouse=True)
def _runners_on_path() -> Any:
    sys.path.insert(0, str(RUNNERS))
    yield
    sys.path.remove(str(RUNNERS))


def ask(model_type: str, config: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {"model_type": model_type, "config": config, "checkpoint": None, **more}


def resolve(request: dict[str, Any]) -> Any:
    from archon_probe.measure.model_source import resolve

    return resolve(request)


LLAMA = {"model_type": "llama"}
MAMBA = {"model_type": "mamba2", "hidden_size": 64, "num_heads": 8, "head_dim": 16}
REMOTE = {"model_type": "odd", "auto_map": {"AutoConfig": "odd.OddConfig"}}
YARN = {"rope_type": "yran", "factor": 2.0}


@pytest.mark.parametrize(
    ("request_", "code", "message"),
    [
        (ask("qwen33"), "model_unknown", "did you mean 'qwen3'"),
        (ask("bert", {"is_decoder": True}), "model_unsuited", "'bert' is an encoder"),
        (ask("t5"), "model_unsuited", "an encoder-decoder model"),
        (ask("qwen2_vl"), "model_unsuited", "multimodal"),
        (ask("clip"), "model_unsuited", "not a language model"),
        (ask("mamba2"), "model_unsuited", "'mamba2' has no attention heads"),
        (ask("mamba2", MAMBA), "model_unsuited", "no attention heads"),
        (ask("odd", REMOTE), "remote_code", "comes with the checkpoint"),
        (ask("llama", {**LLAMA, "rope_scaling": YARN}), "rope_unknown", "did you mean 'yarn'"),
        (ask("llama", {**LLAMA, "rope_parameters": {"full": YARN}}), "rope_unknown", "'yran'"),
        (ask("llama", {**LLAMA, "hidden_size": "a"}), "config_invalid", "hidden_size"),
    ],
)
def test_what_cannot_be_ported_is_refused(
    request_: dict[str, Any], code: str, message: str
) -> None:
    from archon_probe.errors import ProbeError

    with pytest.raises(ProbeError) as refusal:
        resolve(request_)
    assert refusal.value.code == code
    assert message in str(refusal.value)
    assert refusal.value.hint


@pytest.mark.parametrize("model_type", ["mpt", "gpt2", "dots3_note_text"])
def test_heads_may_have_a_name_of_their_own_or_differ_by_layer(model_type: str) -> None:
    assert resolve(ask(model_type)).model_type == model_type


def test_a_composite_configuration_stands_for_its_text_part() -> None:
    found = resolve(ask("gemma3", {"model_type": "gemma3", "text_config": {"hidden_size": 48}}))
    assert (found.model_type, found.hidden_size) == ("gemma3_text", 48)


def write_tensors(path: Path, names: list[str]) -> None:
    rows = {n: {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for n in names}
    head = json.dumps({"__metadata__": {}, **rows}).encode()
    path.write_bytes(struct.pack("<Q", len(head)) + head)


def test_tensors_of_other_senses_want_a_word(tmp_path: Path) -> None:
    from archon_probe.errors import ProbeError

    asked = ask("gemma3", {"model_type": "gemma3"}, checkpoint=str(tmp_path))
    write_tensors(tmp_path / "model.safetensors", ["model.vision_tower.w", "model.embed.w"])
    with pytest.raises(ProbeError, match=r"such as model\.vision_tower\.w") as refusal:
        resolve(asked)
    assert "--text-only" in refusal.value.hint
    assert resolve({**asked, "text_only": True}).model_type == "gemma3_text"


@pytest.mark.parametrize("data", [b"", b"\xff" * 20, struct.pack("<Q", 4) + b"nope"])
def test_a_checkpoint_that_cannot_be_read_is_refused(tmp_path: Path, data: bytes) -> None:
    from archon_probe.errors import ProbeError

    (tmp_path / "model.safetensors").write_bytes(data)
    with pytest.raises(ProbeError) as refusal:
        resolve(ask("gemma3", {"model_type": "gemma3"}, checkpoint=str(tmp_path)))
    assert refusal.value.code == "checkpoint_invalid"


def test_decoders_and_encoders_that_score_are_listed() -> None:
    from archon_probe.measure.model_source import model_types

    found = model_types()
    assert {"llama", "gpt-sw3", "deepseek_v3", "bert"} <= set(found)
    assert not {"bart", "clip", "t5"} & set(found)
    assert len(found["llama"]) == 64


@pytest.mark.heavy
def test_a_result_is_left_whole_and_stages_beside_it(tmp_path: Path) -> None:
    asked, answered = tmp_path / "asked.json", tmp_path / "answered.json"
    asked.write_text(json.dumps(ask("qwen33")))
    done = subprocess.run(
        [sys.executable, "-m", "archon_probe", "derive", str(asked), str(answered)],
        env={**os.environ, "PYTHONPATH": str(RUNNERS)},
        check=False,
    )
    result = json.loads(answered.read_text())
    assert (done.returncode, result["ok"], result["error"]["code"]) == (0, False, "model_unknown")
    assert result["versions"]["transformers"]
    stages = answered.with_name("answered.json.stages").read_text().splitlines()
    assert [json.loads(row)["name"] for row in stages] == [
        "starting",
        "reading the configuration",
    ]


def test_errors_of_probes_are_told_apart() -> None:
    from archon_probe.__main__ import run

    def lack(request: dict[str, Any]) -> dict[str, Any]:
        raise ModuleNotFoundError("No module named 'torch'", name="torch")

    def fail(request: dict[str, Any]) -> dict[str, Any]:
        raise ModuleNotFoundError("No module named 'areal.x'", name="areal.x")

    assert run(lack, {})["error"]["code"] == "interpreter_lacks"
    result = run(fail, {})
    assert result["error"]["code"] == "probe_failed"
    assert "areal.x" in result["error"]["message"]
    assert "in fail" in result["traceback"]


def installed(folder: Path, version: str) -> Path:
    """Return a folder in which a release of transformers is installed, as far as pip says."""
    info = folder / f"transformers-{version}.dist-info"
    info.mkdir()
    text = f"Metadata-Version: 2.1\nName: transformers\nVersion: {version}\n"
    (info / "METADATA").write_text(text)
    return folder


def test_an_old_transformers_is_refused_before_it_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from archon_probe.__main__ import derive_model, run

    monkeypatch.syspath_prepend(installed(tmp_path, "4.57.1"))
    found = run(derive_model, ask("llama"))
    assert found["error"]["code"] == "interpreter_lacks"
    assert "transformers 4.57.1" in found["error"]["message"]


def test_a_target_that_cannot_be_imported_is_refused_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from archon_probe.__main__ import derive_model, run

    (tmp_path / "their_models.py").write_text("import a_compiler_that_is_not_there\n")
    monkeypatch.syspath_prepend(tmp_path)
    found = run(derive_model, ask("llama", needs="their_models"))
    assert found["error"]["code"] == "target_lacks"
    assert "No module named 'a_compiler_that_is_not_there'" in found["error"]["message"]


def test_staged_modules_come_before_the_targets_own(tmp_path: Path) -> None:
    from archon_probe.overlay import lay_over

    for folder, text in (("own", "WHERE = 'own'\n"), ("staged", "WHERE = 'staged'\n")):
        place = tmp_path / folder
        (place / "model").mkdir(parents=True)
        (place / "model/__init__.py").write_text("")
        (place / "model/spec.py").write_text(text)
    (tmp_path / "own/__init__.py").write_text("")
    (tmp_path / "own/shared.py").write_text("SHARED = 1\n")
    code = (
        f"import sys; sys.path[:0] = [{str(RUNNERS)!r}, {str(tmp_path)!r}]\n"
        "from pathlib import Path\nfrom archon_probe.overlay import lay_over\n"
        f"lay_over('own', Path({str(tmp_path / 'staged')!r}))\n"
        "from own.model.spec import WHERE\nfrom own.shared import SHARED\nprint(WHERE, SHARED)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "staged 1\n"
    assert callable(lay_over)


@pytest.mark.parametrize(
    ("text", "passed", "failure"),
    [
        ("def test_a():\n    pass\n", 1, None),
        ("def test_a():\n    assert 1 == 2, 'no'\n", 0, "test_a: AssertionError: no"),
        ("import nothing_of_this_name\n", 0, "collection: "),
        ("x = 1\n", 0, "none of its tests was run"),
    ],
)
def test_the_written_test_is_run(
    tmp_path: Path, text: str, passed: int, failure: str | None
) -> None:
    path = tmp_path / "test_foo.py"
    path.write_text(text)
    code = (
        f"import sys, json; sys.path.insert(0, {str(RUNNERS)!r})\nfrom pathlib import Path\n"
        "from archon_probe.proof.staged_test import run_staged_test\n"
        f"print(json.dumps(run_staged_test(Path({str(path)!r}))))\n"
    )
    env = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    argv = [sys.executable, "-c", code]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert found["passed"] == passed
    assert len(found["failures"]) == (failure is not None)
    assert (found["failures"] or [""])[0].startswith(failure or "")
