"""Python source as bytes that come back the same: encoding, byte order mark and line ends."""

from __future__ import annotations

import codecs
import io
import tokenize
from dataclasses import dataclass

from scaffold.edit.layout import NEWLINE, line_at


@dataclass(frozen=True)
class Source:
    """Source text apart from how it is stored.

    Args:
        raw: The text as UTF-8, whatever the file's own encoding is; offsets count in it.
        encoding: The file's own encoding.
        bom: The byte order mark that the file begins with, or nothing.
    """

    raw: bytes
    encoding: str
    bom: bytes

    def with_raw(self, raw: bytes) -> bytes:
        """Return the file's bytes for a changed text.

        Raises:
            UnicodeEncodeError: The file's encoding cannot hold the text.
        """
        return self.bom + raw.decode("utf-8").encode(self.encoding)


def read_source(data: bytes) -> Source:
    """Read a Python file's bytes as the interpreter does.

    Raises:
        SyntaxError: The encoding cookie is unknown, or the bytes do not decode; it has a line.
    """
    bom = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
    encoding = "utf-8" if bom else _encoding(data)
    try:
        source = Source(data[len(bom) :].decode(encoding).encode("utf-8"), encoding, bom)
        # UTF-7 and other encodings spell one text in several ways, and untouched lines would
        # change.
        if source.with_raw(source.raw) != data:
            raise _error(f"the bytes do not survive decoding as {encoding}", 1)
    except UnicodeDecodeError as error:
        line = line_at(data, len(bom) + error.start)
        raise _error(f"a byte on this line is not valid {encoding}", line) from error
    except (UnicodeError, LookupError) as error:
        raise _error(f"the text cannot be read as {encoding}", 1) from error
    return source


def _encoding(data: bytes) -> str:
    """Return the encoding of the cookie in the first two lines; no text at all fails later."""
    # detect_encoding splits lines at "\n" alone, and a file of old Mac line ends would be one line.
    head = NEWLINE.split(data, maxsplit=2)[:2]
    try:
        return tokenize.detect_encoding(io.BytesIO(b"\n".join(head)).readline)[0]
    except SyntaxError as error:
        # The other errors of detect_encoding are bytes that are no UTF-8, which the caller reports.
        if str(error).startswith("unknown encoding"):
            raise _error(str(error), 1 if b"coding" in head[0] else 2) from error
        return "utf-8"


def _error(message: str, line: int) -> SyntaxError:
    return SyntaxError(message, (None, line, None, None))
