"""A target for models, and stand-ins for what measures, writes and proves them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from scaffold.errors import TargetError

ARCHON = "areal/experimental/models/archon"
TABLE = """\
ARCHON_MODELS: dict[str, str] = {
    "aaa": "areal.experimental.models.archon.aaa.spec:AAA_SPEC",
}
"""
MODEL = '''\
"""{prefix}."""

from areal.experimental.models.archon.base import BaseArchonModel


class TransformerBlock:
    """Is a block."""


class {prefix}Model(BaseArchonModel):
    """Is a model."""

    def forward(self, tokens, positions, cu_seqlens, max_seqlen, tree_attn_meta=None):
        """Returns logits."""
'''


class Bench:
    """A stand-in for the probes and for the writing; says what they were asked.

    Attributes:
        asked: The name and the request of every probe, in order.
        staged: The files that the last proof found, by their paths in the overlay.
        is_equal: What the proof comes to.
        wrong: Refusals without which the proof fails.
    """

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.staged: dict[str, str] = {}
        self.is_equal = True
        self.wrong: list[dict[str, str]] = []
        self.tells_refusals = False
        self.refusal: TargetError | None = None
        self.has_plan = True
        self.remark = ""

    def probe(
        self,
        name: str,
        request: Mapping[str, Any],
        python: Any,
        root: Path,
        timeout_s: float,
        log: Any = None,
    ) -> dict[str, Any]:
        self.asked.append((name, json.loads(json.dumps(request))))
        if self.refusal is not None:
            raise self.refusal
        versions = {"torch": "2.0", "transformers": "5.0"}
        if name == "derive":
            return {"design": design_of(request["model_type"]), "versions": versions}
        if name == "types":
            return {"types": {"foo": "1", "gpt-bar": "2"}, "versions": versions}
        overlay = Path(request["overlay"])
        paths = sorted(path for path in overlay.rglob("*.py"))
        self.staged = {p.relative_to(overlay).as_posix(): p.read_text() for p in paths}
        ways = {
            "tp": {"status": "equal", "message": ""},
            "pp": {"status": "failed", "message": "x"},
        }
        parallel = {"parallel": ways} if request["split"] else {}
        missing = [row for row in self.wrong if row not in request["design"]["refusals"]]
        found = proof_of(self.is_equal and not missing)
        return {**found, **parallel, "refusals": missing, "versions": versions}

    def write(self, design: Mapping[str, Any]) -> dict[str, str]:
        prefix = design["class_prefix"]
        spec = f'"""Spec."""\n\n{design["spec_name"]} = "{design["registered"]}"{self.remark}\n'
        if self.tells_refusals:
            spec += f"# refuses {[row['condition'] for row in design['refusals']]}\n"
        files = {
            "__init__.py": '"""Model."""\n',
            "spec.py": spec,
            "model/model.py": MODEL.replace("{prefix}", prefix),
            "test.py": '"""Test."""\n\n\ndef test_it():\n    """Holds."""\n',
        }
        return files | ({"infra/parallelize.py": '"""Plan."""\n'} if self.has_plan else {})


def design_of(model_type: str) -> dict[str, Any]:
    return {
        "schema": 1,
        "model_type": model_type,
        "class_prefix": "Foo",
        "source": {"transformers": "5.0", "model_class": "FooForCausalLM", "file": "foo.py"},
        "attention": {"kind": "gqa", "q_norm": {"when": False}},
        "block": {"modules": []},
        "evidence": [
            {"decision": "head.bias", "value": False, "kind": "probe", "how": "in 3 of 3"},
        ],
        "refusals": [{"condition": "hf_config.x == 1", "message": "x"}],
        "unknown": [{"module": "model.gate", "what": "a gate", "lines": "12-14"}],
    }


def proof_of(is_equal: bool) -> dict[str, Any]:
    parts = {part: {"ok": is_equal} for part in ("forward", "backward", "weights")}
    row = {"name": "default", "status": "proven" if is_equal else "failed", "message": "", **parts}
    if not is_equal:
        row["message"] = "forward: logits differ by 0.3"
    refused = {"name": "x=1", "status": "refused", "message": "x"}
    place = {
        "module": "layers.0.attention",
        "text": "first difference: layers.0.attention, output",
    }
    return {
        "ok": is_equal,
        "variations": [row, refused],
        "bisection": None if is_equal else place,
        "summary": "foo: done",
    }


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Puts stand-ins in the place of the probes and of the writing."""
    made = Bench()
    monkeypatch.setattr("scaffold.archon.pipeline.probe", made.probe)
    monkeypatch.setattr("scaffold.archon.coverage.probe", made.probe)
    monkeypatch.setattr("scaffold.archon.render.write_model", made.write)
    return made


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """Makes a target with the registry of Archon models and a part that models share."""
    root = tmp_path / "repo"
    (root / ARCHON).mkdir(parents=True)
    for name in ("__init__.py", "experimental/__init__.py", "experimental/models/__init__.py"):
        (root / "areal" / name).write_text("")
    (root / ARCHON / "__init__.py").write_text(TABLE)
    (root / ARCHON / "base.py").write_text("class BaseArchonModel:\n    pass\n")
    (root / "areal" / "api").mkdir()
    (root / "areal" / "api" / "registry.py").write_text("")
    (root / "areal" / "reward").mkdir()
    (root / "areal" / "reward" / "__init__.py").write_text("REWARDS: dict[str, str] = {}\n")
    (root / ".git").mkdir()
    (root / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    return root
