"""What every trainer sets up first: folders, seeds, the model with its tokenizer, the datasets."""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from areal.api.alloc_mode import ModelAllocation
from areal.api.cli_args import (
    BaseExperimentConfig,
    DPOConfig,
    PPOConfig,
    TrainEngineConfig,
    _DatasetConfig,
)
from areal.api.errors import ConfigError, DatasetError
from areal.dataset import get_custom_dataset, takes_processor
from areal.engine.loading.huggingface import resolve_dtype, takes_images
from areal.engine.loading.suitability import compare_images
from areal.engine.model.image_text import ImageTextLM
from areal.engine.model.lora import base_model_path
from areal.engine.model.shared_weights import SharedWeights
from areal.engine.processes import resolve_device
from areal.engine.training.backends import refuse_unavailable, train_engine_class
from areal.engine.training.engine import PackedTrainEngine
from areal.infra.launch import SERVERS_VARIABLE
from areal.trainer.recover import RECOVER_FOLDER, has_recover
from areal.trainer.report.records import RUN_FILE
from areal.utils.character_tokenizer import character_tokenizer, recording_tokenizer, strings_in
from areal.utils.hf_utils import load_hf_processor_and_tokenizer, load_hf_tokenizer
from areal.utils.image_processors import (
    IMAGE_CHAT_TEMPLATE,
    IMAGE_TOKENS,
    small_processor,
)
from areal.utils.seeding import derive_seed

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase, ProcessorMixin


SMALL_MODEL_PARAMETERS = 2_000_000

logger = logging.getLogger("Trainer")


def run_folder(config: BaseExperimentConfig) -> Path:
    """Return the folder of a run: ``<cluster.fileroot>/<experiment_name>/<trial_name>``."""
    return Path(config.cluster.fileroot) / config.experiment_name / config.trial_name


def uses_servers(config: PPOConfig) -> bool:
    """Return whether rollouts come from servers, and not from an engine in this process.

    A model that several processes train is in pieces, and does not generate.
    """
    rollout = ModelAllocation.from_str(config.rollout.backend)
    actor = ModelAllocation.from_str(config.actor.backend)
    needs_several = rollout.world_size > 1 or actor.world_size > 1
    return rollout.backend != "local" or needs_several or bool(os.environ.get(SERVERS_VARIABLE))


def names_image_model(config: BaseExperimentConfig) -> bool:
    """Return whether the actor will be a model that takes images; reads its configuration alone.

    A folder that does not exist has none, and is refused where the model is loaded.

    Raises:
        ConfigError: ``actor.path`` exists and has no configuration.
    """
    path = config.actor.path
    if path:
        return not _leads_nowhere(path) and takes_images(path)
    return config.run.model is not None and config.run.model.vision is not None


