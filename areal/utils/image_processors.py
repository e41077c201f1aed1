"""Processors of image models: loaded, or made from scratch; without video where that is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase, ProcessorMixin

IMAGE_TOKEN, VIDEO_TOKEN = "<|image_pad|>", "<|video_pad|>"
# Without them the patches of images that follow each other would be those of one image.
IMAGE_START, IMAGE_END = "<|vision_start|>", "<|vision_end|>"
IMAGE_TOKENS = (IMAGE_TOKEN, VIDEO_TOKEN, IMAGE_START, IMAGE_END)

# As CONCATENATING_CHAT_TEMPLATE of hf_utils, for content that is a list of parts as well.
IMAGE_CHAT_TEMPLATE = (
    "{% for message in messages %}{% if message['content'] is string %}{{ message['content'] }}"
    "{% else %}{% for part in message['content'] %}{% if part['type'] == 'image' %}"
    + IMAGE_START
    + IMAGE_TOKEN
    + IMAGE_END
    + "{% else %}{{ part['text'] }}{% endif %}{% endfor %}{% endif %}"
    "{% if message['role'] == 'assistant' %}{{ eos_token }}{% endif %}{% endfor %}"
)


def load_processor(path: str) -> ProcessorMixin | None:
    """Return what prepares text and images for a model; None for a model of text alone.

    A processor that also takes videos comes without that part where torchvision, or the part's own
    file, is missing.

    Args:
        path: A hub id or a folder.
    """
    from transformers import AutoProcessor, ProcessorMixin
    from transformers.utils import is_torchvision_available

    with_video = _class_with_video(path)
    if with_video is None or is_torchvision_available():
        try:
            found = AutoProcessor.from_pretrained(path)
            # For some text-only models AutoProcessor answers with the tokenizer.
            return found if isinstance(found, ProcessorMixin) else None
        except (OSError, ValueError):
            # A text-only model has no processor configuration; transformers raises in either way.
            if with_video is None:
                return None
    try:
        found = images_only(with_video).from_pretrained(path)
    except TypeError as error:
        raise ImportError(
            f"the processor of {path!r} does not do without its part for videos, which needs "
            f"torchvision ({error}); install torchvision"
        ) from error
    return found


def _class_with_video(path: str) -> Any:
    """Return the processor's class where it is one that takes videos too."""
    from transformers import AutoConfig
    from transformers.models.auto.processing_auto import PROCESSOR_MAPPING

    try:
        config = AutoConfig.from_pretrained(path)
    except (OSError, ValueError):
        return None
    found: Any = PROCESSOR_MAPPING.get(type(config), None)
    has_video = found is not None and "video_processor" in found.get_attributes()
    return found if has_video else None


def images_only(processor_class: Any) -> Any:
    """Return a processor's class without its part for videos, which needs torchvision.

    It has the same name, so that what it saves is read by the class itself.
    """
    parts = [name for name in processor_class.get_attributes() if name != "video_processor"]
    own = {"get_attributes": classmethod(lambda cls: parts)}
    return type(processor_class.__name__, (processor_class,), own)


def small_processor(
    tokenizer: PreTrainedTokenizerBase, patch_size: int, merge_size: int, max_pixels: int
) -> ProcessorMixin:
    """Make the processor of a small model that was made from scratch.

    Args:
        tokenizer: Has ``IMAGE_TOKEN`` and a chat template.
        patch_size: Side of a patch, in pixels.
        merge_size: Side of the square of patches that become one token.
        max_pixels: Images are shrunk to this area, in pixels.
    """
    import transformers

    transformers_module: Any = transformers
    # The one on PIL, so that pixels do not depend on what is installed; older versions have one.
    name = "Qwen2VLImageProcessor"
    images_class = getattr(transformers_module, f"{name}Pil", None) or getattr(
        transformers_module, name
    )
    images = images_class(
        patch_size=patch_size,
        merge_size=merge_size,
        temporal_patch_size=1,
        size={"shortest_edge": (patch_size * merge_size) ** 2, "longest_edge": max_pixels},
    )
    made: ProcessorMixin = images_only(transformers_module.Qwen2VLProcessor)(
        image_processor=images, tokenizer=tokenizer, chat_template=tokenizer.chat_template
    )
    return made
