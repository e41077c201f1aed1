from __future__ import annotations

import pytest

from areal.utils import constants, dynamic_import
from areal.utils.constants import ProxApproxMethod, ProxLogpMethod


@pytest.mark.parametrize(
    ("method", "skips"),
    [("recompute", False), ("loglinear", True), ("metrics", False), ("reuse_train_logp", True)],
)
def test_which_methods_skip_the_forward_pass(method: str, skips: bool) -> None:
    assert ProxLogpMethod(method).skips_forward_pass() is skips
    assert getattr(constants, f"PROX_LOGP_METHOD_{method.upper()}") == method
    assert type(getattr(constants, f"PROX_LOGP_METHOD_{method.upper()}")) is str


def test_all_methods() -> None:
    assert [method.value for method in ProxLogpMethod] == constants.PROX_LOGP_METHODS_ALL
    assert {method.value for method in ProxApproxMethod} == {"loglinear", "linear", "rollout"}


def test_dynamic_import() -> None:
    path = "areal.utils.constants.ProxLogpMethod"
    assert dynamic_import.import_from_string(path) is ProxLogpMethod
