"""Every committed model, and a model with the features they lack, on two and on four processes.

One launch for each number of processes runs all its cases; the tests then read what it found.
"""

import dataclasses
import json
import os
from pathlib import Path

import pytest

from areal.experimental.models.archon import ARCHON_MODELS, get_model_spec
from tests.rank_processes import run_ranks

pytestmark = pytest.mark.heavy

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[2]

# Of logits; ``worker.py`` says why, and what is allowed to gradients.
TOLERANCE = 1e-5
A_MISTAKE = 1e-2

# Features of the zoo that the committed models do not all have, in two models.
NORMED = (
    *("projection_norm", "post_norm", "sinks", "gate", "out_norm", "inner_norm", "bias"),
    *("padding", "embedding_norm"),
)
ALIBI = (
    *("head_norm", "alibi", "positions", "plain_mlp", "low_rank", "no_norm", "bias", "softcap"),
)
SHARED = {
    "num_experts": 8,
    "top_k": 2,
    "num_shared_experts": 1,
    "shared_expert_intermediate_size": 24,
    "use_shared_expert_gate": True,
    "route_norm": True,
}
BIASED = {
    "num_experts": 8,
    "top_k": 2,
    "router_bias": True,
    "expert_bias_terms": True,
    "use_expert_bias": True,
    "num_zero_experts": 2,
    "post_norm_eps": 1e-5,
}
# Its angles depend on the length of a token's own sequence, of which a process may see a part.
DYNAMIC = {"dim": 8, "kind": "dynamic", "max_position_embeddings": 8, "scaling": {"factor": 4.0}}


# The first and the last stage are on one process.
MIRRORED = {"fields": {"n_layers": 4}, "schedule": "ZBVZeroBubble"}


def zoo(name, dims, *features, fields=None, **options):
    config = {"features": features, **(fields or {})}
    return {"model_type": "zoo", "mode": name, "dims": dims, "config": config, **options}


# What every committed model is split by: on two processes, on four, and on four in the full run.
MODES = {
    "two": (("tp", {"tp": 2}), ("fsdp", {}), ("cp", {"cp": 2}), ("pp", {"pp": 2})),
    "four": (("fsdp+tp", {"tp": 2}),),
    "full": (
        ("cp+tp", {"cp": 2, "tp": 2}),
        ("fsdp+cp", {"cp": 2}),
        ("pp+tp", {"pp": 2, "tp": 2}),
        ("fsdp+pp", {"pp": 2}),
    ),
}
EXPERT_MODES = {
    "two": (("ep", {"ep": 2}), ("ep in tp", {"ep": 2, "tp": 2})),
    "four": (("ep+etp", {"ep": 2, "tp": 2, "etp": 2}),),
    "full": (("fsdp+ep", {"ep": 2}), ("fsdp+tp in ep", {"ep": 4, "tp": 2})),
}


def committed(which, models=ARCHON_MODELS):
    """Returns the cases of committed models, all of them unless they are named."""
    cases = []
    for model_type in models:
        args_class = get_model_spec(model_type).model_args_class
        has_experts = any(field.name == "moe_args" for field in dataclasses.fields(args_class))
        for mode, dims in MODES[which] + (EXPERT_MODES[which] if has_experts else ()):
            cases.append({"model_type": model_type, "mode": mode, "dims": dims})
    return cases


