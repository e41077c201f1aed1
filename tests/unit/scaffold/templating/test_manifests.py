"""Manifests: the built-in ones are sound, and a wrong one is refused by name and place."""

from __future__ import annotations

from pathlib import Path

import pytest

from scaffold.errors import RequestError, TemplateError
from scaffold.templating import manifests
from scaffold.templating.manifests import (
    Catalogue,
    TemplateSource,
    builtin_catalogue,
    catalogue_for,
    kind_names,
    load_kind,
    load_style,
    style_names,
)
from scaffold.templating.spec import all_answers

KIND = """
schema = 1
version = 1
title = "Loss"
help = "Adds a loss."
command = "add-loss"
[style]
default = "plain"
"""
STYLE = """
schema = 1
version = 2
title = "Plain"
help = "A plain loss."
[answers.scale]
type = "float"
default = 1.0
help = "A factor."
[[files]]
from = "loss.py.jinja"
to = "{source}"
"""


@pytest.fixture
def templates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Makes a folder of templates with one kind and one style, and points the toolkit to it."""
    (tmp_path / "loss" / "plain").mkdir(parents=True)
    (tmp_path / "loss" / "kind.toml").write_text(KIND)
    (tmp_path / "loss" / "plain" / "template.toml").write_text(STYLE)
    monkeypatch.setattr(manifests, "templates_folder", lambda: tmp_path)
    builtin_catalogue.cache_clear()
    yield tmp_path
    builtin_catalogue.cache_clear()


def test_the_four_kinds_are_there():
    assert {"dataset", "project", "reward", "workflow"} <= set(kind_names())


@pytest.mark.parametrize("kind", kind_names())
def test_every_built_in_manifest_can_be_read(kind: str):
    assert load_kind(kind).command
    assert style_names(kind)
    for style in style_names(kind):
        assert load_style(kind, style).help


@pytest.mark.parametrize("kind", kind_names())
def test_styles_of_a_kind_agree_on_the_type_of_a_shared_answer(kind: str):
    types: dict[str, set[str]] = {}
    for style in style_names(kind):
        for name, answer in all_answers(load_kind(kind), [load_style(kind, style)]).items():
            types.setdefault(name, set()).add(f"{answer.type} {answer.option}")
    assert all(len(each) == 1 for each in types.values()), types


def test_a_new_folder_is_a_new_style(templates: Path):
    (templates / "loss" / "huber").mkdir()
    (templates / "loss" / "huber" / "template.toml").write_text(STYLE.replace("Plain", "Huber"))
    assert style_names("loss") == ("huber", "plain")
    assert load_style("loss", "huber").title == "Huber"


def test_a_manifest_is_read_into_its_parts(templates: Path):
    style = load_style("loss", "plain")
    assert style.answers["scale"].option == "--scale"
    assert style.files[0].source == "plain/loss.py.jinja"
    assert style.files[0].role == "source"
    assert builtin_catalogue().styles(load_kind("loss"), []) == (style,)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("version = 2", ""), "key 'version' is missing"),
        (("version = 2", "version = true"), "must be int, not bool"),
        (("title =", "titel ="), "key 'title' is missing"),
        (("schema = 1", "schema = 1\ncolour = 1"), "unknown key 'colour'"),
        (('help = "A factor."', 'hlep = "A factor."'), "key 'help' is missing"),
        (('help = "A factor."', 'help = "A factor."\nmaxi = 1'), "did you mean 'max'"),
        (('type = "float"', 'type = "flaot"'), "did you mean 'float'"),
        (('type = "float"', 'type = "float"\ncheck = "reg"'), "did you mean 'regex'"),
        (("[[files]]", "[files]"), "must be list, not dict"),
        (("schema = 1", "schema = "), "template.toml"),
    ],
)
def test_a_wrong_manifest_is_refused_with_file_and_key(
    templates: Path, change: tuple[str, str], message: str
):
    path = templates / "loss" / "plain" / "template.toml"
    path.write_text(STYLE.replace(*change))
    with pytest.raises(TemplateError, match=r"template\.toml") as refusal:
        load_style("loss", "plain")
    assert message in refusal.value.message


def test_a_manifest_of_a_newer_version_asks_for_a_newer_tool(templates: Path):
    (templates / "loss" / "kind.toml").write_text(KIND.replace("schema = 1", "schema = 99"))
    with pytest.raises(TemplateError) as refusal:
        load_kind("loss")
    assert refusal.value.code == "target_newer"
    assert "newer" in refusal.value.hint


def test_unknown_kinds_and_styles_suggest_the_nearest():
    with pytest.raises(RequestError, match="did you mean 'reward'"):
        load_kind("rewrad")
    with pytest.raises(RequestError, match="did you mean 'exact'"):
        load_style("reward", "exakt")


def test_styles_are_chosen_once_each_and_sorted():
    dataset = load_kind("dataset")
    chosen = builtin_catalogue().styles(dataset, ["sft", "rl", "sft"])
    assert [style.name for style in chosen] == ["rl", "sft"]
    with pytest.raises(RequestError, match="needs --type"):
        builtin_catalogue().styles(dataset, [])
    with pytest.raises(RequestError, match="has one --style"):
        builtin_catalogue().styles(load_kind("reward"), ["exact", "math"])


def make_style(folder: Path, style: str, title: str) -> Path:
    (folder / "loss" / style).mkdir(parents=True)
    text = STYLE.replace('title = "Plain"', f'title = "{title}"')
    (folder / "loss" / style / "template.toml").write_text(text)
    (folder / "loss" / style / "loss.py.jinja").write_text(f"# {title}\n")
    return folder


def test_a_stronger_source_hides_a_style_and_leaves_the_rest(templates: Path, tmp_path: Path):
    (templates / "loss" / "plain" / "loss.py.jinja").write_text("# built in\n")
    own = make_style(tmp_path / "repo" / ".scaffold" / "templates", "plain", "Ours")
    make_style(own, "huber", "Huber")
    catalogue = catalogue_for(tmp_path / "repo")
    assert catalogue.style_names("loss") == ("huber", "plain")
    assert catalogue.kind("loss").origin == "builtin"
    style = catalogue.style("loss", "plain")
    assert (style.title, style.origin) == ("Ours", "repository")
    assert catalogue.files("loss")["plain/loss.py.jinja"] == b"# Ours\n"


def test_links_are_no_templates(tmp_path: Path):
    secret = make_style(tmp_path / "elsewhere", "secret", "Secret")
    (tmp_path / "t" / "loss").mkdir(parents=True)
    (tmp_path / "t" / "loss" / "kind.toml").write_text(KIND)
    (tmp_path / "t" / "loss" / "linked").symlink_to(secret / "loss" / "secret")
    (tmp_path / "t" / "loss" / "a.jinja").symlink_to(secret / "loss" / "secret" / "loss.py.jinja")
    catalogue = Catalogue(TemplateSource("repository", tmp_path / "t"))
    assert catalogue.style_names("loss") == ()
    assert list(catalogue.files("loss")) == ["kind.toml"]
