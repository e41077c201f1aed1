"""The error codes of commits, pull requests and reviews."""

from __future__ import annotations

CODES: dict[str, str] = {
    "base_unknown": "There is no branch that a pull request could go into.",
    "branch_missing": "No branch is checked out, or it has no commit.",
    "gh_failed": "GitHub's command gh failed, or is not logged in.",
    "git_failed": "A call of git failed; all is as it was.",
    "git_old": "Git is too old for what was asked for.",
    "message_invalid": "A commit message has not the form that the repository asks for.",
    "not_ready": "A branch is not ready for a pull request.",
    "nothing_staged": "Nothing is staged, so there is no commit to describe.",
    "nothing_to_propose": "The base has all that the branch changes.",
    "push_refused": "A push would replace commits that only the remote has.",
    "rebase_conflict": "A branch and its base changed the same places.",
    "remote_moved": "A branch of the remote has moved since it was last fetched.",
    "remote_unknown": "There is no such remote, or nothing chooses one of several.",
    "repository_missing": "The folder lies in no git repository, or in one that git refuses.",
    "rules_invalid": "Rules or settings of the review are not of the form that they have.",
    "template_unknown": "There is no template of this name for pull requests.",
    "unmerged": "Files are in conflict, in the index of the repository.",
}
