"""SOURCE on the command line: what it means, and what is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from scaffold.errors import RequestError
from scaffold.skills.install.address import Source, parse_source

ADDRESSES: dict[str, tuple[str, str]] = {
    "https://example.org/a/b": ("https://example.org/a/b", ""),
    "https://example.org/a/b.git@v1": ("https://example.org/a/b.git", "v1"),
    "https://example.org/a/b@feature/x": ("https://example.org/a/b", "feature/x"),
    "https://example.org/@scope": ("https://example.org/@scope", ""),
    "ssh://git@example.org/a/b": ("ssh://git@example.org/a/b", ""),
    "ssh://git@example.org:22/a/b@v1": ("ssh://git@example.org:22/a/b", "v1"),
    "git@example.org:a/b.git": ("git@example.org:a/b.git", ""),
    "git@example.org:a/b.git@0a1b2c3": ("git@example.org:a/b.git", "0a1b2c3"),
    "file:///srv/a": ("file:///srv/a", ""),
    "file:///srv/a@main": ("file:///srv/a", "main"),
}


@pytest.mark.parametrize("text", ADDRESSES)
def test_addresses(text: str, tmp_path: Path) -> None:
    place, revision = ADDRESSES[text]
    assert parse_source(text, "", tmp_path) == Source("git", place, revision)
    assert str(parse_source(text, "", tmp_path)) == text


def test_folders(tmp_path: Path) -> None:
    (tmp_path / "a@b").mkdir()
    (tmp_path / "pack").mkdir()
    (tmp_path / "builtin").mkdir()
    here = tmp_path / "pack"
    assert parse_source("../a@b", "", here) == Source("folder", str(tmp_path / "a@b"))
    assert parse_source(".", "", here) == Source("folder", str(here))
    assert parse_source(str(here), "", tmp_path) == Source("folder", str(here))
    assert parse_source("pack@v1", "", tmp_path) == Source("git", str(here), "v1")
    assert parse_source("pack", "v1", tmp_path) == Source("git", str(here), "v1")
    assert parse_source("pack@v1", "v1", tmp_path) == Source("git", str(here), "v1")
    assert parse_source("builtin", "", tmp_path) == Source("builtin")
    assert parse_source("./builtin", "", tmp_path).kind == "folder"


WRONG = {
    "gone": "no folder",
    "": "no folder",
    "~nobody-of-that-name/x": "no folder",
    "a" * 5000: "no folder",
    "https://[x/a": "not an address",
    "owner/repo": "no folder",
    "http://example.org/a": "not an address",
    "git://example.org/a": "not an address",
    "ext::sh -c true": "no folder|not an address|space",
    "ext::true": "not an address",
    "HTTPS://example.org/a": "not an address",
    "file:/srv/a": "not an address",
    "https:///a": "names no host",
    "https://user:word@example.org/a": "or password",
    "https://token@example.org/a": "or password",
    "ssh://git:word@example.org/a": "or password",
    "ssh://-oProxyCommand=x/a": "names no host|an option",
    "https://example.org/a b": "space",
    "https://example.org/a\nb": "space",
    "https://example.org/a@-x": "not the name of a branch",
    "https://example.org/a@x..y": "not the name of a branch",
    "https://example.org/a@+x:y": "not the name of a branch",
    "https://example.org/a@x^{tree}": "not the name of a branch",
}


@pytest.mark.parametrize("text", WRONG, ids=lambda text: ascii(text)[1:30])
def test_what_is_no_source(text: str, tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=WRONG[text]) as caught:
        parse_source(text, "", tmp_path)
    assert caught.value.code == "source_invalid"


def test_revisions_that_do_not_fit(tmp_path: Path) -> None:
    for text, revision in (("builtin", "v1"), ("https://example.org/a@v1", "v2"), (".", "--x")):
        with pytest.raises(RequestError) as caught:
            parse_source(text, revision, tmp_path)
        assert caught.value.code == "source_invalid"


def test_a_shorthand_is_told_its_address(tmp_path: Path) -> None:
    with pytest.raises(RequestError) as caught:
        parse_source("owner/repo", "", tmp_path)
    assert "https://github.com/owner/repo" in caught.value.hint
