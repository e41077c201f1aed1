"""One reader for every form of file, and no type is guessed."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from tokenizers import processors
from transformers import PreTrainedTokenizerFast

from areal.dataset.shaping import (
    TEXTS_AT_ONCE,
    Messages,
    answered_rows,
    join_prompt,
    join_texts,
    load_rows,
    rl_rows,
    rw_rows,
    sft_row,
    sft_rows,
    to_messages,
)
from areal.testing import make_tokenizer, write_rows
from areal.utils.hf_utils import apply_chat_template

ODD = ["2014-07-02", "007", "1e5", "True", "None", "NaN", " 3 ", "12:30", "3,000", "\N{SNOWMAN}"]
ROWS = [{"question": f"{n}?", "answer": text} for n, text in enumerate(ODD)]


@pytest.mark.parametrize("suffix", ["jsonl", "json", "csv", "parquet"])
@pytest.mark.parametrize("is_file", [False, True])
def test_text_stays_what_it_is(suffix: str, is_file: bool, tmp_path: Path) -> None:
    place = write_rows(tmp_path / "data", ROWS, suffix)
    path, split = (f"{place}/train.{suffix}", None) if is_file else (place, "train")
    assert load_rows(path, split, ("question", "answer")) == ROWS
    shaped = rl_rows(ROWS, lambda row: (to_messages(row["question"]), row["answer"]), None, None)
    assert shaped["answer"][:] == ODD


def test_columns_that_a_reward_reads_too_are_kept() -> None:
    rows = [{"question": "?", "answer": "5", "level": 3}]
    shaped = rl_rows(rows, lambda row: (to_messages("?"), "5"), None, None, keep=["level"])
    assert shaped.column_names == ["messages", "answer", "level"]
    assert shaped["level"][:] == [3]


def test_a_gap_in_a_further_column_keeps_its_row(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"question": "?", "answer": "5", "level": level}
                                  for level in ("easy", "")]  # fmt: skip
    place = write_rows(tmp_path / "data", rows)
    assert load_rows(place, "train", ("question", "answer"), also=["level"]) == rows
    with pytest.raises(ValueError, match="lacks the column 'rank'"):
        load_rows(place, "train", ("question", "answer"), also=["rank"])


def test_a_number_that_is_none_is_no_value(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"q": "x", "a": NaN}\n{"q": "y", "a": 0.5}\n{"q": "z", "a": Infinity}\n')
    assert load_rows(str(path), None, ["q", "a"]) == [{"q": "y", "a": 0.5}]


def test_rows_without_a_value_go(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    gap: list[dict[str, Any]] = [{"question": "?", "answer": ""}]
    place = write_rows(tmp_path / "data", ROWS + gap)
    assert load_rows(place, "train", ("question", "answer")) == ROWS
    with pytest.raises(ValueError, match="no rows with values"):
        load_rows(write_rows(tmp_path / "gap", gap), "train", ("question", "answer"))
    with pytest.raises(ValueError, match="lacks the column 'gold'"):
        load_rows(place, "train", ("question", "gold"))
    with pytest.raises(ValueError, match="does not exist"):
        load_rows("./gone", "train", ("question",))


def test_no_row_may_be_left() -> None:
    rows = rl_rows(ROWS, lambda row: (to_messages("?"), "5"), make_tokenizer(), 1)
    assert (len(rows), rows.column_names) == (0, ["messages", "answer"])


def test_columns_inside_objects_and_columns_of_which_one_is_enough(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"instruction": "Add.", "input": "2+3", "solution": {"final": {"value": "5"}}},
        {"instruction": "Say hi.", "input": "", "solution": {"final": {"value": "hi"}}},
        {"instruction": "Nothing.", "input": "", "solution": {"final": None}},
        {"instruction": "", "input": "", "solution": {"final": {"value": "7"}}},
        {"instruction": "No object.", "input": "", "solution": None},
    ]
    asks = ["instruction", "input"]
    for suffix in ("jsonl", "parquet"):
        place = write_rows(tmp_path / suffix, rows, suffix)
        found = load_rows(place, "train", [asks, "solution.final.value"])
        assert [row["solution.final.value"] for row in found] == ["5", "hi"]
        assert [join_texts(row, asks) for row in found] == ["Add.\n\n2+3", "Say hi."]
        with pytest.raises(ValueError, match="no rows with values"):
            load_rows(place, "train", ["solution.end"])
        with pytest.raises(ValueError, match=r"lacks the column 'gold\.final'"):
            load_rows(place, "train", ["gold.final"])


def _with_bos(template: str | None) -> PreTrainedTokenizerFast:
    made = PreTrainedTokenizerFast(
        tokenizer_object=copy.deepcopy(make_tokenizer().backend_tokenizer),
        bos_token="<pad>",
        eos_token="<eos>",
        chat_template=template,
    )
    made.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<pad> $A", special_tokens=[("<pad>", made.bos_token_id)]
    )
    return made


@pytest.mark.parametrize(
    "template",
    [None, "{{ bos_token }}{% for m in messages %}{{ m['content'] }}{% endfor %}="],
    ids=["lines", "chat"],
)
def test_many_texts_are_encoded_as_each_alone(template: str | None) -> None:
    tokenizer = _with_bos(template)
    problems = [(f"{n}+{n}", str(2 * n)) for n in range(TEXTS_AT_ONCE + 3)]

    def split(row: Any) -> tuple[Messages, str]:
        return to_messages(row[0]), row[1]

    def sides(row: Any) -> dict[str, Any]:
        both = join_prompt(row[0], to_messages(row[1], "assistant"))
        return {"chosen": both, "rejected": row[0] if row[1] == "4" else both}

    alone = [sft_row(tokenizer, *split(row)) for row in problems]
    assert sft_rows(problems, split, tokenizer, None).to_list() == alone
    assert alone[0]["input_ids"][0] == tokenizer.bos_token_id
    if template:
        expected = apply_chat_template(tokenizer, to_messages("7+7"), add_generation_prompt=True)
    else:
        expected = tokenizer.encode("7+7\n")
    assert alone[7]["input_ids"] == [*expected, *tokenizer.encode("14")[1:], tokenizer.eos_token_id]
    pairs = rw_rows(problems, sides, tokenizer, None)
    assert pairs["chosen_ids"][:] == [row["input_ids"] for row in alone]
    whole = [*tokenizer.encode("2+2"), tokenizer.eos_token_id]
    assert pairs["rejected_ids"][2] == whole
    assert pairs["rejected_ids"][3] == alone[3]["input_ids"]
    limit = len(alone[10]["input_ids"])
    assert len(sft_rows(problems, split, tokenizer, limit)) == 50


def test_what_comes_back_is_rendered_and_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = _with_bos("{% for m in messages %}{{ m['content'] }}{% endfor %}=")
    texts: list[str] = []

    def encode(self: Any, some: list[str], *args: Any, **kwargs: Any) -> Any:
        texts.extend(some)
        return whole(self, some, *args, **kwargs)

    whole = type(tokenizer).__call__
    monkeypatch.setattr(type(tokenizer), "__call__", encode)
    chats = [(to_messages(text), answer) for text, answer in [("1+1", "2"), ("2+0", "2")] * 3]
    rows = answered_rows(tokenizer, chats)
    assert texts == ["1+1=", "2+0=", "2"]
    assert rows[0] == rows[2] == sft_row(tokenizer, *chats[0])
    rows[0]["input_ids"].append(0)
    assert rows[0] != rows[2]
