"""Every way in which a translation can disagree is found, and a good one is no news."""

from __future__ import annotations

from pathlib import Path

import pytest

from scaffold.analysis.files.files import list_files
from scaffold.findings import Finding
from scaffold.translation.agreement import check_page
from scaffold.translation.documents import Documents

ENGLISH = """\
---
title: Rewards
order: 1
---

# Rewards

A reward scores one completion; see [the target](target.md#find-it) and `scaffold verify`.
It takes 2 seconds on [our site](https://example.org/en/a).

## First steps

<!-- scaffold:begin tree docs -->

1. Run `make test`.
2. Read [above](#rewards), then stop here for today.

| option | means |
|---|---|
| `--take` | where the answer stands in the text |
| `--json` | prints one object for a program |

```bash
make test      # run every test
scaffold list
```

> [!NOTE]
> Read this twice.

![The curve](images/curve.png)

<a id="mine"></a>
"""

CHINESE = """\
---
title: 奖励
order: 1
---

# Reward

Reward 给一条 completion 打分；参见[目标](target.md#找到它)和 `scaffold verify`。
在[我们的网站](https://example.org/zh/a)上需要 2 秒。

## 第一步

<!-- scaffold:begin tree docs -->

1. 运行 `make test`。
2. 阅读[上文](#reward)，今天就到这里。

| 选项 | 含义 |
|---|---|
| `--take` | 答案在文本中的位置 |
| `--json` | 为程序输出一个对象 |

```bash
make test      # 运行所有测试
scaffold list
```

> [!NOTE]
> 请读两遍。

![曲线](../en/images/curve.png)

<a id="mine"></a>
"""

GLOSSARY = 'keep = ["reward", "completion"]\n\n[terms]\n"option" = ["选项"]\n'


def documents(root: Path, english: str = ENGLISH, chinese: str = CHINESE) -> Documents:
    files = {
        "docs/en/page.md": english,
        "docs/zh/page.md": chinese,
        "docs/en/target.md": "# Target\n\n## Find it\n",
        "docs/zh/target.md": "# 目标\n\n## 找到它\n",
        "docs/en/other.md": "# Other\n",
        "docs/en/images/curve.png": "",
        "docs/zh/glossary.toml": GLOSSARY,
    }
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    return Documents(list_files(root))


def findings(root: Path, english: str = ENGLISH, chinese: str = CHINESE) -> list[Finding]:
    return check_page(documents(root, english, chinese), "docs/en/page.md")


def test_a_good_translation_is_no_news(tmp_path: Path) -> None:
    assert findings(tmp_path) == []


