"""Stored text: bytes that come back the same, or an error that names the line."""

from __future__ import annotations

import codecs

import pytest

from scaffold.edit.source import read_source

STORED = {
    "UTF-8": ("é\n".encode(), "utf-8"),
    "a byte order mark": (codecs.BOM_UTF8 + b"a\r\n", "utf-8"),
    "a cookie": ("# coding: latin-1\né\n".encode("latin-1"), "iso-8859-1"),
    "a cookie on the second line": ("#!x\n# coding=cp1252\n€\n".encode("cp1252"), "cp1252"),
    "a cookie before a carriage return": ("# coding: latin-1\ré\r".encode("latin-1"), "iso-8859-1"),
    "a cookie of several bytes": ("# coding: euc_jp\n表\n".encode("euc_jp"), "euc_jp"),
    "nothing": (b"", "utf-8"),
}


@pytest.mark.parametrize("name", STORED)
def test_text_comes_back_as_bytes(name: str):
    data, encoding = STORED[name]
    source = read_source(data)
    assert source.encoding == encoding
    assert source.with_raw(source.raw) == data
    assert source.with_raw(source.raw + b"# x\n") == data + b"# x\n"


def test_what_the_encoding_cannot_hold_is_an_error():
    source = read_source(b"# coding: latin-1\n")
    with pytest.raises(UnicodeEncodeError):
        source.with_raw("鍵".encode())


UNREADABLE = {
    "no UTF-8": (b"a\nb = '\xff'\n", 2),
    "no UTF-8 after a byte order mark": (codecs.BOM_UTF8 + b"a\n\n\xe9\n", 3),
    "an unknown cookie": (b"# coding: klingon\n", 1),
    "an unknown cookie below": (b"#!x\n# coding: klingon\n", 2),
    "a codec of no text": (b"# coding: rot13\n", 1),
    "a codec that does not come back": (b"# coding: utf-7\nx = '+AGE-'\n", 1),
    "no ASCII": (b"# coding: ascii\n\nx = '\xe9'\n", 3),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_unreadable_bytes_name_the_line(name: str):
    data, line = UNREADABLE[name]
    with pytest.raises(SyntaxError) as error:
        read_source(data)
    assert error.value.lineno == line
