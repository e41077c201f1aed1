"""What arguments and results look like on the wire, and what does not get through."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from areal.api.cli_args import PPOActorConfig, PPOConfig, SchedulingStrategyType
from areal.api.io_struct import LocalInfServerInfo, SaveLoadMeta, WeightUpdateMeta
from areal.infra.rpc import wire
from tests.fakes import tiny_tokenizer

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text() | st.integers(), inner, max_size=3)
    ),
    max_leaves=8,
)


def message(content: Any, body: bytes = b"") -> bytes:
    text = json.dumps(content).encode()
    return struct.pack(">Q", len(text)) + text + body


@given(PLAIN)
def test_plain_data_come_back_as_they_were(value: Any) -> None:
    found = wire.load(wire.dump(value))
    assert found == value
    assert repr(found) == repr(value)


@given(st.text(), st.text())
def test_a_key_is_never_taken_for_a_tag(key: str, inner: str) -> None:
    value = {f"@{key}": {"@tensor": inner}}
    assert wire.load(wire.dump(value)) == value


def test_tensors_and_arrays_keep_shape_type_and_values() -> None:
    base = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    value = {
        "bf16": base.bfloat16(),
        "view": base[1:3, ::2],
        "same": (base, base),
        "empty": torch.empty(0, 3, dtype=torch.int64),
        "mask": base > 3,
        "none": torch.tensor(5),
        "grad": torch.ones(2, requires_grad=True) * 2,
        "array": np.arange(6, dtype=np.int16).reshape(2, 3),
        "number": np.float32(1.5),
    }
    found = wire.load(wire.dump(value))
    for name in ("bf16", "view", "empty", "mask", "none", "grad"):
        assert found[name].dtype is value[name].dtype
        assert found[name].equal(value[name])
    assert not found["grad"].requires_grad
    assert found["same"][1].equal(base)
    assert found["array"].dtype == np.int16
    assert np.array_equal(found["array"], value["array"])
    assert found["number"] == 1.5


def test_configurations_and_metas_arrive_whole() -> None:
    config = PPOActorConfig(experiment_name="e", trial_name="t", path="p", backend="fsdp:d2")
    config.eps_clip = 0.3
    value = [
        config,
        PPOConfig(actor=config),
        WeightUpdateMeta(type="disk", path="/w", version=3),
        SchedulingStrategyType.colocation,
        {torch.float32},
        Path("/a/b"),
    ]
    found = wire.load(wire.dump(value))
    assert found[:4] == value[:4]
    assert type(found[1]) is PPOConfig
    assert found[4] == {torch.float32}
    assert found[5] == "/a/b"
    server = wire.load(wire.dump(LocalInfServerInfo("h", 1, process=None)))  # type: ignore[arg-type]
    assert (server.host, server.port, server.process) == ("h", 1, None)


def test_a_tokenizer_travels_as_its_path(tmp_path: Path) -> None:
    tokenizer = tiny_tokenizer()
    meta = SaveLoadMeta("p", "hf", False, tokenizer=tokenizer)
    tokenizer.name_or_path = ""
    with pytest.raises(wire.WireError, match=r"value\.tokenizer is a tokenizer"):
        wire.dump(meta)
    tokenizer.save_pretrained(tmp_path)
    tokenizer.name_or_path = str(tmp_path)
    found = wire.load(wire.dump(meta)).tokenizer
    assert found.encode("12=") == tokenizer.encode("12=")


class Own:
    """No class of areal."""


@pytest.mark.parametrize("value", [Own(), lambda: 1, b"bytes", {"a": [object()]}, Own])
def test_what_cannot_travel_is_named_with_its_place(value: Any) -> None:
    with pytest.raises(wire.WireError, match=r"value(\.a\[0\])? is a .*cannot be sent"):
        wire.dump(value)


def test_an_array_of_objects_is_refused() -> None:
    with pytest.raises(wire.WireError, match="array of objects"):
        wire.dump(np.array([object()]))


@pytest.mark.parametrize(
    "content",
    [
        {"@dataclass": ["os:stat_result", {}]},
        {"@dataclass": ["areal.infra.launch:Launcher", {}]},
        {"@dataclass": ["areal.infra.launch:os.system", {}]},
        {"@dataclass": ["areal.nothing:X", {}]},
        {"@enum": ["subprocess:Popen", "ls"]},
        {"@tensor": "9"},
        {"@unknown": 1},
        {"@items": [1]},
    ],
)
def test_messages_of_other_classes_are_refused(content: Any) -> None:
    with pytest.raises(wire.WireError):
        wire.load(message(content))


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\x80\x04",
        struct.pack(">Q", 99) + b"{}",
        message({"a": {"@tensor": "0"}}),
        message({"a": {"@tensor": "0"}}, b"no tensors"),
        message([1])[:-1],
    ],
)
def test_malformed_messages_are_refused(text: bytes) -> None:
    with pytest.raises(wire.WireError):
        wire.load(text)
