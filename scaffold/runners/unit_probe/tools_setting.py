"""A chat with tools, and a tiny model that calls them: what each call answers is known."""

from __future__ import annotations

import itertools
from typing import Any

from unit_probe import episode_setting, kit, probe_tools
from unit_probe import trajectory as checks

TEMPLATE = (
    "{% if tools %}<system>{{ tools | tojson }}<eos>{% endif %}"
    "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}"
    "{% for call in m['tool_calls'] or [] %}\n<tool_call>\n{{ call['function'] | tojson }}\n"
    "</tool_call>{% endfor %}<eos>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
# Each call is one token of the model, with words that its answer must hold.
CALLS = {
    '<tool_call>{"name": "probe_double", "arguments": {"number": 21}}</tool_call>': "doubled: 42",
    '<tool_call>{"name": "probe_fail", "arguments": {}}</tool_call>': "this tool always fails",
    '<tool_call>{"name": "probe_double", "arguments": {"number": "x"}}</tool_call>': "",
    '<tool_call>{"name": "probe_double", </tool_call>': "",
}
# That of the end token in `kit.make_model`: most completions call something, some several times.
CALL_WEIGHT = 1.8


class ToolsSetting(episode_setting.TextSetting):
    """Messages in, calls and text out, and a reward function."""

    def __init__(self) -> None:
        self.tokenizer = kit.make_tokenizer()
        self.tokenizer.chat_template = TEMPLATE
        self.tokenizer.add_tokens(list(CALLS))
        self.model = kit.make_model(self.tokenizer)
        head = self.model.get_output_embeddings().weight.data
        for token in self.tokenizer.convert_tokens_to_ids(list(CALLS)):
            head[token] = 0.0
            head[token, 0] = CALL_WEIGHT
        self.num_answered = 0

    def arguments(self, judge: Any, temperature: float) -> dict[str, Any]:
        """Return what a constructor may ask for; the tools are those of the probe."""
        tools = [probe_tools.probe_double, probe_tools.probe_fail]
        return {**super().arguments(judge, temperature), "tools": tools}

    def problems(self, tensors: Any, turns: list[checks.Turn]) -> list[checks.Problem]:
        """Return what is wrong with a trajectory, and with what the model read of its calls."""
        return super().problems(tensors, turns) or self._unanswered(turns)

    def check_scenario(self, findings: kit.Findings, rows: list[dict[str, Any]]) -> None:
        """Check that the model called tools at all."""
        if not self.num_answered:
            findings.warned("tools", "no completion called a tool, so no call was tested")

    def _unanswered(self, turns: list[checks.Turn]) -> list[checks.Problem]:
        for turn, after in itertools.pairwise(turns):
            said = self.tokenizer.decode(turn.output)
            read = self.tokenizer.decode(after.prompt[len(turn.prompt) + len(turn.output) :])
            for call, answer in CALLS.items():
                if call in said and answer not in read:
                    text = f"the model called {call!r} and received {read!r}"
                    return [("tools", f"{text}, which lacks its result {answer!r}")]
                self.num_answered += call in said
        return []
