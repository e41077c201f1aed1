"""Loads tokenizers, processors and files, and renders chats."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from areal.api.errors import ConfigError
from areal.utils.image_processors import load_processor

if TYPE_CHECKING:
    from transformers import ProcessorMixin
    from transformers.tokenization_utils_base import PreTrainedTokenizerBase


CONFIG = "config.json"
HUB_TIMEOUT_S = 10.0


@overload
def apply_chat_template(
    tokenizer: Any, messages: Any, *, tokenize: Literal[True] = True, **kwargs: Any
) -> list[int]: ...
@overload
def apply_chat_template(
    tokenizer: Any, messages: Any, *, tokenize: Literal[False], **kwargs: Any
) -> str: ...
def apply_chat_template(
    tokenizer: Any, messages: Any, *, tokenize: bool = True, **kwargs: Any
) -> list[int] | str:
    """Render one conversation as the model's chat format.

    Args:
        tokenizer: Anything with ``apply_chat_template``.
        messages: Role and content mappings, oldest first.
        tokenize: True gives token ids, False the text.
        **kwargs: Passed on, such as ``add_generation_prompt`` and ``enable_thinking``.

    Returns:
        Plain token ids, whether the tokenizer answers with a list (transformers 4), a
        ``BatchEncoding`` (transformers 5), a tensor, or a batch of one; or the text.

    Raises:
        TypeError: The messages are text, as those of image datasets are.
        ValueError: The tokenizer answered with a batch of several conversations.
    """
    if isinstance(messages, str):
        raise TypeError(
            "messages must be mappings of role and content, found text; rows with images are for "
            "VisionRLVRWorkflow"
        )
    rendered = tokenizer.apply_chat_template(messages, tokenize=tokenize, **kwargs)
    if not tokenize:
        return rendered
    if isinstance(rendered, Mapping) or hasattr(rendered, "input_ids"):
        rendered = rendered["input_ids"]
    if hasattr(rendered, "tolist"):
        rendered = rendered.tolist()
    if rendered and isinstance(rendered[0], (list, tuple)):
        if len(rendered) != 1:
            raise ValueError(f"one conversation expected, the tokenizer gave {len(rendered)}")
        rendered = rendered[0]
    return list(rendered)


def ordinary_token_ids(tokenizer: Any, count: int) -> list[int]:
    """Return the first tokens that are not special, as a trial prompt that any model can read."""
    special = set(tokenizer.all_special_ids)
    return list(itertools.islice((i for i in range(len(tokenizer)) if i not in special), count))


def check_model_name(name: str) -> None:
    """Refuse what is no folder, and no model of the hub; the hub is asked once at most.

    Loading asks six times for each file before it gives up.

    Raises:
        ConfigError: There is no such model, or nobody can be asked.
    """
    from huggingface_hub import constants, get_hf_file_metadata, hf_hub_url, try_to_load_from_cache
    from huggingface_hub.errors import EntryNotFoundError, HFValidationError
    from huggingface_hub.utils import validate_repo_id

    if Path(name).expanduser().is_dir():
        return
    try:
        validate_repo_id(name)
        is_known = isinstance(try_to_load_from_cache(name, CONFIG), str)
        if not is_known and not constants.HF_HUB_OFFLINE:
            get_hf_file_metadata(hf_hub_url(name, CONFIG), timeout=HUB_TIMEOUT_S)
    except HFValidationError as error:
        raise ConfigError(f"there is no folder {name!r}, and no model can be called so") from error
    except EntryNotFoundError:
        return  # a model without this file
    except Exception as error:  # of the network, whatever carries it
        cause = (str(error) or type(error).__name__).strip().splitlines()[0]
        raise ConfigError(f"there is no folder {name!r}, and the hub: {cause}") from error


@functools.lru_cache(maxsize=8)
def load_hf_tokenizer(model_name_or_path: str) -> PreTrainedTokenizerBase:
    """Load a tokenizer once per process; one without a padding token pads with end-of-sequence.

    Args:
        model_name_or_path: A hub id or a folder.

    Raises:
        OSError: There is no such model, or no tokenizer in the folder.
    """
    from transformers import AutoTokenizer

    from areal.utils.character_tokenizer import restrict

    tokenizer = restrict(AutoTokenizer.from_pretrained(model_name_or_path))
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


@functools.lru_cache(maxsize=8)
def load_hf_processor_and_tokenizer(
    model_name_or_path: str,
) -> tuple[ProcessorMixin | None, PreTrainedTokenizerBase]:
    """Load what prepares a model's input; the processor is None for a text-only model.

    Args:
        model_name_or_path: A hub id or a folder.

    Raises:
        OSError: There is no such model, or no tokenizer in the folder.
    """
    tokenizer = load_hf_tokenizer(model_name_or_path)
    return load_processor(model_name_or_path), tokenizer


def load_hf_or_local_file(path: str) -> str:
    """Return the local path of a file, downloading it first if it is on the hub.

    Args:
        path: A local path, returned as it is; ``hf://org/repo[@revision]/file`` for a file of a
            model; ``hf-dataset://org/repo[@revision]/file`` for a file of a dataset.

    Raises:
        ValueError: The hub path lacks the organisation, the repository or the file.
    """
    scheme, sep, location = path.strip().partition("://")
    repo_types = {"hf": "model", "hf-dataset": "dataset"}
    if not sep or scheme not in repo_types:
        return path
    parts = location.split("/", 2)
    if len(parts) != 3 or not all(parts):
        raise ValueError(f"{path!r} names no hub file; write {scheme}://org/repo/file")
    organisation, repository, filename = parts
    repository, _, revision = repository.partition("@")
    from huggingface_hub import hf_hub_download

    return hf_hub_download(
        repo_id=f"{organisation}/{repository}",
        filename=filename,
        repo_type=repo_types[scheme],
        revision=revision or "main",
    )
