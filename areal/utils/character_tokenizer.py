"""A tokenizer with one token per character, for small models made from scratch."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from areal.api.errors import ArealError

PAD_TOKEN, EOS_TOKEN, UNK_TOKEN = "<pad>", "<eos>", "<unk>"

# Contents follow each other with nothing between them, so that a prompt is the text that a dataset
# row shows; only an assistant's turn ends in <eos>, as generated text does.
CONCATENATING_CHAT_TEMPLATE = (
    "{% for message in messages %}{{ message['content'] }}"
    "{% if message['role'] == 'assistant' %}{{ eos_token }}{% endif %}{% endfor %}"
)


class UnknownCharacterError(ArealError, ValueError):
    """A text has characters that the tokenizer lacks."""


class CharacterTokenizer(PreTrainedTokenizerFast):
    """Refuses text that it cannot represent, as a model would learn ``<unk>`` in its place.

    ``character_tokenizer`` and ``load_hf_tokenizer`` make it.
    """

    # Where set, the unknown characters of texts are noted here, and no text is refused.
    recorded: set[str] | None = None

    def __call__(self, text: Any = None, text_pair: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Encode as transformers does.

        Raises:
            UnknownCharacterError: A text has a character outside the vocabulary.
        """
        encoded = super().__call__(text, text_pair, *args, **kwargs)
        self._check((text, text_pair), encoded["input_ids"])
        return encoded

    def encode(self, text: Any, text_pair: Any = None, *args: Any, **kwargs: Any) -> list[int]:
        """Encode as transformers does.

        Raises:
            UnknownCharacterError: A text has a character outside the vocabulary.
        """
        ids = super().encode(text, text_pair, *args, **kwargs)
        self._check((text, text_pair), ids)
        return ids

    def save_pretrained(self, *args: Any, **kwargs: Any) -> tuple[str, ...]:
        """Write it as the class that every ``AutoTokenizer`` knows."""
        plain = copy.copy(self)
        plain.__class__ = PreTrainedTokenizerFast
        return plain.save_pretrained(*args, **kwargs)

    def _check(self, texts: Any, ids: Any) -> None:
        if self.recorded is not None:
            text = "".join(strings_in(texts))
            if not self.recorded.issuperset(text):
                self.recorded |= self._lacking(text)
            return
        if not _holds(ids, self.unk_token_id):
            return
        lacking = self._lacking("".join(strings_in(texts)))
        if lacking:
            shown = " ".join(repr(character) for character in sorted(lacking))
            raise UnknownCharacterError(
                f"the tokenizer has no token for {shown}; a model made from scratch takes its "
                "characters from train_dataset and valid_dataset, or from run.model.characters"
            )

    def _lacking(self, text: str) -> set[str]:
        """Return the unknown characters of a text, of which a written-out ``<unk>`` is none."""
        encoding = self.backend_tokenizer.encode(text, add_special_tokens=False)
        spans = zip(encoding.ids, encoding.offsets, strict=True)
        unknown = {text[start:end] for token, (start, end) in spans if token == self.unk_token_id}
        return unknown - {UNK_TOKEN}


def character_tokenizer(
    characters: Sequence[str],
    *,
    chat_template: str = CONCATENATING_CHAT_TEMPLATE,
    model_max_length: int | None = None,
    special_tokens: Sequence[str] = (),
) -> CharacterTokenizer:
    """Build a tokenizer with one token per character, for small models made from scratch.

    Ids are 0 ``<pad>``, 1 ``<eos>``, 2 ``<unk>``, then the characters in the order given. A text
    with a character outside the vocabulary is refused. ``save_pretrained`` writes it and
    ``AutoTokenizer`` reads it back, as a tokenizer that answers ``<unk>`` there.

    Args:
        characters: A string, or a sequence of one-character strings; repeats are ignored.
        chat_template: Jinja; the default concatenates contents and ends an assistant's turn with
            ``<eos>``.
        model_max_length: In tokens; beyond it transformers warns. None is no limit.
        special_tokens: Further tokens, each whole in the text; they follow the characters.

    Raises:
        ValueError: There is no character, or an entry is not exactly one character long.
    """
    unique = list(dict.fromkeys(characters))
    wrong = [entry for entry in unique if len(entry) != 1]
    if not unique or wrong:
        raise ValueError(f"characters must be single characters, at least one; got {wrong}")
    return _make(unique, chat_template, model_max_length, special_tokens)


def recording_tokenizer(
    *, chat_template: str = CONCATENATING_CHAT_TEMPLATE, special_tokens: Sequence[str] = ()
) -> CharacterTokenizer:
    """Build one that takes every text and notes its characters in ``recorded``."""
    made = _make([], chat_template, None, special_tokens)
    made.recorded = set()
    return made


def restrict(tokenizer: Any) -> Any:
    """Return a tokenizer, if it is one of characters read from files, as one that refuses."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if type(tokenizer) is PreTrainedTokenizerFast and isinstance(backend.model, models.WordLevel):
        tokenizer.__class__ = CharacterTokenizer
    return tokenizer


def strings_in(value: Any) -> Iterable[str]:
    """Yield every string inside nested sequences and the values of mappings."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from strings_in(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            if type(inner) is not int:  # token ids, which are most of what rows hold
                yield from strings_in(inner)


def _make(
    characters: Sequence[str],
    chat_template: str,
    model_max_length: int | None,
    special_tokens: Sequence[str],
) -> CharacterTokenizer:
    tokens = [PAD_TOKEN, EOS_TOKEN, UNK_TOKEN, *characters]
    vocabulary = {token: index for index, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=UNK_TOKEN))
    # A dot alone would leave line breaks unsplit.
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), behavior="isolated")
    tokenizer.decoder = decoders.Fuse()
    limit = {} if model_max_length is None else {"model_max_length": model_max_length}
    made = CharacterTokenizer(
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


def _holds(ids: Any, token: int) -> bool:
    """Return whether token ids, in lists or an array of any depth, contain one."""
    if hasattr(ids, "tolist"):
        ids = ids.tolist()
    return any(_holds(each, token) if isinstance(each, list) else each == token for each in ids)
