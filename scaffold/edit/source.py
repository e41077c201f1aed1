"""Python source as bytes that come back the same: encoding, byte order mark and line ends."""

from __future__ import annotations

import codecs
import io
import tokenize
from dataclasses import dataclass


@dataclass(frozen=True)
class Source:
    """Is source text apart from how it is stored.

    Args:
        raw: The text as UTF-8, whatever the file's own encoding is; offsets count in it.
        encoding: The file's own encoding.
        bom: The byte order mark that the file begins with, or nothing.
    """

    raw: bytes
    encoding: str
    bom: bytes

    def with_raw(self, raw: bytes) -> bytes:
        """Returns the file's bytes for a changed text."""
        return self.bom + raw.decode("utf-8").encode(self.encoding)


def read_source(data: bytes) -> Source:
    """Reads a Python file's bytes as the interpreter does.

    Raises:
        SyntaxError: The encoding cookie is unknown, or the bytes do not decode.
    """
    encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    bom = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
    encoding = "utf-8" if bom else encoding
    try:
        source = Source(data[len(bom) :].decode(encoding).encode("utf-8"), encoding, bom)
    except UnicodeDecodeError as error:
        raise SyntaxError(f"not {encoding}: {error}") from error
    if source.with_raw(source.raw) != data:
        raise SyntaxError(f"the bytes do not survive decoding as {encoding}")
    return source
