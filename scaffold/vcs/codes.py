"""The error codes of commits, pull requests and reviews."""

from __future__ import annotations

CODES: dict[str, str] = {
    "base_unknown": "No base branch for the pull request was found.",
    "branch_missing": "No branch is checked out, or it has no commit.",
    "gh_failed": "The GitHub CLI gh failed, or is not logged in.",
    "git_failed": "A git command failed; nothing was changed.",
    "git_old": "Git is too old for this command.",
    "message_invalid": "A commit message does not have the form that the repository uses.",
    "not_ready": "A branch is not ready for a pull request.",
    "nothing_staged": "Nothing is staged.",
    "nothing_to_propose": "The base already has all changes of the branch.",
    "push_refused": "A push would replace commits that only the remote has.",
    "rebase_conflict": "The branch conflicts with its base.",
    "remote_moved": "A remote branch changed after the last fetch.",
    "remote_unknown": "There is no such remote, or there are several and none was chosen.",
    "rules_invalid": "Rules or settings of the review are invalid.",
    "template_unknown": "There is no pull request template of this name.",
    "unmerged": "The index of the repository has conflicts.",
}
