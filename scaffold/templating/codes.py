"""The error codes of templates, their answers and names."""

from __future__ import annotations

CODES: dict[str, str] = {
    "answer_invalid": "An answer has the wrong type, or is none of the choices.",
    "answer_missing": "A required answer is missing, and there is no terminal to ask.",
    "answers_differ": "The unit exists already, made with other answers.",
    "name_builtin": "The name is that of a Python builtin.",
    "name_characters": "The name holds characters that no identifier can hold.",
    "name_digit": "The name begins with a digit.",
    "name_empty": "The name holds no letter or digit.",
    "name_keyword": "The name is a Python keyword or soft keyword.",
    "name_kind": "The name is only the word for its kind.",
    "name_length": "The name is too long.",
    "name_non_ascii": "The name holds characters outside ASCII.",
    "name_path": "The name holds a path separator or '..'.",
    "name_reserved": "The name is that of a device or of a folder that has another use.",
    "name_stdlib": "A module of this name would shadow one that Python or the project imports.",
    "unknown_kind": "There is no template of this kind.",
    "unknown_style": "The kind has no style of this name.",
}
