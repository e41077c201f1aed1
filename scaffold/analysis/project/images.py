"""The tags of container images in a repository's own files."""

from __future__ import annotations

import re
from functools import cached_property

from scaffold.analysis.files.files import Files
from scaffold.analysis.lazy_re import lazy_re

# Files that build or run images: Dockerfiles, compose files, CI, Makefiles, manifests of clusters.
_USERS = lazy_re(
    r"(?:^|/)(?:[^/]*dockerfile[^/]*|containerfile|(?:docker-)?compose[^/]*\.ya?ml|\.gitlab-ci\.yml"
    r"|devcontainer\.json|makefile|justfile|\.?buildkite/.*\.ya?ml)$|^\.github/workflows/.*\.ya?ml$"
    r"|(?:^|/)(?:k8s|kubernetes|deploy|charts|helm|manifests|docker)/.*\.(?:ya?ml|sh)$",
    re.IGNORECASE,
)


class Images:
    """The container images that a repository's files build on or run.

    Args:
        files: The repository's files.
    """

    def __init__(self, files: Files) -> None:
        self._files = files

    @cached_property
    def _texts(self) -> dict[str, str]:
        users = (path for path in sorted(self._files.paths) if _USERS.search(path))
        return {path: self._files.text(path) or "" for path in users if not path.endswith(".md")}

    def tags(self, name: str) -> dict[str, str]:
        """Return the tags of an image, each with the first file that has it.

        A tag made of variables is given as written.

        Args:
            name: The image without a tag.
        """
        # `nvcr.io/nvidia/pytorch:24.01-py3`, not as the end of a longer name.
        use = re.compile(rf"(?<![\w./-]){re.escape(name)}:(?P<tag>[\w.${{}}()-]+)")
        found: dict[str, str] = {}
        for path, text in self._texts.items():
            for each in use.finditer(text) if name in text else ():
                found.setdefault(each["tag"].rstrip(".)"), path)
        return found
