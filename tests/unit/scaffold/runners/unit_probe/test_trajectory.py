from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

RUNNERS = Path(__file__).parents[5] / "scaffold" / "runners"
VOCABULARY = 11
PROMPT, FIRST, FEEDBACK, SECOND = (1, 2, 3), (4, 5), (6,), (7, 8, 9)
TEMPERATURE = 0.7


sys.path.insert(0, str(RUNNERS))
from unit_probe import trajectory as checks  # noqa: E402  (needs the path)


class TableModel:
    """Gives logits that depend on the token before and on the position."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(3)
        self.table = torch.randn(VOCABULARY, VOCABULARY, generator=generator)

    def __call__(self, ids: Any) -> Any:
        positions = torch.arange(ids.shape[1])[None, :, None]
        return SimpleNamespace(logits=self.table[ids] * (1 + 0.1 * positions))


MODEL = TableModel()


def turn(prompt: tuple[int, ...], output: tuple[int, ...]) -> Any:
    ids = torch.tensor([prompt + output])
    logprobs = (MODEL(ids).logits[0] / TEMPERATURE).log_softmax(-1)
    start = len(prompt) - 1
    values = tuple(float(logprobs[start + i, token]) for i, token in enumerate(output))
    return checks.Turn(prompt, output, values, (3,) * len(output), TEMPERATURE)


TURNS = [turn(PROMPT, FIRST), turn(PROMPT + FIRST + FEEDBACK, SECOND)]


def sound() -> dict[str, Any]:
    """Returns the trajectory of the two turns."""
    turns = [-1] * 3 + [0] * 2 + [-1] + [1] * 3
    first, second = (list(each.logprobs) for each in TURNS)
    mask = torch.tensor([turns]) >= 0
    return {
        "input_ids": torch.tensor([PROMPT + FIRST + FEEDBACK + SECOND], dtype=torch.int32),
        "attention_mask": torch.ones(1, 9, dtype=torch.bool),
        "loss_mask": mask.int(),
        "logprobs": torch.tensor([[0.0] * 3 + first + [0.0] + second]),
        "versions": torch.where(mask, 3, -1).int(),
        "turn_ids": torch.tensor([turns], dtype=torch.int32),
        "rewards": torch.tensor([1.0]),
    }


def problems(trajectory: Any, turns: Any = None, model: Any = MODEL) -> list[tuple[str, str]]:
    return checks.problems(trajectory, TURNS if turns is None else turns, model)


def test_a_sound_trajectory_has_no_problems() -> None:
    assert problems(sound()) == []
    assert checks.warnings(sound(), TURNS) == []


def without(key: str) -> Callable[[dict[str, Any]], None]:
    return lambda t: t.pop(key)


def put(key: str, change: Callable[[Any], Any]) -> Callable[[dict[str, Any]], None]:
    return lambda t: t.__setitem__(key, change(t[key]))


def cell(key: str, place: int, value: float) -> Callable[[dict[str, Any]], None]:
    return lambda t: t[key].__setitem__((0, place), value)


FAULTS: list[tuple[str, Callable[[dict[str, Any]], Any], str, str]] = [
    ("no ids", without("input_ids"), "keys", "lacks input_ids; it has attention_mask"),
    ("no rewards", without("rewards"), "keys", "lacks rewards"),
    ("list", put("loss_mask", lambda x: x.tolist()), "dtypes", "loss_mask is a list; it must be a"),
    (
        "bool loss",
        put("loss_mask", lambda x: x.bool()),
        "dtypes",
        "loss_mask is bool; it must be i",
    ),
    ("int mask", put("attention_mask", lambda x: x.int()), "dtypes", "attention_mask is int32"),
    (
        "double",
        put("logprobs", lambda x: x.double()),
        "dtypes",
        "logprobs is float64; it must be f",
    ),
    ("half", put("rewards", lambda x: x.half()), "dtypes", "rewards is float16"),
    ("long float", put("input_ids", lambda x: x.float()), "dtypes", "input_ids is float32"),
    (
        "flat",
        put("input_ids", lambda x: x[0]),
        "shapes",
        "input_ids has the shape (9,); it must be",
    ),
    (
        "short",
        put("logprobs", lambda x: x[:, :5]),
        "shapes",
        "logprobs has the shape (1, 5); besid",
    ),
    ("column", put("rewards", lambda x: x[None]), "shapes", "rewards has the shape (1, 1); beside"),
    ("scalar", put("rewards", lambda x: x[0]), "shapes", "rewards has the shape ()"),
    ("empty", put("input_ids", lambda x: x[:, :0]), "shapes", "input_ids has the shape (1, 0)"),
    ("nan", cell("logprobs", 4, float("nan")), "finite", "logprobs holds NaN or infinity"),
    ("inf", put("rewards", lambda x: x / 0), "finite", "rewards holds NaN or infinity"),
    (
        "probability",
        put("logprobs", lambda x: x.exp()),
        "logprobs",
        "a log-probability is positive",
    ),
    ("negative id", cell("input_ids", 0, -1), "input_ids", "a token id is negative"),
    ("two", cell("loss_mask", 4, 2), "loss_mask", "values other than 0 and 1"),
    ("left padding", cell("attention_mask", 0, False), "attention_mask", "must be True on a sequ"),
    ("on padding", cell("attention_mask", 8, False), "loss_mask", "loss_mask is 1 on padding"),
    ("all ones", put("loss_mask", torch.ones_like), "loss_mask", "1 on 4 of 9 tokens the engine"),
    (
        "shifted",
        put("loss_mask", lambda x: x.roll(-1)),
        "loss_mask",
        "set it only on response.outp",
    ),
    ("all zeros", put("loss_mask", torch.zeros_like), "loss_mask", "nothing would be trained on"),
    ("one left out", cell("loss_mask", 7, 0), "loss_mask", "0 on 1 of 3 tokens of a completion"),
    (
        "retokenised",
        cell("input_ids", 1, 9),
        "loss_mask",
        "does not begin with the prompt that was",
    ),
    ("other logprob", cell("logprobs", 4, -0.5), "logprobs", "differ from response.output_logprob"),
    (
        "zeros",
        put("logprobs", torch.zeros_like),
        "logprobs",
        "differ from response.output_logprobs",
    ),
    ("old version", cell("versions", 7, 2), "versions", "differ from response.output_versions"),
    ("prompt version", cell("versions", 0, 3), "versions", "must be -1 on tokens that were not"),
    ("turn", cell("turn_ids", 7, -1), "turn_ids", "must count turns from 0"),
    ("prompt turn", cell("turn_ids", 5, 1), "turn_ids", "must be -1 on tokens that were not gener"),
]


@pytest.mark.parametrize(
    ("damage", "check", "message"), [row[1:] for row in FAULTS], ids=[row[0] for row in FAULTS]
)
def test_every_damaged_tensor_is_found(damage: Any, check: str, message: str) -> None:
    trajectory = sound()
    damage(trajectory)
    name, text = problems(trajectory)[0]
    assert name == check
    assert message in text


@pytest.mark.parametrize(("value", "found"), [([1], "list"), ({}, "dict"), (1.0, "float")])
def test_what_is_no_trajectory_is_named(value: Any, found: str) -> None:
    assert problems(value) == [
        ("keys", f"arun_episode returned {found}; return a dictionary of tensors, or None")
    ]


def test_other_tensors_need_the_batch_dimension_only() -> None:
    assert problems({**sound(), "features": torch.zeros(1, 4, 4), "note": "text"}) == []
    name, text = problems({**sound(), "features": torch.zeros(4)})[0]
    assert (name, text) == ("shapes", "features has the shape (4,); its first dimension must be 1")


def test_padding_and_several_sequences_are_fine() -> None:
    two = {
        key: torch.cat([value, value]) if key == "rewards" else torch.cat(
            [torch.nn.functional.pad(value, (0, 2))] * 2
        )
        for key, value in sound().items()
    }  # fmt: skip
    assert problems(two) == []
    two["loss_mask"][1, 2] = 1
    assert problems(two)[0][0] == "loss_mask"


def test_an_episode_that_never_asked_the_engine() -> None:
    assert problems(sound(), turns=[])[0][0] == "generation"


def test_a_turn_that_is_left_out_is_a_warning() -> None:
    trajectory = sound()
    trajectory["loss_mask"][0, 3:5] = 0
    assert problems(trajectory) == []
    assert checks.warnings(trajectory, TURNS) == [
        ("loss_mask", "completion 1 of an episode is not trained on")
    ]


def test_a_stop_token_may_be_cut_off() -> None:
    trajectory = {k: v if k == "rewards" else v[:, :-1] for k, v in sound().items()}
    assert problems(trajectory) == []


def test_missing_versions_are_a_warning() -> None:
    trajectory = sound()
    del trajectory["versions"]
    assert problems(trajectory) == []
    assert checks.warnings(trajectory, TURNS)[0][0] == "keys"


def test_an_engine_that_lies_is_found_by_the_model() -> None:
    lies = [checks.Turn(*(TURNS[0].prompt, FIRST, (-0.1, -0.2), (3, 3), TEMPERATURE)), TURNS[1]]
    trajectory = sound()
    trajectory["logprobs"][0, 3:5] = torch.tensor([-0.1, -0.2])
    assert problems(trajectory, lies)[0][1].startswith("the model computes other log-probabilities")
    assert problems(trajectory, lies, model=None) == []


def test_another_temperature_is_found_by_the_model() -> None:
    hot = [checks.Turn(t.prompt, t.output, t.logprobs, t.versions, 1.0) for t in TURNS]
    assert problems(sound(), hot)[0][0] == "logprobs"


def test_a_turn_keeps_what_the_workflow_may_edit() -> None:
    response = SimpleNamespace(output_tokens=[1], output_logprobs=[-1.0], output_versions=[0])
    config = SimpleNamespace(greedy=True, temperature=0.5)
    kept = checks.Turn.of(SimpleNamespace(input_ids=[2], gconfig=config), response)
    response.output_tokens.append(5)
    assert (kept.output, kept.temperature) == ((1,), 1.0)


def test_batches_need_equal_keys_and_types() -> None:
    assert checks.batch_problems([]) == []
    assert checks.batch_problems([sound(), sound()]) == []
    other = sound()
    del other["turn_ids"]
    assert "differ in their keys (turn_ids)" in checks.batch_problems([sound(), other])[0][1]
    wide = sound()
    wide["versions"] = wide["versions"].long()
    text = checks.batch_problems([sound(), wide])[0][1]
    assert text == "versions is int32 and int64 in different episodes"
