from __future__ import annotations

from areal.utils.latest_prompts import MAX_LATEST_PROMPTS, LatestPrompts, Prompt
from tests.fakes import tiny_tokenizer

TOKENIZER = tiny_tokenizer("0123456789")


def test_a_prompt_is_rendered_once_as_long_as_it_is_among_the_latest() -> None:
    prompts, rendered = LatestPrompts(TOKENIZER), []

    def get(number: int) -> Prompt:
        def render() -> list[int]:
            rendered.append(number)
            return TOKENIZER.encode(str(number))

        return prompts.get(number, render)

    for number in range(MAX_LATEST_PROMPTS):
        assert get(number) == (TOKENIZER.encode(str(number)), str(number))
    assert get(0) == get(0)
    assert rendered == list(range(MAX_LATEST_PROMPTS))
    get(MAX_LATEST_PROMPTS)  # for which the oldest makes room
    get(1)
    get(0)
    assert rendered == [*range(MAX_LATEST_PROMPTS + 1), 0]


def test_a_text_belongs_to_its_tokens() -> None:
    prompt = LatestPrompts(TOKENIZER).get("12", lambda: TOKENIZER.encode("12"))
    assert prompt.text_of(TOKENIZER.encode("12")) == "12"
    assert prompt.text_of(TOKENIZER.encode("1")) is None
    assert Prompt([1]).text_of([1]) is None
