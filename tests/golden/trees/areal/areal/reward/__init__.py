REWARDS: dict[str, str] = {
    "plain_code": "areal.reward.plain_code:plain_code_reward_fn",
    "plain_exact": "areal.reward.plain_exact:plain_exact_reward_fn",
    "plain_judge": "areal.reward.plain_judge:plain_judge_reward_fn",
    "plain_math": "areal.reward.plain_math:plain_math_reward_fn",
    "plain_regex": "areal.reward.plain_regex:plain_regex_reward_fn",
}