DEFECTS = [
    # what is wrong, the line in the translation, the rule, found, expected
    ("order: 1\n---\n\n# R", "---\n\n# R", 1, "front-matter", "none", "the key order"),
    ("title: 奖励\n", "title: 奖励\nextra: 1\n", 1, "front-matter", "the key extra", "none"),
    ("## 第一步", "### 第一步", 11, "heading", "level 3", "level 2"),
    ("和 `scaffold verify`", "", 8, "inline-code", "none", "`scaffold verify`"),
    ("`scaffold verify`", "`scaffold 验`", 8, "inline-code", "`scaffold 验`", "`scaffold verify`"),
    ("`--take`", "`--拿`", 20, "inline-code", "`--拿`", "`--take`"),
    ("2 秒", "3 秒", 8, "number", "3", "2"),
    ("target.md#找到它", "target.md#find-it", 8, "link", "target.md#find-it", "target.md#找到它"),
    ("target.md#找到它", "../en/target.md#find-it", 8, "link", "../en/target.md#find-it",
     "target.md#找到它"),
    ("(#reward)", "(#rewards)", 16, "link", "#rewards", "#reward"),
    ("https://example.org/zh/a", "https://example.com/zh/a", 9, "link", "https://example.com/zh/a",
     "https://example.org/en/a"),
    ("2. 阅读[上文](#reward)，今天就到这里。\n", "", 15, "list", "a numbered list of 1 item",
     "a numbered list of 2 items"),
    ("| `--json` | 为程序输出一个对象 |\n", "", 18, "table", "a table of 2 rows and 2 columns",
     "a table of 3 rows and 2 columns"),
    ("scaffold list\n```", "scaffold 列表\n```", 25, "code", "`scaffold 列表`", "`scaffold list`"),
    ("make test      # 运行", "make test -x  # 运行", 24, "code", "`make test -x <comment>`",
     "`make test <comment>`"),
    ("```bash", "```sh", 23, "code", "a code block (sh)", "a code block (bash)"),
    ("[!NOTE]", "[!TIP]", 28, "admonition", "an admonition (tip)", "an admonition (note)"),
    ("> [!NOTE]\n> 请读两遍。\n\n", "", 11, "quote", "none", "a quote"),
    ("images/curve.png", "images/other.png", 31, "image", "../en/images/other.png",
     "../en/images/curve.png"),
    ("<!-- scaffold:begin tree docs -->\n", "", 11, "comment", "0 comments", "1 comment"),
    ("scaffold:begin tree", "scaffold:开始 tree", 13, "comment",
     "<!-- scaffold:开始 tree docs -->", "scaffold:begin"),
    ('<a id="mine"></a>', '<a id="yours"></a>', 1, "anchor", "none", "the anchor 'mine'"),
    ("一条 completion ", "一条文本", 6, "term", "none", "'completion', which stays as it is"),
    ("| 选项 |", "| 开关 |", 11, "term", "none", "选项 for 'option'"),
    ("答案在文本中的位置", "where the answer stands in the text", 20, "untranslated",
     "'where the answer stands in the text'", "Chinese"),
    ("> 请读两遍。\n", "", 28, "paragraph", "0", "1"),
    ("为程序输出一个对象", "", 21, "paragraph", "0", "1"),
    ("## 第一步\n", "## 第一步\n\n多出来的一段。\n", 13, "paragraph", "1", "0"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "line", "rule", "found", "expected"),
    DEFECTS,
    ids=[f"{row[3]}-{at}" for at, row in enumerate(DEFECTS)],
)
def test_a_defect_is_found_where_it_stands(
    tmp_path: Path, old: str, new: str, line: int, rule: str, found: str, expected: str
) -> None:
    assert old in CHINESE
    rows = findings(tmp_path, chinese=CHINESE.replace(old, new))
    told = [(row.line, row.rule, row.claim, row.now) for row in rows]
    assert (line, rule, found, expected) in told, told
    assert len(told) <= 3, told
    assert all(row.path == "docs/zh/page.md" and "docs/en/page.md:" in row.evidence for row in rows)


def test_a_paragraph_that_is_gone_is_found_among_others(tmp_path: Path) -> None:
    english = "# A\n\nOne thing.\n\nAnd another.\n\n!!! note\n    Take care.\n"
    chinese = "# 甲\n\n一件事。\n\n另一件。\n\n!!! note\n    当心。\n"
    assert findings(tmp_path, english, chinese) == []
    for words in ("另一件。\n", "    当心。\n"):
        (found,) = findings(tmp_path, english, chinese.replace(words, ""))
        assert (found.rule, found.claim, found.now) == ("paragraph", "2", "3")


def test_sections_that_are_missing_or_too_many(tmp_path: Path) -> None:
    more = findings(tmp_path, ENGLISH + "\n## Last\n\nwords\n")
    assert [(row.rule, row.claim) for row in more] == [("heading", "none")]
    assert "a section for 'Last', marked <!-- scaffold: source last " in more[0].now
    (fewer,) = findings(tmp_path, chinese=CHINESE + "\n### 多余\n")
    assert (fewer.rule, fewer.claim, fewer.line) == ("heading", "the section '多余'", 35)


def test_sections_in_another_order(tmp_path: Path) -> None:
    english = "# A\n\n## B\n\nb\n\n## C\n\nc\n"
    read = documents(tmp_path, english, "# 甲\n").page("docs/en/page.md")
    b, c = (str(section.wanted) for section in read.sections[1:])
    (found,) = findings(tmp_path, english, f"# 甲\n\n## 丙\n\n{c}\n\n丙\n\n## 乙\n\n{b}\n\n乙\n")
    assert (found.rule, found.line) == ("order", 3)


