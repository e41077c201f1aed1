"""The error codes of the skill pack."""

from __future__ import annotations

CODES: dict[str, str] = {
    "block_invalid": "A generated block of a document is wrong, or cannot be generated.",
    "client_unknown": "The tool does not know a client of this name.",
    "command_refused": "A document uses a command that the repository does not allow.",
    "output_edited": "A rendered file was edited; it is not overwritten.",
    "skill_ambiguous": "A source has several skills of this name.",
    "skill_edited": "Files of an installed skill were edited and would be overwritten.",
    "skill_exists": "A skill, subagent or command of this name already exists.",
    "skill_hidden_text": "A skill hides text that can carry instructions.",
    "skill_invalid": "A skill's SKILL.md cannot be read.",
    "skill_lock_invalid": "The lock file of installed skills cannot be read.",
    "skill_too_large": "A skill exceeds the size limit.",
    "skill_unknown": "The source or the lock file has no skill of this name.",
    "skill_unsafe": "A path in a skill leads out of it, or is ambiguous on some systems.",
    "source_invalid": "The source is not one that skills can be read from.",
    "source_unreachable": "A repository of skills cannot be fetched.",
}
