"""Spellings: which variable is meant where, and texts that come back from templates of them."""

from __future__ import annotations

import pytest

from scaffold.target.target import key_names
from scaffold.templating.render import render_files
from scaffold.templating.spec import FileRule, fill
from scaffold.units.init.name_forms import (
    Hit,
    Spelling,
    as_pattern,
    as_template,
    bound_names,
    words_of,
)


def shown(spelling: Spelling, path: str, text: str) -> str:
    """Returns a text with <variable> for each hit."""
    found, last = "", 0
    for hit in spelling.hits_in_file(path, text):
        found += text[last : hit.start] + f"<{hit.variable}>"
        last = hit.end
    return found + text[last:]


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("a.py", "class HeiseScraper: ...", "class <pascal>Scraper: ..."),
        ("a.py", "def heise_page(): ...", "def <key>_page(): ..."),
        ("a.py", 'X = "heise"', 'X = "<key>"'),
        ("a.py", 'X = "https://heise.de/"', 'X = "https://<dashed>.de/"'),
        ("a.py", 'X = "the heise site"', 'X = "the <words> site"'),
        ("a.py", 'X = "Heise"', 'X = "<title>"'),
        ("a.py", "# heise, of old", "# <words>, of old"),
        ("a.py", "HEISE_URL = 1", "<upper>_URL = 1"),
        ("a.py", 'X = "heiseUrl"', 'X = "<camel>Url"'),
        ("a.py", 'X = "heises Heises preheise HEISEN"', 'X = "heises Heises preheise HEISEN"'),
        ("a.py", "import os\nos.heise()", "import os\nos.heise()"),
        ("a.py", "from pkg.heise import x", "from pkg.<key> import x"),
        ("a.py", "from other.heise import x", "from other.heise import x"),
        ("a.py", "from . import heise\nheise.run()", "from . import <key>\n<key>.run()"),
        ("a.py", "import pkg.heise\npkg.heise.run()", "import pkg.<key>\npkg.<key>.run()"),
        ("a.py", "x = heise(1)", "x = heise(1)"),
        ("a.py", "def f(heise):\n    return heise", "def f(<key>):\n    return <key>"),
        ("a.py", "class A:\n    def f(self):\n        return self.heise",
         "class A:\n    def f(self):\n        return self.<key>"),
        ("a.py", "not python heise", "not python <key>"),
        ("a.md", "# Heise\n\nOf heise.", "# <title>\n\nOf <words>."),
        ("a.md", "`heise` [Heise](x/heise.md)", "`<key>` [<title>](x/<key>.md)"),
        ("a.md", "```\nimport heise\n```\nheise", "```\nimport <key>\n```\n<words>"),
        ("a.yml", "heise: heise-online", "<key>: <dashed>-online"),
        ("a.json", '{"heise": "Heise"}', '{"<key>": "<title>"}'),
    ],
)  # fmt: skip
def test_one_word_is_read_by_what_stands_around_it(path: str, text: str, expected: str):
    assert shown(Spelling("heise", frozenset(["pkg"])), path, text) == expected


@pytest.mark.parametrize("variable", sorted(key_names("new_site")))
def test_several_words_say_themselves_which_spelling_they_have(variable: str):
    text = f"x {key_names('new_site')[variable]} y"
    assert shown(Spelling("new_site"), "a.txt", text) == f"x <{variable}> y"


def test_names_of_other_units_that_hold_the_name_are_no_hits():
    spelling = Spelling("heise", others=("heise_plus",))
    assert not spelling.occurs_in("heise_plus HeisePlusScraper heise-plus HEISE_PLUS")
    assert shown(spelling, "a.txt", "heise_plus (heise)") == "heise_plus (<words>)"


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
@pytest.mark.parametrize("path", ["a.txt", "a.md", "a.json"])
def test_a_template_renders_the_text_that_it_was_made_of(path: str, text: str):
    spelling = Spelling("heise")
    template = as_template(text, spelling.hits_in_file(path, text))
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
    pattern = as_pattern(text, Spelling("heise").hits(text, "data"))
    assert pattern == expected
    if pattern is not None:
        assert fill(pattern, key_names("heise")) == text


def test_hits_are_offsets():
    assert Spelling("ab").hits("x ab", "data") == [Hit(2, 4, "key")]


def test_names_that_are_bound_and_words():
    text = "class A:\n    b = 1\ndef c(d):\n    self.e = f\n"
    assert bound_names(text) == {"A", "b", "c", "d", "e"}
    assert bound_names("def (") == frozenset()
    assert words_of("HTTPServer2_x-y") == ["http", "server2", "x", "y"]
