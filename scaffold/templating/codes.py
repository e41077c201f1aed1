"""The error codes of templates, their answers and names."""

from __future__ import annotations

CODES: dict[str, str] = {
    "answer_invalid": "An answer has the wrong type, or is not one of the choices.",
    "answer_missing": "A required answer is missing, and there is no terminal to ask.",
    "answers_differ": "The unit already exists, with different answers.",
    "name_builtin": "The name is a Python builtin.",
    "name_characters": "The name has characters that are not allowed in an identifier.",
    "name_digit": "The name begins with a digit.",
    "name_empty": "The name has no letter or digit.",
    "name_keyword": "The name is a Python keyword or soft keyword.",
    "name_kind": "The name is only the name of its kind.",
    "name_length": "The name is too long.",
    "name_non_ascii": "The name has non-ASCII characters.",
    "name_path": "The name has a path separator or '..'.",
    "name_reserved": "The name is reserved for a device, or for a folder with another use.",
    "name_stdlib": "A module of this name would shadow one that Python or the project imports.",
    "unknown_kind": "There is no template of this kind.",
    "unknown_style": "The kind has no style of this name.",
}
