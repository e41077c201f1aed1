"""Any layout of weights is found from its values, and comes back through the rules bit for bit."""

from __future__ import annotations

import torch
from archon_probe.weight_rules.find import find_rules
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tests.unit.experimental.archon.state_dict.small_models import adapter_of, as_objects
from tests.unit.scaffold.archon.checkpoints import fill_distinct


@st.composite
def _checkpoints(draw: st.DrawFn) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Draws parameters of one or two layers, and the same in a layout as checkpoints have them."""
    num_parts, groups = draw(st.integers(1, 4)), draw(st.integers(1, 5))
    shares = draw(st.lists(st.integers(1, 4), min_size=num_parts, max_size=num_parts))
    axis, columns = draw(st.integers(0, 1)), draw(st.integers(2, 5))
    experts = draw(st.sampled_from([None, 2, 3]))
    is_transposed = draw(st.booleans())
    archon: dict[str, Tensor] = {}
    hub: dict[str, Tensor] = {}
    for layer in range(draw(st.integers(1, 2))):
        shapes = [
            (groups * share, columns) if axis == 0 else (columns, groups * share)
            for share in shares
        ]
        parts = [torch.empty(*((experts, *s) if experts else s)) for s in shapes]
        archon |= {f"layers.{layer}.p{i}": part for i, part in enumerate(parts)}
    fill_distinct(archon.values(), seed=draw(st.integers(0, 99)))
    for layer in sorted({name.split(".")[1] for name in archon}):
        parts = [t for n, t in archon.items() if n.startswith(f"layers.{layer}.")]
        for entry in range(experts or 1):
            mine = [part[entry] for part in parts] if experts else parts
            blocks = [part.unflatten(axis, (groups, -1)) for part in mine]
            whole = torch.cat(blocks, axis + 1).flatten(axis, axis + 1)
            name = f"h.{layer}.e.{entry}.w" if experts else f"h.{layer}.w"
            hub[name] = (whole.T if is_transposed else whole).contiguous()
    return archon, hub


@given(_checkpoints())
def test_every_layout_is_found_and_comes_back(
    checkpoint: tuple[dict[str, Tensor], dict[str, Tensor]],
) -> None:
    archon, hub = checkpoint
    rules, problems = find_rules(archon, hub, {})
    assert problems == []
    adapter = adapter_of(as_objects(rules), {name: t.shape for name, t in archon.items()})
    loaded = adapter.from_hf(hub)
    assert loaded.keys() == archon.keys()
    assert all(torch.equal(loaded[name], archon[name]) for name in archon)
    saved = adapter.to_hf(archon)
    assert saved.keys() == hub.keys()
    assert all(torch.equal(saved[name], hub[name]) for name in hub)
