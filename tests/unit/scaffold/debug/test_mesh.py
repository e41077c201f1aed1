"""Layouts of ranks, and the arguments of torchrun."""

from __future__ import annotations

from pathlib import Path

import pytest

from scaffold.debug.mesh import Launch, meshes_of_config, read_launch, read_mesh
from scaffold.errors import RequestError


@pytest.mark.parametrize(
    ("text", "ranks"),
    [
        ("dp_shard=2,tp=2", 4),
        ("dp_shard=2, cp=1, tp=2, pp=3", 12),
        ("dp_replicate=2*dp_shard=2*tp=2", 8),
        ("archon:d2t2c1e2", 4),
        ("d4p2t1", 8),
        ("fsdp=2", 2),
        ("dp_shard=-1,tp=2", None),
    ],
)
def test_a_layout_says_how_many_ranks_fill_it(text: str, ranks: int | None) -> None:
    assert read_mesh(text).ranks == ranks


@pytest.mark.parametrize("text", ["", "foo=2", "tp=0", "tp=two", "tp=2,tp=2", "d2x3", "tp"])
def test_what_is_no_layout_is_refused(text: str) -> None:
    with pytest.raises(RequestError) as caught:
        read_mesh(text)
    assert caught.value.code == "mesh_invalid"


@pytest.mark.parametrize(
    ("text", "world", "fault"),
    [
        ("dp_shard=2,tp=2", 4, None),
        ("dp_shard=2,tp=2", None, None),
        ("dp_shard=2,tp=2", 8, "= 4 ranks, and 8 are started"),
        ("dp_shard=-1,tp=2", 6, None),
        ("dp_shard=-1,tp=2", 5, "5 ranks cannot be divided"),
        ("d2t2e3", 4, "ep=3 does not divide the 4 ranks"),
        ("d2t2e4", 4, None),
        ("dp_shard=2,tp=2,etp=3", 4, "etp=3 is neither 1 nor tp=2"),
    ],
)
def test_faults_of_a_layout(text: str, world: int | None, fault: str | None) -> None:
    found = read_mesh(text).faults(world)
    assert (fault is None and not found) or (fault is not None and fault in found[0])


def test_a_configuration_names_its_layouts(tmp_path: Path) -> None:
    file = tmp_path / "grpo.yaml"
    file.write_text("actor:\n  backend: fsdp:d2t2\nrollout:\n  backend: local\n"
                    "allocation_mode: sglang:d4+archon:d2\n")  # fmt: skip
    assert [(mesh.ranks, mesh.origin) for mesh in meshes_of_config(file)] == [
        (4, "grpo.yaml: actor.backend"),
        (4, "grpo.yaml: allocation_mode"),
        (2, "grpo.yaml: allocation_mode"),
    ]


@pytest.mark.parametrize("content", [b"a: [", b"\xff\xfe"])
def test_a_configuration_that_cannot_be_read_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "broken.yaml"
    file.write_bytes(content)
    with pytest.raises(RequestError) as caught:
        meshes_of_config(file)
    assert caught.value.code == "source_unreadable"


@pytest.mark.parametrize(
    ("words", "launch"),
    [
        ("", Launch(1, 1)),
        ("torchrun --nproc-per-node 4 train.py --nnodes 9", Launch(1, 4)),
        ("--nproc_per_node=2 --nnodes=3 --master-port 5 x.py", Launch(3, 2, "", 5)),
        ("torchrun --nproc-per-node gpu --nnodes 1:4 x.py", Launch(None, None)),
        ("torchrun --standalone --nproc-per-node 2 x.py", Launch(1, 2, "", 0)),
        ("torchrun --rdzv-endpoint node0:29400 -m train", Launch(1, 1, "node0", 29400)),
    ],
)
def test_what_torchrun_is_told(words: str, launch: Launch) -> None:
    assert read_launch(words.split()) == launch
