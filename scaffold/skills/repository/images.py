"""The tags of container images in a repository's own files."""

from __future__ import annotations

import re

from scaffold.skills.repository.files import Files

_USERS = re.compile(
    r"(?:^|/)(?:[^/]*dockerfile[^/]*|containerfile|(?:docker-)?compose[^/]*\.ya?ml|\.gitlab-ci\.yml"
    r"|devcontainer\.json|makefile|justfile|\.?buildkite/.*\.ya?ml)$|^\.github/workflows/.*\.ya?ml$"
    r"|(?:^|/)(?:k8s|kubernetes|deploy|charts|helm|manifests|docker)/.*\.(?:ya?ml|sh)$",
    re.IGNORECASE,
)


def image_tags(name: str, files: Files) -> dict[str, str]:
    """Returns the tags that the files which build or run containers give an image.

    Args:
        name: The image without a tag.
        files: The repository's files.

    Returns:
        Each tag with the first file that has it; a tag made of variables is given as written.
    """
    use = re.compile(rf"(?<![\w./-]){re.escape(name)}:(?P<tag>[\w.${{}}()-]+)")
    found: dict[str, str] = {}
    for path in sorted(files.paths):
        if _USERS.search(path):
            for each in use.finditer(files.text(path) or ""):
                found.setdefault(each["tag"].rstrip(".)"), path)
    return found
