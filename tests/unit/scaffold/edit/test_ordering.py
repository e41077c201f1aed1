"""Orders of keys: the one that is there is found, and `isort_style` is ruff's own."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from scaffold.edit.ordering import isort_style, order_of, similarity, sorted_index

# name: (keys in their order, a new key, its index)
SORTED = {
    "plain": (["B", "a", "c"], "b", 2),
    "without regard to case": (["a", "B", "c"], "b2", 2),
    "dashes as underscores": (["a_a2", "a-b", "b"], "a-c", 2),
    "dashes and case": (["a_a", "A-b", "B"], "a-d", 2),
    "numbers in names": (["v2", "v10"], "v9", 1),
    "numbers in names, any case": (["a2", "B9", "B10"], "b9x", 2),
    "as ruff sorts __all__": (["Z_CONST", "Alpha", "alpha"], "Beta", 2),
    "numbers": (["1", "3", "10"], "4", 2),
    "numbers with a sign": (["-1", "2.5"], "0", 1),
    "a word among numbers": (["1", "2"], "x", 2),
    "versions, which are no numbers": (["1.2.3", "1.10.0"], "1.9.0", 1),
    "equal keys": (["a", "a", "b"], "a", 2),
}


@pytest.mark.parametrize("name", SORTED)
def test_a_key_takes_its_place_in_the_order_that_is_there(name: str):
    keys, key, index = SORTED[name]
    order = order_of([keys])
    assert order is not None
    assert sorted_index(keys, key, order) == index


def test_what_is_unsorted_has_no_order():
    assert order_of([["c", "a", "b"]]) is None
    assert order_of([["a", "b"], ["d", "c"]]) is None
    assert order_of([["c", "d"], ["a", "b"]]) is str


def test_a_likely_order_is_tried_first():
    keys = ["Alpha", "Gamma"]
    assert sorted_index(keys, "BETA", order_of([keys]) or str) == 1
    assert sorted_index(keys, "BETA", order_of([keys], isort_style) or str) == 0
    assert order_of([["a", "B"]], isort_style) is str.casefold


def test_isort_style_is_the_order_of_ruff(tmp_path: Path):
    rng = random.Random(3)
    pieces = ["a", "B", "C1", "_", "x10", "x9", "FOO", "Bar", "__", "01", "É", "ß", "zZ", "A_B"]
    for n in range(40):
        names = {"".join(rng.choices(pieces, k=rng.randint(1, 4))) for _ in range(9)}
        rows = "".join(f"    {name!r},\n" for name in sorted(names) if name.isidentifier())
        (tmp_path / f"m{n}.py").write_text(f"__all__ = [\n{rows}]\n", encoding="utf-8")
    command = ["ruff", "check", "--isolated", "--no-cache", "--select", "RUF022", "--fix"]
    ran = subprocess.run([sys.executable, "-m", *command, "--unsafe-fixes", "-q", tmp_path])
    assert ran.returncode == 0
    for path in tmp_path.iterdir():
        scope: dict[str, list[str]] = {}
        exec(path.read_text(encoding="utf-8"), scope)
        assert scope["__all__"] == sorted(scope["__all__"], key=isort_style)


LIKE = {
    "words from the back": (("gsm8k_reward_fn", ""), ("math_reward_fn", ""), 2),
    "words of classes": (("KTOConfig", ""), ("PPOConfig", ""), 1),
    "words from the front": (("get_a_dataset", ""), ("get_b_dataset", ""), 2),
    "the module of a value": (("a", "pkg.code.a:load"), ("b", "pkg.code.b:load"), 2),
    "nothing": (("a", "x"), ("b", "y"), 0),
}


@pytest.mark.parametrize("name", LIKE)
def test_likeness_counts_what_is_shared_at_the_ends(name: str):
    one, other, shared = LIKE[name]
    assert similarity(one, other) == similarity(other, one) == shared