def test_two_markers_in_a_section(tmp_path: Path) -> None:
    english = "# A\n\nwords\n"
    mark = str(documents(tmp_path, english).page("docs/en/page.md").sections[0].wanted)
    (found,) = findings(tmp_path, english, f"# 甲\n\n{mark}\n\n{mark}\n\n字\n")
    assert (found.rule, found.line, found.claim) == ("marker", 5, mark)


@pytest.mark.parametrize(
    ("english", "chinese"),
    [
        ("[a](other.md)", "[甲](../en/other.md)"),  # has no translation yet
        ("[a](./target.md)", "[甲](target.md)"),
        ("[a](target)", "[甲](target)"),
        ("[a](../../README.md)", "[甲](../../README.md)"),
        ("[a](images/)", "[甲](../en/images/)"),
        ("[a](page.md#a)", "[甲](#甲)"),
        ("[a][b]\n\n[b]: other.md", "[甲](../en/other.md)"),
        ('<a href="target.md">a</a>', '<a href="target.md">甲</a>'),
        ("<https://example.org/x>", "<https://example.org/x>"),
        ('<img src="images/curve.png" alt="A">', '<img src="../en/images/curve.png" alt="甲">'),
    ],
)
def test_links_follow_the_folder_and_the_language(
    tmp_path: Path, english: str, chinese: str
) -> None:
    assert findings(tmp_path, f"# A\n\n{english}\n", f"# 甲\n\n{chinese}\n") == []


@pytest.mark.parametrize("anchor", ["三", "_2"])
def test_anchors_are_githubs_or_those_of_mkdocs(tmp_path: Path, anchor: str) -> None:
    english, chinese = "# A\n\n## B\n\n## C\n\n[c](#c)\n", "# A\n\n## 二\n\n## 三\n\n[丙](#{})\n"
    assert findings(tmp_path, english, chinese.format(anchor)) == []
    (wrong,) = findings(tmp_path, english, chinese.format("c"))
    assert (wrong.claim, wrong.now) == ("#c", "#三")
    (tmp_path / "mkdocs.yml").write_text("site_name: a\n")
    (wrong,) = findings(tmp_path, english, chinese.format("c"))
    assert wrong.now == "#_2"


def test_an_image_of_the_language_may_stand_in_its_place(tmp_path: Path) -> None:
    documents(tmp_path)
    (tmp_path / "docs/zh/images").mkdir()
    (tmp_path / "docs/zh/images/curve.png").write_bytes(b"")
    assert findings(tmp_path, chinese=CHINESE.replace("../en/images", "images")) == []


def test_an_untranslated_list_of_names_is_no_finding(tmp_path: Path) -> None:
    text = "# A\n\nClaude Code, Codex, OpenCode, torch, click\n"
    assert findings(tmp_path, text, text.replace("# A", "# 甲")) == []


def test_a_paragraph_in_english_among_chinese_ones_is_one(tmp_path: Path) -> None:
    one, left = "This is the first.", "And this one was passed over by everybody."
    english, chinese = f"# A\n\n{one}\n\n{left}\n", f"# 甲\n\n这是第一段。\n\n{left}\n"
    (finding,) = findings(tmp_path, english, chinese)
    assert (finding.rule, finding.line) == ("untranslated", 5)
    assert (
        findings(tmp_path, english, chinese.replace(left, "这一段 and this is left 漏了。")) == []
    )


SHORT = [
    "Run the tests.", "Restart required.", "Read it twice", "Where models go", "The first hour",
    "Do I need a GPU?", "gated or not", "Coming soon...",
    "Dao et al. showed that this is fast.",
]  # fmt: skip