class FolderLock:
    """Keeps a second process out of a run's folder for as long as it is held.

    Two processes that train one trial would take each other's checkpoints for leftovers. The
    system lets go of the lock of a killed process.

    Args:
        folder: Is made if missing.

    Raises:
        ConfigError: Another process trains there, or nothing can be written there.
    """

    def __init__(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if not os.access(folder, os.W_OK):
                raise PermissionError("it is read-only for this user")
            self._descriptor: int | None = os.open(folder, os.O_RDONLY)
        except OSError as error:
            raise ConfigError(
                f"cannot write to {folder}: {error.strerror or error}; choose another "
                "cluster.fileroot"
            ) from error
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self.release()
            raise ConfigError(
                f"another process trains this trial in {folder}; wait for its end, or choose "
                "another trial_name"
            ) from error
        except OSError:
            logger.warning("%s cannot be locked; start this trial only once at a time", folder)

    def release(self) -> None:
        """Let others in; a second call does nothing."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def retire_earlier(config: BaseExperimentConfig) -> Path | None:
    """Rename the folder of an earlier run that is not continued, ``NAME`` to ``NAME.1``.

    A run that starts over, or ended before its first checkpoint, is another run: nothing of it may
    be taken for this one's.

    Returns:
        Where the earlier run is now; None where there was none, or it is continued.

    Raises:
        ConfigError: Another process trains there.
    """
    folder = run_folder(config)
    if not (folder / RUN_FILE).is_file():
        return None
    if config.recover.enabled and has_recover(folder / RECOVER_FOLDER):
        return None
    lock = FolderLock(folder)
    number = 1
    while (place := folder.with_name(f"{folder.name}.{number}")).exists():
        number += 1
    folder.rename(place)
    lock.release()
    logger.warning("the earlier run of this trial is kept in %s", place)
    return place


def make_tokenizer(
    config: BaseExperimentConfig,
    actor: TrainEngineConfig,
    train_dataset: Any = None,
    valid_dataset: Any = None,
) -> PreTrainedTokenizerBase:
    """Make or load the tokenizer of a run.

    Args:
        config: Of the run.
        actor: The trained model, whose folder has a tokenizer unless ``tokenizer_path`` names one.
        train_dataset: Rows from which a model made from scratch takes its characters; None loads
            those that the configuration names.
        valid_dataset: The same.

    Raises:
        ConfigError: None is named, or it cannot be loaded.
    """
    path = config.tokenizer_path or actor.path
    if path:
        check_local_path(path, "tokenizer_path" if config.tokenizer_path else "actor.path")
        path = base_model_path(path)
        try:
            return load_hf_tokenizer(path)
        except (OSError, ValueError) as error:
            raise ConfigError(f"cannot load the tokenizer {path!r}: {error}") from error
    spec = config.run.model
    if spec is None:
        raise ConfigError("no model is named: set actor.path, or describe one in run.model")
    images: dict[str, Any] = {}
    if spec.vision is not None:
        images = {
            "chat_template": IMAGE_CHAT_TEMPLATE,
            "special_tokens": IMAGE_TOKENS,
        }
    if not spec.characters:  # written down, so that everything of the run has the same ones
        given = [(config.train_dataset, train_dataset), (config.valid_dataset, valid_dataset)]
        spec.characters = _characters_of(config, given, images)
    return character_tokenizer(
        spec.characters,
        model_max_length=spec.max_position_embeddings,
        **images,
    )


def _characters_of(
    config: BaseExperimentConfig,
    datasets: Sequence[tuple[_DatasetConfig | None, Any]],
    images: dict[str, Any],
) -> str:
    """Return the characters of the rows, and of what their loaders make tokens of, in order.

    Args:
        config: Of the run.
        datasets: Sections of the configuration, each with its rows where they are loaded already.
        images: Options of the tokenizer of an image model.
    """
    tokenizer = recording_tokenizer(**images)
    seen = tokenizer.recorded
    assert seen is not None
    for section, given in datasets:
        rows = given
        if rows is None and section is not None:
            rows = load_rows(section, tokenizer, lambda: _small_processor(config, tokenizer))
        for row in each_row(() if rows is None else rows):
            seen.update(*strings_in(row))
    if not seen:
        raise ConfigError("the rows have no text; name the characters in run.model.characters")
    return "".join(sorted(seen))


def make_processor(
    config: BaseExperimentConfig, actor: TrainEngineConfig, tokenizer: PreTrainedTokenizerBase
) -> ProcessorMixin | None:
    """Make or load what prepares the images of a run; None for a model of text alone.

    Raises:
        ConfigError: It cannot be loaded.
    """
    path = config.tokenizer_path or actor.path
    if path:
        try:
            return load_hf_processor_and_tokenizer(base_model_path(path))[0]
        except (OSError, ValueError, ImportError) as error:
            raise ConfigError(f"cannot load the processor {path!r}: {error}") from error
    return _small_processor(config, tokenizer)


def _small_processor(config: BaseExperimentConfig, tokenizer: Any) -> ProcessorMixin | None:
    vision = config.run.model and config.run.model.vision
    if not vision:
        return None
    return small_processor(tokenizer, vision.patch_size, vision.merge_size, vision.max_pixels)


def check_local_path(path: str, key: str = "actor.path") -> None:
    """Refuse what is written as a local path and leads nowhere; anything else may be a hub id.

    Raises:
        ConfigError: There is no such folder.
    """
    if _leads_nowhere(path):
        raise ConfigError(
            f"there is no checkpoint folder {path!r}; train it first, or correct {key}"
        )


def _leads_nowhere(path: str) -> bool:
    looks_local = path.startswith((".", "/", "~")) or path.count("/") > 1
    return looks_local and not Path(path).expanduser().is_dir()


def make_weights(
    config: BaseExperimentConfig, actor: TrainEngineConfig, tokenizer: PreTrainedTokenizerBase
) -> SharedWeights:
    """Make or loads the model of a run; ``actor.path`` wins over ``run.model``.

    With ``init_from_scratch`` only the model's sizes are read from the path.

    Raises:
        ConfigError: The model cannot be made, or an option asks for what this engine lacks.
    """
    refuse_unavailable(actor)
    device = resolve_device()
    dtype = resolve_dtype(actor.dtype, device)
    engine = train_engine_class(actor.backend)
    if actor.path:
        check_local_path(actor.path)
        seed = derive_seed(config.seed, "model") if actor.init_from_scratch else None
        return SharedWeights(engine.load_model(actor, dtype, device, seed))
    spec = config.run.model
    if spec is None:
        raise ConfigError("no model is named: set actor.path, or describe one in run.model")
    return SharedWeights(engine.make_model(actor, spec, tokenizer, dtype, device))


def make_train_engine(actor: TrainEngineConfig, weights: SharedWeights) -> PackedTrainEngine:
    """Make the engine that ``actor.backend`` names, over a model of ``make_weights``."""
    return train_engine_class(actor.backend)(actor, weights)


def make_colocated_engine(
    config: DPOConfig | PPOConfig,
    settings: TrainEngineConfig,
    section: str,
    tokenizer: PreTrainedTokenizerBase,
) -> PackedTrainEngine:
    """Make the engine of a second model, on the actor's processes.

    Args:
        config: Of the run.
        settings: Of the model.
        section: Its key in the configuration, for messages.
        tokenizer: Of the run.

    Raises:
        ConfigError: The model cannot be made.
    """
    try:
        return make_train_engine(settings, make_weights(config, settings, tokenizer))
    except ConfigError as error:
        # Engines take the section that they read for the actor's.
        raise ConfigError(str(error).replace("actor.", f"{section}.")) from error


def limit_threads(weights: SharedWeights) -> None:
    """Keep a small model on a CPU to one thread, unless ``OMP_NUM_THREADS`` is set.

    Its products are over before a second thread has begun, and threads that wait burn the cores
    that rewards and episodes could use.
    """
    num_parameters = sum(p.numel() for p in weights.module.parameters())
    is_on_cpu = next(weights.module.parameters()).device.type == "cpu"
    if (
        is_on_cpu
        and num_parameters < SMALL_MODEL_PARAMETERS
        and "OMP_NUM_THREADS" not in os.environ
    ):
        torch.set_num_threads(1)


def load_rows(
    dataset: _DatasetConfig,
    tokenizer: PreTrainedTokenizerBase,
    processor: Callable[[], ProcessorMixin | None] | None = None,
) -> Any:
    """Load the dataset of a configuration section.

    Args:
        dataset: The section.
        tokenizer: For loaders of text.
        processor: Makes that of the run, where the loader takes images.

    Raises:
        ConfigError: Nothing is left to train on.
    """
    rows = get_custom_dataset(
        dataset_config=dataset,
        tokenizer=tokenizer,
        processor=processor() if processor is not None and takes_processor(dataset) else None,
    )
    if not len(rows):
        raise ConfigError(
            f"dataset {dataset.path!r} has no rows; check split, max_length and the files"
        )
    return rows


def check_tokenizer(tokenizer: PreTrainedTokenizerBase, weights: SharedWeights) -> None:
    """Refuse a tokenizer that knows tokens which the model has no embedding for.

    Raises:
        ConfigError: It is another model's.
    """
    num_embeddings = weights.lm.num_embeddings
    if len(tokenizer) > num_embeddings:
        raise ConfigError(
            f"the tokenizer has {len(tokenizer)} tokens and the model {num_embeddings}; "
            "tokenizer_path and actor.path do not belong together"
        )


def check_images(weights: SharedWeights, processor: ProcessorMixin | None) -> None:
    """Refuse an image model whose images the engines would show it otherwise than it sees them.

    Raises:
        ConfigError: It has no processor, or the engines do not run it with images.
    """
    if processor is None:
        raise ConfigError(
            f"{type(weights.module).__name__} takes images and has no processor to prepare them; "
            "put its preprocessor_config.json into the folder of actor.path, or set tokenizer_path"
        )
    assert isinstance(weights.lm, ImageTextLM)
    compare_images(weights.lm, processor)


def each_row(rows: Any) -> Iterable[Any]:
    """Return the rows of a dataset one by one.

    What can iterate by itself does so, as a ``datasets.Dataset`` reads by index at twice the price.
    Anything else is read by index up to its length, as it may answer to any index.
    """
    return rows if hasattr(rows, "__iter__") else (rows[index] for index in range(len(rows)))


def check_row(row: Any, name: str) -> None:
    """Refuse what is no row.

    Raises:
        DatasetError: It is no mapping; the message begins with ``name``.
    """
    if not isinstance(row, Mapping):
        raise DatasetError(f"{name} is {row!r:.80}, and no mapping of columns")


def check_columns(rows: Any, columns: tuple[str, ...], key: str) -> None:
    """Look at the first row of a dataset.

    Args:
        rows: Of the dataset.
        columns: What a row must have.
        key: Of the dataset's section in the configuration, for the message.

    Raises:
        DatasetError: There is no row, or it lacks one.
    """
    if not len(rows):
        raise DatasetError(f"{key} has no rows")
    check_row(rows[0], f"{key}: row 0")
    missing = [name for name in columns if name not in rows[0]]
    if missing:
        raise DatasetError(
            f"{key}: its rows have no {' and no '.join(missing)}, which the trainer reads; "
            f"they have {', '.join(rows[0])}"
        )
