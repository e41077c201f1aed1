"""Arguments and results on the wire: JSON for structure, safetensors for numbers, never pickle.

A message is the length of its JSON as eight bytes, the JSON, and the tensors. What JSON lacks is a
mapping with one key that begins with ``@``; a mapping that has such a key itself travels as items.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import struct
import subprocess
from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from areal.api.errors import ArealError
from areal.api.registry import import_from_string

if TYPE_CHECKING:
    import torch

MEDIA_TYPE = "application/x-areal-call"
# Classes of these packages alone are made from a message.
_TRUSTED = "areal."
_LENGTH = struct.Struct(">Q")

Tensors = dict[str, "torch.Tensor"]


class WireError(ArealError, TypeError):
    """A value cannot travel, or a message is malformed."""


def dump(value: Any) -> bytes:
    """Return a value as a message.

    Raises:
        WireError: It holds something that cannot travel; the message names the place.
    """
    tensors: Tensors = {}
    text = json.dumps(_encode(value, tensors, "value")).encode()
    body = b""
    if tensors:
        from safetensors.torch import save  # torch, which a message without tensors can do without

        body = save(tensors)
    return _LENGTH.pack(len(text)) + text + body


def load(message: bytes) -> Any:
    """Return what ``dump`` was given.

    Raises:
        WireError: The message is malformed, or of a class that is not made from messages.
    """
    tensors: Tensors = {}
    try:
        (size,) = _LENGTH.unpack_from(message)
        begin, end = _LENGTH.size, _LENGTH.size + size
        if len(message) < end:
            raise WireError(f"the message is cut off: {len(message)} bytes of {end} or more")
        content = json.loads(message[begin:end])
        if body := message[end:]:
            from safetensors.torch import load as load_tensors  # see above

            tensors = load_tensors(body)
        return _decode(content, tensors)
    except WireError:
        raise
    except Exception as error:  # whatever a parser makes of what a stranger sends
        raise WireError(f"the message is malformed: {type(error).__name__}: {error}") from error


def _encode(value: Any, tensors: Tensors, place: str) -> Any:
    if value is None or type(value) in (bool, int, float, str):
        return value
    if type(value) is list:
        return [_encode(each, tensors, f"{place}[{i}]") for i, each in enumerate(value)]
    if isinstance(value, Mapping):
        return _encode_mapping(value, tensors, place)
    for kind, (test, encode, _) in _KINDS.items():
        if test(value):
            return {f"@{kind}": encode(value, tensors, place)}
    raise WireError(
        f"{place} is a {type(value).__module__}.{type(value).__qualname__}, which cannot be sent "
        "to a worker; pass its import path, or plain data and tensors"
    )


def _encode_mapping(value: Mapping[Any, Any], tensors: Tensors, place: str) -> Any:
    if all(type(key) is str and not key.startswith("@") for key in value):
        return {key: _encode(each, tensors, f"{place}.{key}") for key, each in value.items()}
    items = [[key, each] for key, each in value.items()]
    return {"@items": _encode(items, tensors, place)}


def _decode(content: Any, tensors: Tensors) -> Any:
    if isinstance(content, list):
        return [_decode(each, tensors) for each in content]
    if not isinstance(content, dict):
        return content
    if len(content) == 1:
        ((key, inner),) = content.items()
        if key == "@items":
            return dict(_decode(inner, tensors))
        if key.startswith("@"):
            return _KINDS[key[1:]][2](inner, tensors)
    return {key: _decode(each, tensors) for key, each in content.items()}


# --- what JSON lacks


def _is_tensor(value: Any) -> bool:
    return type(value).__module__.startswith("torch") and hasattr(value, "untyped_storage")


def _encode_tensor(value: Any, tensors: Tensors, _: str) -> str:
    name = str(len(tensors))
    # Of its own memory: two views of one storage would be refused.
    tensors[name] = value.detach().cpu().contiguous().clone()
    return name


def _encode_array(value: Any, tensors: Tensors, place: str) -> str:
    if value.dtype.hasobject:
        raise WireError(f"{place} is an array of objects, which cannot be sent to a worker")
    import torch  # only where there are arrays

    return _encode_tensor(torch.from_numpy(value.copy()), tensors, place)


def _encode_dataclass(value: Any, tensors: Tensors, place: str) -> list[Any]:
    path = f"{type(value).__module__}:{type(value).__qualname__}"
    if not path.startswith(_TRUSTED):
        raise WireError(f"{place} is a {path}; workers make classes of areal alone")
    fields = {
        field.name: getattr(value, field.name)
        for field in dataclasses.fields(value)
        # A process is that of whoever started it.
        if not isinstance(getattr(value, field.name), subprocess.Popen)
    }
    return [
        path,
        {name: _encode(each, tensors, f"{place}.{name}") for name, each in fields.items()},
    ]


def _decode_dataclass(content: Any, tensors: Tensors) -> Any:
    path, fields = content
    cls = _trusted(path)
    if not dataclasses.is_dataclass(cls):
        raise WireError(f"{path} is not a dataclass")
    made = object.__new__(cls)  # as it was, without what its constructor would fill in
    for field in dataclasses.fields(cls):
        object.__setattr__(made, field.name, _decode(fields.get(field.name), tensors))
    return made


def _trusted(path: str) -> type[Any]:
    if not path.startswith(_TRUSTED):
        raise WireError(f"{path} is not a class of areal")
    found: Any = import_from_string(path)
    if not isinstance(found, type):
        raise WireError(f"{path} is not a class")
    return found


def _tokenizer_path(value: Any, _: Tensors, place: str) -> str:
    path = getattr(value, "name_or_path", "") or getattr(
        getattr(value, "tokenizer", None), "name_or_path", ""
    )
    if not path:
        raise WireError(f"{place} is a tokenizer that was not loaded from a path; pass a path")
    return str(path)


def _load_tokenizer(path: str, _: Tensors) -> Any:
    from areal.utils.hf_utils import load_hf_tokenizer  # transformers, for tokenizers alone

    return load_hf_tokenizer(path)


def _load_processor(path: str, _: Tensors) -> Any:
    from areal.utils.hf_utils import load_hf_processor_and_tokenizer  # see above

    return load_hf_processor_and_tokenizer(path)[0]


def _is_of(*names: str) -> Callable[[Any], bool]:
    """Return a test for classes of packages that need not be imported for it."""
    return lambda value: any(cls.__name__ in names for cls in type(value).__mro__)


def _encode_enum(value: Any, _: Tensors, place: str) -> list[Any]:
    path = f"{type(value).__module__}:{type(value).__qualname__}"
    if not path.startswith(_TRUSTED):
        raise WireError(f"{place} is a {path}; workers make classes of areal alone")
    return [path, value.value]


_Kind = tuple[
    Callable[[Any], bool], Callable[[Any, Tensors, str], Any], Callable[[Any, Tensors], Any]
]
_KINDS: dict[str, _Kind] = {
    "tensor": (_is_tensor, _encode_tensor, lambda name, tensors: tensors[name]),
    "array": (_is_of("ndarray"), _encode_array, lambda name, tensors: tensors[name].numpy()),
    "number": (_is_of("generic"), lambda v, *_: v.item(), lambda v, _: v),
    "dtype": (
        lambda v: type(v).__module__ == "torch" and type(v).__name__ == "dtype",
        lambda v, *_: str(v).removeprefix("torch."),
        lambda name, _: import_from_string(f"torch:{name}"),
    ),
    "enum": (
        lambda v: isinstance(v, enum.Enum),
        _encode_enum,
        lambda content, _: _trusted(content[0])(content[1]),
    ),
    "dataclass": (
        lambda v: dataclasses.is_dataclass(v) and not isinstance(v, type),
        _encode_dataclass,
        _decode_dataclass,
    ),
    "tuple": (
        lambda v: isinstance(v, tuple),
        lambda v, tensors, place: _encode(list(v), tensors, place),
        lambda content, tensors: tuple(_decode(content, tensors)),
    ),
    "set": (
        lambda v: isinstance(v, (set, frozenset)),
        lambda v, tensors, place: _encode(sorted(v), tensors, place),
        lambda content, tensors: set(_decode(content, tensors)),
    ),
    "path": (lambda v: isinstance(v, PurePath), lambda v, *_: str(v), lambda v, _: v),
    "tokenizer": (_is_of("PreTrainedTokenizerBase"), _tokenizer_path, _load_tokenizer),
    "processor": (_is_of("ProcessorMixin"), _tokenizer_path, _load_processor),
}