@pytest.mark.parametrize("left", SHORT)
def test_a_short_sentence_that_was_left_is_one(left: str, tmp_path: Path) -> None:
    english, chinese = f"# A\n\nFirst.\n\n{left}\n", f"# 甲\n\n第一。\n\n{left}\n"
    (finding,) = findings(tmp_path, english, chinese)
    assert (finding.rule, finding.line) == ("untranslated", 5)
    assert findings(tmp_path, english, chinese.replace(left, "译文")) == []


NAMES = [
    # xtuner's and openai-agents' pages have these in both languages.
    "tp2, ep8, pp8, recompute=select, zero/tp overlap",
    "How Far Are We to GPT-4V? Closing the Gap to Commercial Models with Open-Source Suites",
    "An Easy-to-use, Scalable and High-performance RLHF Framework based on Ray",
    "MIT or Apache-2.0", "Dao et al. FlashAttention: fast and memory-efficient exact attention.",
    "Chain of Thought", "torch 2.13.0", "Weights & Biases", "skills CLI", "profile data",
    "LLaVA-v1.5-7B (XTuner)", "The Pile", "model_type",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_what_is_the_same_in_every_language_is_no_sentence(name: str, tmp_path: Path) -> None:
    assert findings(tmp_path, f"# A\n\n{name}\n", f"# 甲\n\n{name}\n") == []


def test_a_style_is_no_sentence(tmp_path: Path) -> None:
    text = "# A\n\n<style>\n.content .heading { display: none; color: red; }\n</style>\n"
    assert findings(tmp_path, text, text.replace("# A", "# 甲")) == []


def test_an_address_is_no_sentence(tmp_path: Path) -> None:
    """FastAPI's pages list addresses whose parts are words of lower case."""
    text = "# A\n\n- <https://example.org/full-stack-of-many-words>\n"
    assert findings(tmp_path, text, text.replace("# A", "# 甲")) == []


@pytest.mark.parametrize(
    ("english", "chinese"),
    [
        # The default language of a site has no folder.
        ("See [it](https://x.org/a#b).", "见[它](https://x.org/zh/a#b)。"),
        ("See [it](https://x.org).", "见[它](https://x.org/zh)。"),
        ("{% for one in rows %} {% endfor %}", "{% for one in rows %} {% endfor %}"),
        ('```json\n{"a": 1} // More here\n```', '```json\n{"a": 1} // 更多\n```'),
    ],
)
def test_what_sites_and_languages_ask_for_is_no_defect(
    tmp_path: Path, english: str, chinese: str
) -> None:
    """FastAPI's pages have each of these."""
    assert findings(tmp_path, f"# A\n\n{english}\n", f"# 甲\n\n{chinese}\n") == []
    if "x.org" in english:
        elsewhere = chinese.replace("/zh", "/zh/other")
        assert [row.rule for row in findings(tmp_path, f"# A\n\n{english}\n",
                                             f"# 甲\n\n{elsewhere}\n")] == ["link"]  # fmt: skip


def site(root: Path, english: str, chinese: str, **more: str) -> list[Finding]:
    """Return the findings of a page of a site whose languages are folders beside the pages."""
    files = {"docs/page.md": english, "docs/zh/page.md": chinese, "docs/other.md": "# O\n", **more}
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    return check_page(Documents(list_files(root)), "docs/page.md")


def test_a_heading_may_have_the_anchor_of_its_source(tmp_path: Path) -> None:
    """As in the 37 Chinese pages of openai-agents-python, and of many a MkDocs or Docusaurus."""
    english = "# A\n\nSee [it](#two-2-words).\n\n## Two 2 words\n\nHere.\n"
    chinese = "# 甲 {#a}\n\n见[它](#two-2-words)。\n\n## 两个词 {#two-2-words}\n\n这里。\n"
    assert findings(tmp_path, english, chinese.replace("两个词", "2 个词")) == []
    (wrong,) = findings(tmp_path, english, chinese.replace("(#two-2-words)", "(#two)"))
    assert (wrong.rule, wrong.now) == ("link", "#two-2-words")


def test_front_matter_that_the_translation_alone_has_is_its_sites(tmp_path: Path) -> None:
    english, front = "# A\n\nHere.\n", "---\nsearch:\n  exclude: true\n---\n"
    assert findings(tmp_path, english, f"{front}# 甲\n\n这里。\n") == []
    shown = documents(tmp_path, english, f"{front}# 甲\n\n这里。\n").pairs("docs/en/page.md")
    assert [pair.state for pair in shown] == ["unmarked"]
    (more,) = findings(tmp_path, english, f"{front}多出来的。\n\n# 甲\n\n这里。\n")
    assert (more.rule, more.claim) == ("heading", "the section ''")


def test_a_site_that_falls_back_to_its_language_has_the_same_links(tmp_path: Path) -> None:
    english = "# A\n\n[o](other.md) ![i](images/i.png)\n"
    chinese = "# 甲\n\n[o](other.md) ![i](images/i.png)\n"
    more = {
        "docs/images/i.png": "",
        "mkdocs.yml": "plugins:\n- i18n:\n    docs_structure: folder\n",
    }
    assert site(tmp_path, english, chinese, **more) == []
    wrong = chinese.replace("other", "another").replace("i.png", "j.png")
    assert [each.rule for each in site(tmp_path, english, wrong)] == ["link", "image"]
    (tmp_path / "mkdocs.yml").write_text("plugins: []\n")
    assert [each.rule for each in site(tmp_path, english, chinese)] == ["link", "image"]


def test_the_switch_of_languages_leads_to_the_other_page(tmp_path: Path) -> None:
    english, chinese = "# A\n\n[中文](../zh/page.md)\n", "# 甲\n\n[English](../en/page.md)\n"
    assert findings(tmp_path, english, chinese) == []
    (wrong,) = findings(tmp_path, english, chinese.replace("en/page", "en/other"))
    assert (wrong.rule, wrong.now) == ("link", "../en/page.md")


def test_a_link_to_what_no_language_has_may_be_mirrored(tmp_path: Path) -> None:
    english, chinese = "# A\n\n[a](../en/lost/a.md)\n", "# 甲\n\n[甲](../zh/lost/a.md)\n"
    assert findings(tmp_path, english, chinese) == []
    (wrong,) = findings(tmp_path, english, chinese.replace("a.md", "b.md"))
    assert wrong.rule == "link"


CODE = [
    ("bash\nrun --to <model path>", "bash\nrun --to <模型路径>", "bash\nrum --to <模型路径>"),
    ("python\nx = 1\ny = 2", "python\nx = 1  \ny = 2 ", "python\n  x = 1\ny = 2"),
    ("\nBubble rate = (pp-1)/2 = 0.5", "\n气泡率 = (pp-1)/2 = 0.5", "\n气泡率 = (pp-1)/2 = 0.6"),
    ("text\nmodels/\n  dense  # 2 models", "text\nmodels/\n  dense  # 2 个模型",
     "text\nmodels/\n  dense  # 3 个模型"),
    ("json\n:caption: Own form\n{}", "json\n:caption: 自定义\n{}", "json\n:caption: 自定义\n[]"),
]  # fmt: skip


@pytest.mark.parametrize(("source", "good", "bad"), CODE)
def test_words_inside_of_blocks_may_be_translated(
    source: str, good: str, bad: str, tmp_path: Path
) -> None:
    """As in xtuner's pages: placeholders, plain text and captions, and blanks at a line's end."""
    english, chinese = f"# A\n\n```{source}\n```\n", "# 甲\n\n```{}\n```\n"
    assert findings(tmp_path, english, chinese.format(good)) == []
    assert [each.rule for each in findings(tmp_path, english, chinese.format(bad))] == ["code"]


def test_an_admonition_needs_no_blank_behind_its_mark(tmp_path: Path) -> None:
    """Python-Markdown takes both."""
    english = "# A\n\n!!!note\n\n    By default it is on.\n"
    chinese = "# 甲\n\n!!!note\n\n    默认启用。\n"
    assert findings(tmp_path, english, chinese) == []
    assert [each.rule for each in findings(tmp_path, english, "# 甲\n\n默认启用。\n")] == [
        "admonition"
    ]