ZOO_CASES = {
    2: [
        zoo("tp normed", {"tp": 2}, *NORMED),
        zoo("tp alibi", {"tp": 2}, *ALIBI),
        zoo("tp loss parallel", {"tp": 2}, "bias", options={"loss_parallel": True}),
        zoo("tp critic", {"tp": 2}, "bias", is_critic=True),
        zoo("tp tied", {"tp": 2}, "tied"),
        zoo("tp selective", {"tp": 2}, options={"ac_config": {"mode": "selective"}}),
        zoo("fsdp tied", {}, "tied"),
        zoo("fsdp full", {}, options={"ac_config": {"mode": "full"}}),
        zoo("hsdp tied", {"dp_replicate": 2}, "tied"),
        zoo("cp normed", {"cp": 2}, *NORMED),
        zoo("cp alibi", {"cp": 2}, *ALIBI),
        zoo("tp one normed head", {"tp": 2}, *NORMED, fields={"n_kv_heads": 1}),
        zoo("tp one head with norms", {"tp": 2}, *ALIBI, fields={"n_kv_heads": 1}),
        zoo("tp one key-value head", {"tp": 2}, "bias", fields={"n_kv_heads": 1}),
        zoo("cp one key-value head", {"cp": 2}, fields={"n_kv_heads": 1}),
        zoo("cp dynamic rope", {"cp": 2}, fields={"rope": DYNAMIC}),
        zoo("cp sdpa", {"cp": 2}, fields={"attn_type": "sdpa"}),
        zoo("pp normed", {"pp": 2}, *NORMED),
        zoo("pp alibi", {"pp": 2}, *ALIBI, schedule="GPipe"),
        zoo("pp critic", {"pp": 2}, is_critic=True),
        zoo("pp tied", {"pp": 2}, "tied"),
        zoo("pp tied and mirrored", {"pp": 2}, "tied", **MIRRORED),
        zoo("pp interleaved", {"pp": 2}, fields={"n_layers": 4}, schedule="Interleaved1F1B"),
        zoo("pp mirrored", {"pp": 2}, **MIRRORED),
        zoo("tp shared experts", {"tp": 2}, fields={"moe": SHARED}),
        zoo("tp biased experts", {"tp": 2}, fields={"moe": BIASED}),
        zoo("ep shared experts", {"ep": 2}, fields={"moe": SHARED}),
        zoo("ep biased experts", {"ep": 2}, fields={"moe": BIASED}),
        zoo("ep in tp", {"ep": 2, "tp": 2}, fields={"moe": BIASED}),
        zoo("ep in cp", {"ep": 2, "cp": 2}, fields={"moe": SHARED}),
    ],
    4: [
        zoo("tp", {"tp": 4}, *NORMED),
        zoo("tp shared normed heads", {"tp": 4}, *NORMED, fields={"n_kv_heads": 2}),
        zoo("tp shared heads with norms of their own", {"tp": 4}, *ALIBI, fields={"n_kv_heads": 2}),
        zoo("tp shared heads", {"tp": 4}, "bias", fields={"n_kv_heads": 2}),
        zoo("cp repeated heads", {"cp": 4}, fields={"n_kv_heads": 2}),
        zoo("cp+tp one key-value head", {"cp": 2, "tp": 2}, fields={"n_kv_heads": 1}),
        zoo("fsdp+tp alibi", {"tp": 2}, *ALIBI),
        zoo("fsdp+tp tied", {"tp": 2}, "tied"),
        zoo("cp+tp alibi", {"cp": 2, "tp": 2}, *ALIBI),
        zoo("cp+tp normed", {"cp": 2, "tp": 2}, *NORMED),
        zoo("pp", {"pp": 4}),
        zoo("pp+tp tied", {"pp": 2, "tp": 2}, "tied"),
        zoo("hsdp", {"dp_replicate": 2}, *NORMED),
        zoo("hsdp+tp", {"dp_replicate": 2, "tp": 2}, *ALIBI),
        zoo("hsdp+cp", {"dp_replicate": 2, "cp": 2}),
        zoo("hsdp+ep", {"dp_replicate": 2, "ep": 2}, fields={"moe": SHARED}),
        zoo("hsdp+pp tied", {"dp_replicate": 2, "pp": 2}, "tied"),
        zoo("fsdp+pp tied", {"pp": 2}, "tied"),
        zoo("fsdp+pp interleaved", {"pp": 2}, fields={"n_layers": 4}, schedule="Interleaved1F1B"),
        zoo("fsdp+ep", {"ep": 2}, fields={"moe": SHARED}),
        zoo("ep", {"ep": 4}, fields={"moe": BIASED}),
        zoo("fsdp+tp in ep", {"ep": 4, "tp": 2}, fields={"moe": BIASED}),
        zoo("ep+etp", {"ep": 2, "tp": 2, "etp": 2}, fields={"moe": BIASED}),
        zoo("pp+ep", {"pp": 2, "ep": 2}, fields={"moe": SHARED}),
    ],
}
MISTAKES = [
    zoo("sums", {"tp": 2}, mistake="gradients are not summed"),
    zoo("norms", {"tp": 2}, *NORMED, mistake="norms see their own channels"),
    zoo("slopes", {"tp": 2}, *ALIBI, mistake="all processes have the first heads' slopes"),
]
# Eight bits of mantissa: 4e-3 for each rounding, of which there are a few dozen on the way.
IN_BF16 = 0.1
BF16 = {"param_dtype": "bfloat16"}
ROUNDED = [
    zoo("fsdp bf16", {}, *NORMED, options=BF16),
    zoo("tp bf16", {"tp": 2}, *ALIBI, options=BF16),
    zoo("ep bf16", {"ep": 2}, fields={"moe": SHARED}, options=BF16),
]
# Each model built, loaded, split and exported by code that has the contract's names alone.
BY_CONTRACT = [
    {
        "model_type": name,
        "mode": f"contract {axis}{' critic' * is_critic}",
        "dims": {axis: 2},
        "is_critic": is_critic,
    }
    for name in ARCHON_MODELS
    for axis in ("tp", "pp")
    for is_critic in (False, True)
]
COMPILED = [
    zoo("tp tied", {"tp": 2}, "tied", options={"enable_compile": True}),
    zoo("fsdp", {}, options={"enable_compile": True}),
]


