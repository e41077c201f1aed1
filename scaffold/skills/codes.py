"""The error codes of the skill pack."""

from __future__ import annotations

CODES: dict[str, str] = {
    "block_invalid": "A generated block of a document is wrong, or cannot be made.",
    "client_unknown": "The tool renders skills for no client of this name.",
    "command_refused": "A document asks for a command that the repository does not allow.",
    "output_edited": "A person edited what the tool renders; it is not overwritten.",
    "skill_ambiguous": "A source holds several skills of the name.",
    "skill_edited": "Files of an installed skill were edited, and would be changed.",
    "skill_exists": "A skill or command of the name exists already.",
    "skill_hidden_text": "A skill hides text that can carry instructions.",
    "skill_invalid": "A skill's SKILL.md cannot be read.",
    "skill_lock_invalid": "The lock file of installed skills cannot be read.",
    "skill_too_large": "A skill is larger than what is installed.",
    "skill_unknown": "The source, or the lock file, has no skill of the name.",
    "skill_unsafe": "A path in a skill leads elsewhere, or is another one on some system.",
    "source_invalid": "Skills cannot be read from what was named as their source.",
    "source_unreachable": "A repository of skills cannot be fetched.",
}
