"""The rules of links, paths and line numbers."""

from __future__ import annotations

from scaffold.skills.check.rules.rule import Rule

PATH_RULES: dict[str, Rule] = {
    "line-number": Rule(
        "error",
        "A line that is named beside a file exists in it.",
        "Line numbers move with every edit; the agent reads another place than was meant.",
    ),
    "link-anchor": Rule(
        "error",
        "The heading that a link leads to exists.",
        "The link opens the top of a page that does not say what was promised.",
    ),
    "link-missing": Rule(
        "error",
        "The file that a link leads to exists.",
        "An agent that follows it finds nothing and goes on without what it needed.",
    ),
    "link-outside": Rule(
        "warning",
        "A skill links to files of its repository only.",
        "Outside of this machine the file is another one, or none.",
    ),
    "path-case": Rule(
        "error",
        "A path is spelled as on the disk.",
        "It opens on some systems and not on others.",
    ),
    "path-missing": Rule(
        "error",
        "A path of the repository, or of the skill's folder, exists.",
        "The agent opens it, finds nothing, and invents what it should have read.",
    ),
    "tree-missing": Rule(
        "error",
        "The files that a drawn tree shows exist.",
        "The agent takes the drawing for a map.",
    ),
}