# Experts of both makes and windows; the zoo has plain ones. The slow tests take every committed
# model, and on four processes every mix of axes.
SHORT = ("deepseek_v3", "gpt_oss")
LONG = [name for name in ARCHON_MODELS if name not in SHORT]
SHORT_MIXES = {"cp+tp alibi", "fsdp+tp tied", "pp", "ep+etp"}
# What another case of the zoo, or a committed model, has too.
LONG_MODES = {"tp selective", "tp critic", "fsdp tied", "cp normed", "cp one key-value head"}
LONG_MODES |= {"tp one key-value head", "cp sdpa", "pp normed", "pp mirrored"}
LONG_MODES |= {"tp shared experts", "ep biased experts", "ep in cp"}

ON_TWO = committed("two", SHORT) + [c for c in ZOO_CASES[2] if c["mode"] not in LONG_MODES]
ON_FOUR = committed("four", SHORT[:1])
ON_FOUR += [case for case in ZOO_CASES[4] if case["mode"] in SHORT_MIXES]
MORE_ON_TWO = committed("two", LONG) + [c for c in ZOO_CASES[2] if c["mode"] in LONG_MODES]
MORE_ON_FOUR = [*committed("four"), *committed("full"), *ZOO_CASES[4]]


def name_of(case):
    return f"{case['model_type']}-{case['mode']}"


def names(cases):
    return [name_of(case) for case in cases]


def launch(cases, processes, folder, timeout_s=280):
    """Runs cases and returns, by name, what each process found."""
    (folder / "cases.json").write_text(json.dumps(cases))
    paths = (REPOSITORY, REPOSITORY / "scaffold" / "runners")
    env = {"HF_HUB_OFFLINE": "1", "PYTHONPATH": os.pathsep.join(map(str, paths))}
    argv = [str(HERE / "worker.py"), str(folder / "cases.json"), str(folder / "results.json")]
    run_ranks(processes, argv, {**os.environ, **env}, timeout_s)
    results = json.loads((folder / "results.json").read_text())
    return {name_of(case): ranks for case, ranks in zip(cases, results, strict=True)}


@pytest.fixture(scope="module")
def on_two(tmp_path_factory):
    return launch(ON_TWO + MISTAKES + ROUNDED + BY_CONTRACT, 2, tmp_path_factory.mktemp("two"))


@pytest.fixture(scope="module")
def on_four(tmp_path_factory):
    return launch(ON_FOUR, 4, tmp_path_factory.mktemp("four"))


def check_equal(ranks):
    for found in ranks:
        assert "failure" not in found, found["failure"]
        assert found["logits"] <= TOLERANCE
        assert found["excess"] <= 1, found
        assert found["norm"] <= TOLERANCE


@pytest.mark.parametrize("name", names(ON_TWO))
def test_two_processes_compute_what_one_does(on_two, name):
    check_equal(on_two[name])


@pytest.mark.parametrize("name", names(BY_CONTRACT))
def test_two_processes_compute_and_export_what_one_does_by_the_contract(on_two, name):
    for found in on_two[name]:
        assert "failure" not in found, found["failure"]
        assert found["error"] < 1e-5  # of the standard deviation: sums are in another order
        assert found["lost"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", names(ON_FOUR))
def test_four_processes_compute_what_one_does(on_four, name):
    check_equal(on_four[name])


@pytest.mark.parametrize("name", names(MISTAKES))
def test_a_mistake_is_seen(on_two, name):
    assert max(found["gradient"] for found in on_two[name]) > A_MISTAKE


@pytest.mark.parametrize("name", names(ROUNDED))
def test_parameters_compute_in_bf16_and_gradients_stay_in_fp32(on_two, name):
    for found in on_two[name]:
        assert "failure" not in found, found["failure"]
        assert 1e-4 < found["logits"] < IN_BF16
        assert found["norm"] < IN_BF16
        assert found["dtype"] == "torch.float32"


@pytest.mark.slow
def test_two_processes_compute_what_one_does_for_every_committed_model(tmp_path):
    for ranks in launch(MORE_ON_TWO, 2, tmp_path).values():
        check_equal(ranks)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_four_processes_compute_what_one_does_in_all_modes(tmp_path):
    for ranks in launch(MORE_ON_FOUR, 4, tmp_path, timeout_s=800).values():
        check_equal(ranks)


@pytest.mark.slow
def test_compiled_blocks_compute_what_one_process_does(tmp_path):
    # PyTorch 2.13 has lost an embedding's gradient where blocks were compiled over split tensors.
    for ranks in launch(COMPILED, 2, tmp_path).values():
        check_equal(ranks)
