"""Answers: what was given for a style's questions, checked against what the manifest accepts."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping
from keyword import iskeyword
from typing import Any, cast

from scaffold.errors import RequestError
from scaffold.templating.spec import Answer, AnswerValue

FROM_NAME = "name:"
"""What an answer's ``default_from`` begins with where a spelling of the name is the default."""

MAX_TEXT = 4096
"""Longest free text that an answer may hold, unless its manifest allows less or more."""


def complete_answers(
    questions: Mapping[str, Answer], given: Mapping[str, Any]
) -> dict[str, AnswerValue]:
    """Return an answer to every question, given or by default, in the order of the questions.

    Args:
        questions: Name to what is accepted.
        given: Name to what was given; None means not given.

    Raises:
        RequestError: An answer is unknown, missing or not acceptable; all missing ones are named.
    """
    unknown = sorted(name for name in given if given[name] is not None and name not in questions)
    if unknown:
        typed = ["--" + name.replace("_", "-") for name in unknown]
        raise RequestError(
            f"the chosen style has no option {', '.join(typed)}",
            code="usage",
            hint=f"it has: {', '.join(row.option for row in questions.values()) or 'none'}",
        )
    missing = missing_answers(questions, given)
    if missing:
        options = ", ".join(f"{row.option} ({row.help})" for row in missing)
        raise RequestError(f"an answer is missing: {options}", code="answer_missing")
    answers = {
        name: check_answer(question, _given_or_default(question, given))
        for name, question in questions.items()
    }
    _check_exclusions(questions, answers)
    return answers


def _check_exclusions(questions: Mapping[str, Answer], answers: Mapping[str, AnswerValue]) -> None:
    for name, question in questions.items():
        both = [each for each in question.excludes if answers[name] and answers.get(each)]
        if both:
            raise RequestError(
                f"{question.option} and {questions[both[0]].option} exclude each other",
                code="usage",
                hint=f"{question.option}: {question.help}",
            )


def missing_answers(
    questions: Mapping[str, Answer], given: Mapping[str, Any]
) -> tuple[Answer, ...]:
    """Return the questions that have neither an answer nor a default."""
    return tuple(
        row
        for name, row in questions.items()
        if given.get(name) is None
        and row.default is None
        and not row.default_from.startswith(FROM_NAME)
    )


def answers_by_name(questions: Mapping[str, Answer], names: Mapping[str, str]) -> dict[str, str]:
    """Return the answers that are a spelling of the unit's name by default."""
    return {
        name: names[row.default_from.removeprefix(FROM_NAME)]
        for name, row in questions.items()
        if row.default_from.startswith(FROM_NAME)
    }


def check_answer(question: Answer, value: Any) -> AnswerValue:
    """Return the value, in the question's type.

    Raises:
        RequestError: The value is not acceptable.
    """
    if question.multiple and isinstance(value, list | tuple):
        texts = [str(check_answer(question, each)) for each in cast("list[Any]", value)]
        return texts[0] if len(texts) == 1 else texts
    types: dict[str, type] = {"str": str, "int": int, "float": float, "bool": bool}
    # Ranges are compared as floats, and a TOML file may hold an int of any length.
    limit = sys.float_info.max
    if type(value) is int and abs(value) > limit:
        raise _refusal(question, f"must be between -{limit:.1e} and {limit:.1e}")
    # `--set rate=1` and a TOML `1` mean 1.0; `type` and not isinstance, since True is an int.
    if question.type == "float" and type(value) is int:
        value = float(value)
    if type(value) is not types[question.type]:
        raise _refusal(question, f"must be {question.type}, not {type(value).__name__}")
    if isinstance(value, float) and not math.isfinite(value):
        raise _refusal(question, f"must be a finite number, not {value}")
    if isinstance(value, str):
        _check_text(question, value)
    else:
        _check_range(question, float(value), "")
    return cast("AnswerValue", value)


def parse_answer(question: Answer, text: str) -> AnswerValue:
    """Return the value of a text, in the question's type.

    Raises:
        RequestError: The text has none.
    """
    if question.multiple and text.startswith("["):
        import json

        try:
            return check_answer(question, json.loads(text))
        except ValueError as error:
            raise _refusal(question, f"is not a JSON list of texts: {error}") from error
    words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    try:
        if question.type == "bool":
            return words[text.lower()]
        if question.type == "int":
            return int(text)
        return float(text) if question.type == "float" else text
    except (ValueError, KeyError) as error:
        raise _refusal(question, f"must be {question.type}, not {text[:80]!r}") from error


def _given_or_default(question: Answer, given: Mapping[str, Any]) -> Any:
    value = given.get(question.name)
    return question.default if value is None else value


def _check_text(question: Answer, value: str) -> None:
    if question.choices and value not in question.choices:
        raise _refusal(question, f"must be one of {', '.join(question.choices)}, not {value!r}")
    if question.pattern and not re.fullmatch(question.pattern, value):
        raise _refusal(
            question, f"cannot be {value[:80]!r}, which is reserved or has other characters"
        )
    _check_range(question, len(value), " characters")
    if question.maximum is None and len(value) > MAX_TEXT:
        raise _refusal(question, f"has {len(value)} characters; {MAX_TEXT} is the limit")
    # Python decodes wrong bytes of a command line as lone surrogates, which no file can hold.
    if any(0xD800 <= ord(char) <= 0xDFFF for char in value):
        raise _refusal(question, "has bytes that are not UTF-8")
    if question.check:
        _check_by_name(question, value)


def _check_by_name(question: Answer, value: str) -> None:
    if question.check == "regex":
        try:
            re.compile(value)
        except re.error as error:
            raise _refusal(question, f"is not a regular expression: {error}") from error
    elif question.check == "identifier" and (not value.isidentifier() or iskeyword(value)):
        raise _refusal(question, f"must be a Python identifier and no keyword, not {value[:80]!r}")
    elif question.check == "dotted":
        parts = re.split(r"[.:]", value)
        if len(parts) < 2 or not all(part.isidentifier() for part in parts):
            raise _refusal(question, f"must be a dotted path (pkg.module.name), not {value[:80]!r}")
    elif question.check == "rows" and value:
        _check_rows(question, value)


def _check_rows(question: Answer, value: str) -> None:
    import json  # 3 ms, and only rows need it

    try:
        # json would read NaN and Infinity, which a template writes as names that Python lacks.
        parsed: Any = json.loads(value, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise _refusal(question, f"is not valid JSON: {error}") from error
    rows = cast("list[object]", parsed if isinstance(parsed, list) else [])
    if not rows or any(row == {} or not isinstance(row, dict) for row in rows):
        raise _refusal(question, "must be a JSON list of objects, each with a column at least")


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _check_range(question: Answer, size: float, unit: str) -> None:
    if question.minimum is not None and size < question.minimum:
        raise _refusal(question, f"is {size:g}{unit}; {question.minimum:g} is the least")
    if question.maximum is not None and size > question.maximum:
        raise _refusal(question, f"is {size:g}{unit}; {question.maximum:g} is the most")


def _refusal(question: Answer, reason: str) -> RequestError:
    return RequestError(
        f"{question.option} {reason}",
        code="answer_invalid",
        hint=f"{question.option}: {question.help}",
    )
