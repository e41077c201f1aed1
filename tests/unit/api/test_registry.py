from __future__ import annotations

import json
import json.decoder
from collections import OrderedDict
from typing import Any

import pytest

from areal.api.errors import UnknownNameError
from areal.api.registry import import_from_string, lazy_exports, nearest_names, resolve

TABLE = {"decoder": "json:JSONDecoder", "ordered": "collections:OrderedDict"}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("json.JSONDecoder", json.JSONDecoder),
        ("json:JSONDecoder", json.JSONDecoder),
        ("json.decoder", json.decoder),
        ("json:JSONDecoder.decode", json.JSONDecoder.decode),
    ],
)
def test_importing(path: str, found: object) -> None:
    assert import_from_string(path) is found


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("", ValueError),
        ("json", ValueError),
        ("json:", ValueError),
        (":x", ValueError),
        ("no_such_module.x", ImportError),
        ("json.no_such_name", AttributeError),
    ],
)
def test_importing_what_is_not_there(path: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        import_from_string(path)


@pytest.mark.parametrize("path", [None, 3, ["json.JSONDecoder"], json.JSONDecoder])
def test_importing_what_is_no_text(path: Any) -> None:
    with pytest.raises(TypeError, match="a dotted path is text"):
        import_from_string(path)


@pytest.mark.parametrize("attribute", ["Missing", "JSONDecoder.missing"])
def test_a_missing_attribute_is_named_with_its_module(attribute: str) -> None:
    with pytest.raises(AttributeError, match=f"module 'json' has no attribute '{attribute}'"):
        import_from_string(f"json:{attribute}")


def test_resolving_names_and_paths() -> None:
    assert resolve(TABLE, "thing", "ordered") is OrderedDict
    assert resolve(TABLE, "thing", "json.JSONDecoder") is json.JSONDecoder


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("orderd", "unknown thing 'orderd'; did you mean 'ordered'. known: decoder, ordered"),
        ("zzz", "unknown thing 'zzz'; known: decoder, ordered"),
        ("", "unknown thing ''"),
        ("no_such_module.x", "cannot import thing 'no_such_module.x': No module named"),
        ("json:nothing", "cannot import thing 'json:nothing'"),
    ],
)
def test_resolving_what_is_not_there(name: str, message: str) -> None:
    with pytest.raises(UnknownNameError, match=message):
        resolve(TABLE, "thing", name)


def test_the_nearest_name_is_guessed_only_if_near() -> None:
    assert nearest_names("ab", ["abc"]) == "; did you mean 'abc'? known: abc"
    assert nearest_names("xyz", ["abc", "abd"]) == "; known: abc, abd"


def test_lazy_names_of_a_package() -> None:
    get, listing = lazy_exports(
        "pkg", {"JSONDecoder": "json", "decoder": "json.decoder", "json": "json"}
    )
    assert get("JSONDecoder") is json.JSONDecoder
    assert get("decoder") is json.decoder, "a module stands for itself"
    assert get("json") is json
    assert listing() == ["JSONDecoder", "decoder", "json"]
    with pytest.raises(AttributeError, match="module 'pkg' has no attribute 'dumps'"):
        get("dumps")
