"""A design as the template files of a model: what is in the template's folder wins."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from scaffold.archon.codegen import write_model
from scaffold.archon.codegen.names import ARCHON
from scaffold.archon.shared_parts import shared_modules
from scaffold.errors import TemplateError
from scaffold.templating.names import pascal
from scaffold.templating.request import Request
from scaffold.templating.spec import SUPPORT, FileRule

SUFFIX = ".jinja"


def with_written(
    request: Request, design: Mapping[str, Any], own: Mapping[str, bytes]
) -> tuple[Request, dict[str, bytes]]:
    """Write a design, and return the request for exactly the files that it comes to.

    Args:
        request: The model as it is asked for; its style lists every file that a model may have.
        design: What `archon_probe derive` found.
        own: The files of the kind's template folder: path to bytes.

    Returns:
        The request, and the template files of all it renders.

    Raises:
        TemplateError: A file was written that the style does not list.
    """
    style = request.styles[0]
    written = write_model(named_design(request, design))
    texts = {f"{style.name}/{path}": text.encode() for path, text in written.items()}
    # A repository may keep a template of its own for any of these files.
    sources = {**texts, **own}
    rules = [
        rule._replace(source=rule.source + SUFFIX) if rule.source + SUFFIX in own else rule
        for rule in style.files
    ]
    unlisted = sorted(set(texts) - {rule.source.removesuffix(SUFFIX) for rule in rules})
    if unlisted:
        raise TemplateError(
            f"{style.name}/template.toml lists no file {unlisted[0]!r}", code="template_invalid"
        )
    kept = [rule for rule in rules if rule.source in sources]
    parts = request.names["parts"]
    if parts != ARCHON:
        # A target whose `areal` is not ours: what the model imports of ours comes along.
        for path, text in shared_modules(texts, parts).items():
            sources[f"{SUPPORT}/{path}"] = text.encode()
            place = f"{parts.replace('.', '/')}/{path}"
            kept.append(FileRule(f"{SUPPORT}/{path}", place, SUPPORT))
    return replace(request, styles=(replace(style, files=tuple(kept)),)), sources


def named_design(request: Request, design: Mapping[str, Any]) -> dict[str, Any]:
    """Return a design with the names that its code gets in the target."""
    names = request.names
    asked = str(request.answers["model_type"])
    prefix = design["class_prefix"]
    # A name of one's own also names the classes, so that two models of a type differ.
    if request.key != re.sub(r"\W", "_", asked):
        prefix = pascal(request.key)
    return {
        **design,
        "class_prefix": prefix,
        "folder": request.key,
        "module": names["module"],
        "spec_name": f"{names['upper']}_SPEC",
        "registered": names["registered"],
        "parts": names["parts"],
        # Where a registry imports specs, importing one has to register it.
        "registers_itself": any(rule.shape == "import" for rule in request.rules),
        # A model of several senses has a model_type of its own, and its language model another.
        "composite": "" if asked == design["model_type"] else asked,
    }
