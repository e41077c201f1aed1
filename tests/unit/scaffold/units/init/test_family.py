"""Families: which units are of one kind, what they are called, and which files are theirs."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from scaffold.errors import RequestError
from scaffold.units.init.family import Family, find_family, find_home, name_spans


def files_of(*paths: str, **texts: str) -> dict[str, bytes]:
    return {path: texts.get(path, "").encode() for path in paths}


def family(paths: dict[str, str], home: str, kind: str = "") -> Family:
    return find_family({path: text.encode() for path, text in paths.items()}, home, kind)


def scrapers(*keys: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for key in keys:
        name = "".join(word.capitalize() for word in key.split("_"))
        found |= {
            f"pkg/sources/{key}.py": f"class {name}Scraper(Base):\n    def parse(self): ...\n",
            f"tests/test_{key}.py": f"from pkg.sources.{key} import {name}Scraper\n",
            f"tests/data/{key}_long.html": "<p>",
        }
    return found


def test_a_file_is_the_kind_s_if_most_units_have_its_like():
    paths = scrapers("heise", "bbc", "new_site") | {
        "docs/heise.md": "",
        "tests/data/heise_odd.html": "",
        "docs/bbc.md": "",
        "src/heise.md": "",
        "tests/test_new_site.py": "",
    }
    found = family(paths, "pkg/sources/heise.py")
    assert (found.kind, found.suffixes) == ("scraper", ("scraper",))
    assert [each.replace("\0", "@") for each in found.roles()] == [
        "docs/@.md",
        "pkg/sources/@.py",
        "tests/data/@_long.html",
        "tests/test_@.py",
    ]


def test_a_longer_name_is_another_unit_s():
    paths = scrapers("heise", "heise_plus", "bbc")
    found = family(paths, "pkg/sources/heise.py")
    assert "tests/test_heise_plus.py" not in found.unit.paths.values()
    assert not found.unit.name.occurs_in("heise_plus HeisePlusScraper heise-plus")


def test_what_is_not_like_the_unit_is_no_sibling():
    paths = scrapers("heise", "bbc", "zeit")
    paths |= {
        "pkg/sources/helpers.py": "import os\n\ndef join(x): ...\n",
        "pkg/sources/py.typed": "",
    }
    assert {each.key for each in family(paths, "pkg/sources/heise.py").siblings} == {"bbc", "zeit"}


@pytest.mark.parametrize(
    ("home", "beside", "key", "kind"),
    [
        ("a/trainer/grpo_trainer.py", ["dpo_trainer.py", "utils.py"], "grpo", "trainer"),
        ("a/dialects/dialect_hive.py", ["dialect_ansi.py", "dialect_x.py"], "hive", "dialect"),
        ("a/rewards/math_rewards.py", ["code_rewards.py"], "math", "rewards"),
        ("a/boxes/nash_md.py", ["xpo.py", "online_dpo.py"], "nash_md", "box"),
        ("a/boxes/mail_box.py", ["one.py", "two.py"], "mail_box", "box"),
    ],
)
def test_words_that_units_share_are_no_part_of_their_names(
    home: str, beside: list[str], key: str, kind: str
):
    parent = PurePosixPath(home).parent
    found = family({home: "", **{f"{parent}/{name}": "" for name in beside}}, home)
    assert (found.unit.key, found.kind) == (key, kind)


def test_a_further_file_of_a_unit_is_no_unit():
    names = ["ansi", "ansi_keywords", "hive", "hive_keywords", "db2"]
    paths = {f"a/dialects/dialect_{name}.py": "import x\n" for name in names}
    found = family(paths, "a/dialects/dialect_hive.py")
    assert {each.key for each in found.siblings} == {"ansi", "db2"}
    assert "a/dialects/dialect_\0_keywords.py" in found.roles()


def test_a_word_that_goes_with_the_names_of_another_is_none_of_the_name():
    rests = ("prompts", "models", "traces", "all")
    paths = {f"a/bulk/{word}_{rest}.py": "" for word in ("export", "import") for rest in rests}
    paths |= {f"a/bulk/{name}.py": "" for name in ("bulk_utils", "model_utils", "renames", "dates")}
    found = family(paths, "a/bulk/export_prompts.py")
    assert (found.unit.key, found.kind) == ("prompts", "export")
    assert set(found.roles()) == {"a/bulk/export_\0.py", "a/bulk/import_\0.py"}
    # Here either word may be the name.
    paths = {f"a/b/{word}_{rest}.py": "" for word in ("google", "azure") for rest in ("id", "auth")}
    paths |= {f"a/b/{name}.py": "" for name in ("box", "fedora", "github")}
    assert family(paths, "a/b/google_id.py").unit.key == "google_id"


def test_a_module_that_imports_most_units_is_none_of_them():
    names = ("merge", "launch", "estimate")
    paths = {f"a/commands/{each}.py": f"import os\n\ndef {each}_command(): ...\n" for each in names}
    rows = "".join(f"from a.commands.{each} import {each}_command\n" for each in names)
    paths["a/commands/tool_cli.py"] = f"import os\n{rows}\ndef tool_cli_command(): ...\n"
    found = family(paths, "a/commands/merge.py")
    assert {each.key for each in found.siblings} == {"launch", "estimate"}


def test_a_class_that_is_called_alike_in_every_unit_is_no_name_of_one():
    paths = {
        f"a/transport/{name}.py": "class Channel: ...\n" for name in ("consul", "etcd", "pyro")
    }
    paths["a/base.py"] = "class Channel: ...\n"
    found = family(paths, "a/transport/consul.py")
    assert {each.class_name for each in found.names.values()} == {""}


def test_the_spelling_of_classes_is_kept_where_no_rule_gives_it():
    def texts(**classes: str) -> dict[str, str]:
        return {f"a/b/{key}.py": f"class {name}Trainer: ...\n" for key, name in classes.items()}

    asked = family(texts(grpo="GRPO", nash_md="NashMD", sft="SFT"), "a/b/grpo.py")
    assert [each.class_prefix for each in asked.names.values()] == ["GRPO", "NashMD", "SFT"]
    ruled = family(texts(grpo="GRPO", dpo="DPO", sft="SFT"), "a/b/grpo.py")
    assert {each.class_prefix for each in ruled.names.values()} == {""}


def test_a_path_s_name_is_looked_for_below_the_folder_of_the_units():
    found = family(scrapers("pkg", "bbc", "heise"), "pkg/sources/pkg.py")
    spans = name_spans("pkg/sources/pkg.py", found.unit.name, PurePosixPath("pkg/sources"))
    assert spans == [(12, 15)]


@pytest.mark.parametrize(
    ("like", "home"),
    [
        ("a/one.py", "a/one.py"),
        ("a/pack/__init__.py", "a/pack"),
        ("a/pack", "a/pack"),
        ("two", "a/two.py"),
        ("Two", "a/two.py"),
        ("pack", "a/pack"),
        ("math", "b/math_reward.py"),
        # As its siblings' folders have one called like them, the unit is the folder.
        ("c/cpo/cpo_trainer.py", "c/cpo"),
        ("c/cpo/loss.py", "c/cpo/loss.py"),
        ("d/cpo/cpo_trainer.py", "d/cpo/cpo_trainer.py"),
    ],
)
def test_a_home_is_a_module_or_a_folder(like: str, home: str):
    paths = ["a/one.py", "a/two.py", "a/pack/__init__.py", "b/math_reward.py", "b/code_reward.py"]
    paths += [f"c/{each}/{each}_trainer.py" for each in ("cpo", "nash_md", "orpo")]
    paths += ["c/cpo/loss.py", "d/cpo/cpo_trainer.py", "d/cpo/dpo_trainer.py"]
    assert find_home(paths, like) == home


@pytest.mark.parametrize(
    ("like", "code", "message"),
    [
        ("thre", "unit_unknown", "did you mean three"),
        ("twice", "unit_ambiguous", "a/twice.py, b/twice.py"),
    ],
)
def test_a_unit_that_is_not_found_is_refused(like: str, code: str, message: str):
    with pytest.raises(RequestError, match=message) as refusal:
        find_home(["a/three.py", "a/twice.py", "b/twice.py"], like)
    assert refusal.value.code == code
