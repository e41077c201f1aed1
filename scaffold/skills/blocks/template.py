"""Blocks of the kind ``template``: a file that a command would write, from given answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scaffold.skills.blocks.markers import Block, BlockError, fenced
from scaffold.target.layouts import KindPlace, Registry
from scaffold.target.target import Target, registry_rules, target_at, unit_names
from scaffold.templating.answers import complete_answers, parse_answer
from scaffold.templating.manifests import Catalogue, TemplateSource, builtin_catalogue
from scaffold.templating.names import canonical_key
from scaffold.templating.render import render_request
from scaffold.templating.request import Request
from scaffold.templating.sources import OWN_TEMPLATES
from scaffold.templating.spec import Kind, Style, all_answers

if TYPE_CHECKING:
    from pathlib import Path

    from scaffold.templating.render import RenderedFile

OWN_KEYS = ("file", "package")
"""Options of the block itself; every other one is an answer."""

LANGUAGES = {"json": "json", "md": "markdown", "py": "python", "toml": "toml", "yaml": "yaml"}


def template_text(block: Block, root: Path) -> str:
    """Return ``template KIND/STYLE NAME [file=ROLE_OR_PATH] [package=P] [answer=value]``, fenced.

    The file is the unit's own unless `file` names another one ("test"). It is the one of a project
    that `scaffold new` made, of this package; with ``package=.`` that of this repository.

    Raises:
        BlockError: The block gives too little, or too much.
        ScaffoldError: There is no such template, or an answer does not suit it.
    """
    if len(block.words) != 2 or "/" not in block.words[0]:
        raise BlockError(
            "template names KIND/STYLE and the name of a unit: template reward/exact sums"
        )
    # Templates of other packages are left out: which of them are installed is chance.
    own = TemplateSource("repository", root / OWN_TEMPLATES)
    catalogue = Catalogue(own, *builtin_catalogue().sources)
    kind_name, _, style_names = block.words[0].partition("/")
    kind = catalogue.kind(kind_name)
    if kind.writer:
        raise BlockError(f"units of the kind {kind.name} are written, and not rendered")
    styles = catalogue.styles(kind, style_names.split(","))
    request = _request(block, root, kind, styles)
    return _shown(block, render_request(request, catalogue.files(kind.name, request.support)))


def _request(block: Block, root: Path, kind: Kind, styles: tuple[Style, ...]) -> Request:
    target = _target(block, root, kind)
    key = canonical_key(block.words[1], kind.suffixes, kind.reserved)
    questions = all_answers(kind, styles)
    given: dict[str, Any] = {}
    for name, text in block.options.items():
        if name not in OWN_KEYS:
            known = questions.get(name)
            given[name] = text if known is None else parse_answer(known, text)
    style, own = ("", None) if kind.multiple else (styles[0].name, styles[0].names)
    names = unit_names(target, kind, key, style, own=own)
    answers = complete_answers(questions, given)
    return Request(kind, styles, key, answers, names, registry_rules(target, kind, styles))


def _target(block: Block, root: Path, kind: Kind) -> Target:
    package = block.options.get("package", "my_rl")
    if package == ".":
        found = target_at(root)
        if found is None:
            raise BlockError("package=. needs a repository that units can be added to")
        return found
    if not package.isidentifier():
        raise BlockError(f"package={package} is not an importable name")
    # A project as `scaffold new` makes it; nothing of it has to be on the disk.
    table = Registry(f"{package}/{kind.name}/__init__.py", f"{kind.name.upper()}S")
    return Target(root, "project", package, "tests", {kind.name: KindPlace(table, (), {})})


def _shown(block: Block, rendered: tuple[RenderedFile, ...]) -> str:
    wanted = block.options.get("file", "source")
    roles = [each.role or "source" for each in rendered]
    fitting = [
        each
        for each, role in zip(rendered, roles, strict=True)
        if wanted in (role, each.path, each.path.rpartition("/")[2])
    ]
    if not fitting:
        known = ", ".join(
            f"{each.path} ({role})" for each, role in zip(rendered, roles, strict=True)
        )
        raise BlockError(f"no file={wanted}; there are: {known}")
    language = LANGUAGES.get(fitting[0].path.rpartition(".")[2], "text")
    return fenced(fitting[0].data.decode("utf-8"), language)
