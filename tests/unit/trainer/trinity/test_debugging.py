from __future__ import annotations

from typing import Any

from areal.api.cli_args import GenerationHyperparameters
from areal.experimental.trinity.package import load_package
from areal.trainer.report.page import load_template
from areal.trainer.trinity.debugging import page_content, run_task, summary
from tests.fakes import InstantEngine, tiny_tokenizer

TOKENIZER = tiny_tokenizer("0123456789+=")
PACKAGE = load_package()
ROW = {"prompt": "1+1=", "response": "2"}


class Shown(PACKAGE.Workflow):
    """Asks, and rewards tokens."""

    def run(self) -> list[Any]:
        answer = self.model.chat([{"role": "user", "content": self.task.task_desc}])[0]
        answer.token_level_reward = [0.5, 0.0]
        answer.info = {"note": "<b>"}
        return [answer]


class Failing(Shown):
    """Asks and fails."""

    def run(self) -> list[Any]:
        super().run()
        raise ValueError("no luck")


def debugged(kind: Any) -> Any:
    engine = InstantEngine(lambda _: [*TOKENIZER.encode("2"), TOKENIZER.eos_token_id], 3)
    gconfig = GenerationHyperparameters(max_new_tokens=4)
    return run_task({"workflow_type": kind}, gconfig, TOKENIZER, engine, ROW)


def test_a_page_shows_messages_tokens_masks_and_reward() -> None:
    task = debugged(Shown)
    content = page_content(task)
    (sequence,) = content["sequences"]
    assert [token["is_trained"] for token in sequence["tokens"]] == [False] * 4 + [True] * 2
    assert [token["reward"] for token in sequence["tokens"]][4:] == ["0.5", "0"]
    assert sequence["tokens"][4]["version"] == 3
    html = load_template("trinity_debug.html.jinja").render(content)
    assert 'class="trained" title="token 5, log-probability -0.5000' in html
    assert "&lt;b&gt;" in html
    assert summary(task).splitlines()[-1] == "sequence 0: 6 tokens, 2 trained on, reward 0.5"


def test_a_task_that_fails_shows_how_far_it_came() -> None:
    task = debugged(Failing)
    assert task.trajectory is None
    assert summary(task).splitlines()[-1] == "failed: ValueError: no luck"
    assert page_content(task)["answers"][0]["text"] == "2"
    assert "ValueError: no luck" in load_template("trinity_debug.html.jinja").render(
        page_content(task)
    )
