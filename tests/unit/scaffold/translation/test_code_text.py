"""Code without its comments: what a translator may change, and what not."""

from __future__ import annotations

import pytest

from scaffold.translation.code_text import language_of, without_comments


@pytest.mark.parametrize(
    ("language", "left", "right"),
    [
        ("python", "x = 1  # one\n", "x = 1  # 一\n"),
        ("python", "# all\nx = 1\n", "# 全部\nx = 1\n"),
        ("bash", "make test # run it's tests\n", "make test # 运行测试\n"),
        ("yaml", "a: 1 # don't\n", "a: 1 # 不要\n"),
        ("js", "f(); // go\n", "f(); // 走\n"),
        ("c", "/* a\n b */ int x;\n", "/* 一行 */ int x;\n"),
        ("sql", "SELECT 1 -- one\n", "SELECT 1 -- 一\n"),
        ("html", "<p><!-- a --></p>", "<p><!-- 一 --></p>"),
        ("python", 's = "it\'s"  # a\n', 's = "it\'s"  # 一\n'),
    ],
)
def test_comments_may_differ(language: str, left: str, right: str) -> None:
    assert without_comments(left, language) == without_comments(right, language)


@pytest.mark.parametrize(
    ("language", "left", "right"),
    [
        ("python", 'x = "# one"\n', 'x = "# 一"\n'),
        ("python", '"""# one"""\n', '"""# 一"""\n'),
        ("python", "x = 1  # one\n", "x = 1\n"),
        ("python", "x = 1\n", "x = 2\n"),
        ("bash", "echo a#b\n", "echo a#c\n"),
        ("js", "get('http://a')\n", "get('http://b')\n"),
        ("text", "a # b\n", "a # c\n"),
        ("", "a # b\n", "a # c\n"),
        ("json", '{"a": 1}', '{"甲": 1}'),
    ],
)
def test_all_else_may_not(language: str, left: str, right: str) -> None:
    assert without_comments(left, language) != without_comments(right, language)


@pytest.mark.parametrize(
    ("info", "language"),
    [
        ("python", "python"),
        ("Python title=x", "python"),
        ("{code-block} yaml", "yaml"),
        ("{.bash .x}", "x"),
        ("", ""),
        ("c++", "c++"),
    ],
)
def test_the_language_is_named_behind_the_fence(info: str, language: str) -> None:
    assert language_of(info) == language
