"""What a model's splitting comes to, from what each process found."""

import pytest
from archon_probe.proof.parallel import measure_split, verdict

EQUAL = {"logits": 1e-6, "gradient": 2e-5, "excess": 0.5, "worst": "layers.0.attention.wq.weight"}


def failure(text):
    return {"failure": f"Traceback (most recent call last):\n  File ...\n{text}\n"}


def test_errors_within_what_is_allowed_are_equal():
    found = verdict([EQUAL, {**EQUAL, "logits": 9e-6}], 1e-5)
    assert found == {"status": "equal", "message": "", "logits": 9e-6, "gradient": 2e-5}


@pytest.mark.parametrize("changes", [{"logits": 2e-5}, {"excess": 1.5}])
def test_one_process_that_differs_fails_them_all(changes):
    found = verdict([EQUAL, {**EQUAL, **changes}], 1e-5)
    assert found["status"] == "failed"
    assert "layers.0.attention.wq.weight" in found["message"]


def test_sizes_that_do_not_divide_are_a_refusal_and_no_failure():
    refusal = failure("areal.api.errors.ConfigError: n_kv_heads=1 does not divide over tp=2")
    assert verdict([refusal, refusal], 1e-5) == {
        "status": "refused",
        "message": "areal.api.errors.ConfigError: n_kv_heads=1 does not divide over tp=2",
    }
    assert verdict([refusal, failure("RuntimeError: timed out")], 1e-5)["status"] == "failed"


@pytest.mark.slow
def test_a_committed_model_can_be_split_in_every_way():
    spec = "areal.experimental.models.archon.qwen3.spec:QWEN3_SPEC"
    found = measure_split({"model_type": "qwen3", "spec": spec})
    assert {way: verdict["status"] for way, verdict in found.items()} == {
        "fsdp": "equal",
        "tp": "equal",
        "cp": "equal",
        "pp": "equal",
    }
