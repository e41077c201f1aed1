"""Numbers in both languages: digits, words, units."""

from __future__ import annotations

import pytest

from scaffold.translation.wording import foreign_numbers, missing_numbers

AGREEING = [
    ("10,000 rows", "10000 行"),
    ("10,000 rows", "1 万行"),
    ("250,000 rows", "25 万行"),
    ("2.5 million", "250 万"),
    ("1 billion", "10 亿"),
    ("two cores", "2 个核"),
    ("2 cores", "两个核"),
    ("the first of twelve", "12 个中的第 1 个"),
    ("1,536 characters", "1536 个字符"),
    ("November 22, 2026", "2026 年 11 月 22 日"),
    ("30 s", "三十秒"),
    ("11 steps", "十一步"),
    ("105 rows", "一百零五行"),
    ("ninety-nine", "99"),
    ("one per cent", "1%"),
    ("once a day", "每天 1 次"),
    ("Python 3.11", "Python 3.11"),
    ("0.95", "0.95"),
    ("5 and 6", "5、6"),
    ("5%", "5％"),
    ("1, 2,3", "1、2、3"),
    ("in the 1990s", "在 20 世纪 90 年代"),
    ("the 1980s", "二十世纪八十年代"),
    ("50% smaller", "体积缩小一半"),
]
DIFFERING = [
    ("2 cores", "3 个核", ["2"], ["3"]),
    ("Python 3.11", "Python 3.12", ["3.11"], ["3.12"]),
    ("10,000 rows", "10 万行", ["10000"], ["100000"]),
    ("under 0.5 s", "很快", ["0.5"], []),
    ("in the 1990s", "在 20 世纪 80 年代", ["1990"], ["1980"]),
    ("50 rows", "一半", ["50"], []),
    ("fast", "在 5 秒内", [], ["5"]),
]


@pytest.mark.parametrize(("english", "chinese"), AGREEING)
def test_the_same_number_in_other_words(english: str, chinese: str) -> None:
    assert missing_numbers(english, chinese) == []
    assert foreign_numbers(english, chinese) == []


@pytest.mark.parametrize(("english", "chinese", "lost", "new"), DIFFERING)
def test_other_numbers(english: str, chinese: str, lost: list[str], new: list[str]) -> None:
    assert missing_numbers(english, chinese) == lost
    assert foreign_numbers(english, chinese) == new
