"""The files that blocks of TypeScript, JavaScript and C take in by their paths."""

from __future__ import annotations

import re
from collections.abc import Iterator

from scaffold.analysis.lazy_re import lazy_re
from scaffold.skills.check.read.documents import Document
from scaffold.skills.check.reference import Reference

# From a file beside it, or from the root that `@/` stands for; a package is not of here.
_SCRIPT = lazy_re(
    r"(?:\bfrom|\bimport|\brequire\(|\bmock\()\s*\(?[\"'](?P<path>(?:\.{1,2}/|@/)[^\"'\n]+)[\"']"
)
_INCLUDE = lazy_re(r"^[ \t]*#[ \t]*include\s*[\"<](?P<path>[\w./-]+/[\w.-]+)[\">]", re.MULTILINE)
_STEM = lazy_re(r"^(?:\.{1,2}/|@/)+|\.[mc]?[jt]sx?$")
_ENDS = tuple(
    f"{lead}.{end}" for lead in ("", "/index") for end in ["ts", "tsx", "js", "jsx", "mjs", "cjs"]
)
_FORMS = {
    **dict.fromkeys(("ts", "tsx", "typescript", "js", "jsx", "javascript"), (_SCRIPT, _ENDS)),
    **dict.fromkeys(("c", "c++", "cc", "cpp", "cu", "cuda", "h", "hpp"), (_INCLUDE, ("",))),
}


def find_sources(document: Document) -> Iterator[Reference]:
    """Yield the files that code takes in, each with the ends of its path that may be meant."""
    for fence in document.markdown.fences:
        form, ends = _FORMS.get(next(iter(fence.info.lower().split()), ""), (None, ()))
        for found in form.finditer(fence.text) if form is not None else ():
            at = found.start("path")
            line = fence.line + fence.text.count("\n", 0, at)
            stem = _STEM.sub("", found["path"]) if form is _SCRIPT else found["path"]
            data = tuple(f"{stem}{end}" for end in ends)
            column = at - fence.text.rfind("\n", 0, at)
            yield Reference("source", found["path"], line, column, data, fence)
