"""Spellings: what other units have decides which variable is meant."""

from __future__ import annotations

import pytest

from scaffold.target.target import key_names
from scaffold.templating.render import render_files
from scaffold.templating.spec import FileRule, fill
from scaffold.units.init.spellings import (
    Evidence,
    Lexicon,
    Name,
    Seen,
    as_pattern,
    as_template,
    canon,
    compare,
    flattened,
    slots,
    words_of,
)


def shown(text: str, others: dict[str, str], *, is_prose: bool = False, key: str = "heise") -> str:
    """Returns a text with <variable> for each slot; ``others`` are the texts of other units."""
    own = Name(key)
    names = {each: Name(each) for each in (key, *others)}
    evidence: Evidence = {}
    for each, theirs in others.items():
        seen = compare(own.pieces(text), names[each].pieces(theirs), each)
        assert seen is not None
        for at, row in seen.items():
            evidence.setdefault(at, []).append(row)
    found, last = "", 0
    for slot in slots(text, own, names, evidence, is_prose=is_prose):
        found, last = f"{found}{text[last : slot.start]}<{slot.variable}>", slot.end
    return found + text[last:]


@pytest.mark.parametrize(
    ("text", "theirs", "expected"),
    [
        ("x heise", "x aio_pika", "x <key>"),
        ("x heise", "x aio-pika", "x <dashed>"),
        ("x heise", "x aio pika", "x <words>"),
        ("x heise", "x aiopika", "x <flat>"),
        ("x HEISE", "x AIO_PIKA", "x <upper>"),
        ("x HEISE", "x AIOPIKA", "x <flat_upper>"),
        ("x Heise", "x AioPika", "x <pascal>"),
        ("x Heise", "x Aio pika", "x <title>"),
        ("x Heise", "x Aio Pika", "x <headline>"),
        ("HeiseScraper", "AioPikaScraper", "<pascal>Scraper"),
        ("getHeise", "getAioPika", "get<pascal>"),
        # The very same word is there for the other unit: it has nothing to do with the name.
        ("import heise", "import heise", "import heise"),
    ],
)
def test_a_name_of_two_words_shows_the_spelling(text: str, theirs: str, expected: str):
    assert shown(text, {"aio_pika": theirs}) == expected


def test_most_units_decide():
    theirs = {"aio_pika": "aio-pika.de", "new_site": "new-site.de", "the_sun": "the_sun.de"}
    assert shown("heise.de", theirs) == "<dashed>.de"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("of heise, and", "of <words>, and"),
        ("Heise is", "<title> is"),
        ("HeiseParser is", "<pascal>Parser is"),
        ("https://heise.de", "https://<dashed>.de"),
        ("heiseUrl", "<camel>Url"),
        ("<!-- pkg-heise @heise-->", "<!-- pkg-<dashed> @<key>-->"),
        ("heises Heises preheise HEISEN", "heises Heises preheise HEISEN"),
    ],
)
def test_without_others_the_context_decides(text: str, expected: str):
    assert shown(text, {}, is_prose=True) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("DPOTrainer", "<flat_upper>Trainer"),
        ("DPO_LOSS DPO", "<upper>_LOSS <upper>"),
        ("X_DPO", "X_<upper>"),
    ],
)
def test_capitals_in_a_class_s_name_have_no_underscore_between_them(text: str, expected: str):
    assert shown(text, {"sft": text.replace("DPO", "SFT")}, key="dpo") == expected


def test_an_identifier_is_spelled_alike_in_all_places():
    own, other = Name("grpo"), Name("ln_tuning")
    names = {"grpo": own, "ln_tuning": other}
    lexicon = Lexicon()
    text = "MAP_GRPO_X"
    lexicon.add(text, own.pieces(text), {4: [Seen("ln_tuning", "LNTUNING")]})
    assert [each.variable for each in slots("= MAP_GRPO_X", own, names, {}, lexicon=lexicon)] == [
        "flat_upper"
    ]
    assert [each.variable for each in slots("= MAP_GRPO_Y", own, names, {}, lexicon=lexicon)] == [
        "upper"
    ]


def test_a_class_s_own_spelling_is_an_answer():
    names = {"grpo": Name("grpo", class_prefix="GRPO"), "nash": Name("nash", class_prefix="NasH")}
    (slot,) = slots("GRPOTrainer", names["grpo"], names, {0: [Seen("nash", "NasH")]})
    assert (slot.start, slot.end, slot.variable) == (0, 4, "class_prefix")
    named = {"mae": Name("mae", class_name="MeanError")}
    assert [each.variable for each in slots("x MeanError mae", named["mae"], named, {})] == [
        "class_name",
        "key",
    ]


@pytest.mark.parametrize("variable", list(key_names("aio_pika")))
def test_where_a_name_cannot_be_it_need_not_be_looked_for(variable: str):
    text, name = f"x = <{key_names('aio_pika')[variable]}>", Name("aio_pika")
    assert name.occurs_in(text)
    assert name.may_occur_in(flattened(text))
    assert not name.may_occur_in(flattened("pika: aio"))
    assert Name("aio_pika", class_name="Broker").may_occur_in(flattened("Broker"))


def test_counterparts_are_compared_word_by_word():
    one, two = Name("one"), Name("two")
    assert canon(one.pieces("class OneThing: x")) == canon(two.pieces("class TwoThing: x"))
    assert compare(one.pieces("OneThing(1)"), two.pieces("TwoThing(2)"), "two") is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "plain\n",
        "{{ x }} {% y %} {# z #} {{{ {{% }} %}",
        'f"{heise}" {heise} {{heise}} {%heise%} {#heise#}',
        "heise{heise{{heise",
        "a\r\nheise\r\n{\r{",
        "no newline at the end heise",
        "\n\n  {% raw %}{{ heise }}{% endraw %}\n\n",
        "-%} {%- heise -%} {{- heise -}}",
        "\ufeffheise \x00 \x0c \u2028 \x85 heise",
        "'{{' \"{%\" \\{{ heise",
        "# heise\n## heise\n  {#\n",
    ],
)
def test_a_template_renders_the_text_that_it_was_made_of(text: str):
    name = Name("heise")
    template = as_template(text, slots(text, name, {"heise": name}, {}))
    sources = {"f.jinja": template.encode()}
    (made,) = render_files([FileRule("f.jinja", "f", "data")], sources, key_names("heise"))
    assert made.data.decode() == text
    (other,) = render_files([FileRule("f.jinja", "f", "data")], sources, key_names("x_y"))
    assert "heise" not in other.data.decode()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("pkg.heise:HeiseScraper", "pkg.{key}:{pascal}Scraper"),
        ('{"heise"}', '{"{key}"}'),
        ("{heise}", "{{key}}"),
        ("{other} heise", None),
        ("{ other } heise", "{ other } {key}"),
        ("no name", "no name"),
    ],
)
def test_a_pattern_is_given_where_braces_leave_no_doubt(text: str, expected: str | None):
    name = Name("heise")
    pattern = as_pattern(text, slots(text, name, {"heise": name}, {}))
    assert pattern == expected
    if pattern is not None:
        assert fill(pattern, key_names("heise")) == text


def test_words():
    assert words_of("HTTPServer2_x-y") == ["http", "server2", "x", "y"]
