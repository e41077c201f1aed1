"""Loads tokenizers, processors and files, builds the character tokenizer, renders chats."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

from areal.utils.image_processors import load_processor

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast, ProcessorMixin
    from transformers.tokenization_utils_base import PreTrainedTokenizerBase

PAD_TOKEN, EOS_TOKEN, UNK_TOKEN = "<pad>", "<eos>", "<unk>"

# Contents follow each other with nothing between them, so that a prompt is the text that a dataset
# row shows; only an assistant's turn ends in <eos>, as generated text does.
CONCATENATING_CHAT_TEMPLATE = (
    "{% for message in messages %}{{ message['content'] }}"
    "{% if message['role'] == 'assistant' %}{{ eos_token }}{% endif %}{% endfor %}"
)


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


@functools.lru_cache(maxsize=8)
def load_hf_tokenizer(model_name_or_path: str) -> PreTrainedTokenizerBase:
    """Load a tokenizer once per process; one without a padding token pads with end-of-sequence.

    Args:
        model_name_or_path: A hub id or a folder.

    Raises:
        OSError: There is no such model, or no tokenizer in the folder.
    """
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model_name_or_path)
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
    """Return the local path of a file, downloading it first if it stands on the hub.

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


def character_tokenizer(
    characters: Sequence[str],
    *,
    chat_template: str = CONCATENATING_CHAT_TEMPLATE,
    model_max_length: int | None = None,
    special_tokens: Sequence[str] = (),
) -> PreTrainedTokenizerFast:
    """Build a tokenizer with one token per character, for small models made from scratch.

    Ids are 0 ``<pad>``, 1 ``<eos>``, 2 ``<unk>``, then the characters in the order given. A
    character outside the vocabulary becomes ``<unk>`` and decodes as such. ``save_pretrained``
    writes it and ``AutoTokenizer`` reads it back.

    Args:
        characters: A string, or a sequence of one-character strings; repeats are ignored.
        chat_template: Jinja; the default concatenates contents and ends an assistant's turn with
            ``<eos>``.
        model_max_length: In tokens; beyond it transformers warns. None is no limit.
        special_tokens: Further tokens, each whole in the text; they follow the characters.

    Raises:
        ValueError: There is no character, or an entry is not exactly one character long.
    """
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    unique = list(dict.fromkeys(characters))
    wrong = [entry for entry in unique if len(entry) != 1]
    if not unique or wrong:
        raise ValueError(f"characters must be single characters, at least one; got {wrong}")
    vocabulary = {
        token: index for index, token in enumerate([PAD_TOKEN, EOS_TOKEN, UNK_TOKEN, *unique])
    }
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=UNK_TOKEN))
    # A dot alone would leave line breaks unsplit.
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), behavior="isolated")
    tokenizer.decoder = decoders.Fuse()
    limit = {} if model_max_length is None else {"model_max_length": model_max_length}
    made = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD_TOKEN,
        eos_token=EOS_TOKEN,
        unk_token=UNK_TOKEN,
        chat_template=chat_template,
        clean_up_tokenization_spaces=False,
        **limit,
    )
    if special_tokens:
        made.add_special_tokens({"additional_special_tokens": list(special_tokens)})
    return made
