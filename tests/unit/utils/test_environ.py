from __future__ import annotations

import pytest

from areal.utils.environ import env_flag, is_single_controller


@pytest.mark.parametrize(
    ("value", "expected"),
    [(None, True), ("", True), ("0", True), ("false", True), ("1", False), ("True", False)],
)
def test_spmd_mode_is_the_opposite_of_single_controller(
    monkeypatch: pytest.MonkeyPatch, value: str | None, expected: bool
) -> None:
    monkeypatch.delenv("AREAL_SPMD_MODE", raising=False)
    if value is not None:
        monkeypatch.setenv("AREAL_SPMD_MODE", value)
    assert is_single_controller() is expected


def test_a_flag_that_is_neither_yes_nor_no_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_FLAG", "maybe")
    with pytest.raises(ValueError, match="SOME_FLAG must be one of"):
        env_flag("SOME_FLAG")


def test_an_unset_flag_has_its_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOME_FLAG", raising=False)
    assert env_flag("SOME_FLAG", default=True)
