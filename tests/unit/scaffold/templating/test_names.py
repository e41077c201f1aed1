"""Names: every spelling gives one key, and every bad name is refused with its reason."""

from __future__ import annotations

import pytest

from scaffold.errors import RequestError
from scaffold.templating.names import MAX_LENGTH, canonical_key, fold, pascal

WORKFLOW = ("rollout_workflow", "workflow")
REWARD = ("reward_function", "reward_fn", "reward")


@pytest.mark.parametrize(
    ("typed", "suffixes", "key"),
    [
        ("math_debate", (), "math_debate"),
        ("Math Debate", (), "math_debate"),
        ("math-debate", (), "math_debate"),
        ("  math   debate ", (), "math_debate"),
        ("MathDebate", (), "math_debate"),
        ("MathDebateWorkflow", WORKFLOW, "math_debate"),
        ("math_debate_workflow", WORKFLOW, "math_debate"),
        ("Math Debate Rollout Workflow", WORKFLOW, "math_debate"),
        ("exact_reward_fn", REWARD, "exact"),
        ("ExactRewardFn", REWARD, "exact"),
        ("exact_reward_reward_fn", REWARD, "exact"),
        ("GSM8K", (), "gsm8k"),
        ("GSM8KReward", REWARD, "gsm8k"),
        ("gsm8k", (), "gsm8k"),
        ("clevr_count_70k", (), "clevr_count_70k"),
        ("HTTPServer", (), "http_server"),
        ("MathQA", (), "math_qa"),
        ("Math2Debate", (), "math2_debate"),
        ("RLVRWorkflow", WORKFLOW, "rlvr"),
        ("__init__x__", (), "init_x"),
        ("workflow_of_math", WORKFLOW, "workflow_of_math"),
        ("a" * MAX_LENGTH, (), "a" * MAX_LENGTH),
    ],
)
def test_any_spelling_gives_the_canonical_key(typed: str, suffixes: tuple[str, ...], key: str):
    assert canonical_key(typed, suffixes) == key


@pytest.mark.parametrize(
    ("typed", "code"),
    [
        ("", "name_empty"),
        ("   ", "name_empty"),
        ("_-_", "name_empty"),
        ("a/b", "name_path"),
        ("a\\b", "name_path"),
        ("..", "name_path"),
        ("a..b", "name_path"),
        ("/etc/passwd", "name_path"),
        ("naïve", "name_non_ascii"),
        ("математика", "name_non_ascii"),
        ("fi\N{LATIN SMALL LIGATURE FI}", "name_non_ascii"),
        ("\N{GRINNING FACE}", "name_non_ascii"),
        ("a.b", "name_characters"),
        ("a\nb", "name_characters"),
        ("a\x00b", "name_characters"),
        ('a"b', "name_characters"),
        ("{{ key }}", "name_characters"),
        ("$(ls)", "name_characters"),
        ("2fast", "name_digit"),
        ("a" * (MAX_LENGTH + 1), "name_length"),
        ("class", "name_keyword"),
        ("Class", "name_keyword"),
        ("match", "name_keyword"),
        ("type", "name_keyword"),
        ("None", "name_keyword"),
        ("list", "name_builtin"),
        ("Print", "name_builtin"),
        ("json", "name_stdlib"),
        ("random", "name_stdlib"),
        ("con", "name_reserved"),
        ("COM1", "name_reserved"),
        ("torch", "name_reserved"),
        ("reward", "name_kind"),
        ("RewardFn", "name_kind"),
        ("json_reward", "name_stdlib"),
    ],
)
def test_a_bad_name_is_refused_with_its_reason(typed: str, code: str):
    with pytest.raises(RequestError) as refusal:
        canonical_key(typed, REWARD, reserved=("torch",))
    assert refusal.value.code == code
    assert refusal.value.exit_status == 2
    assert refusal.value.hint


def test_a_very_long_name_does_not_flood_the_message():
    with pytest.raises(RequestError) as refusal:
        canonical_key("x" * 10_000)
    assert len(refusal.value.message) < 200


@pytest.mark.parametrize(
    ("key", "name"), [("math_debate", "MathDebate"), ("gsm8k", "Gsm8k"), ("a_1b", "A1b")]
)
def test_pascal_gives_class_names(key: str, name: str):
    assert pascal(key) == name
    assert name.isidentifier()


def test_fold_sees_through_spellings():
    assert fold("hh-rlhf") == fold("HH_RLHF") == fold("hhrlhf")
    assert fold("gsm8k") != fold("gsm8")
