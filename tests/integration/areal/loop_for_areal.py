"""A training loop of its own, written for AReaL against its public names alone.

Nothing here knows this repository. As AReaL's examples do, it runs in each process of torchrun and
finds the servers of its trial by name.
"""

import os
import sys

from areal.api import FinetuneSpec, StepInfo, WeightUpdateMeta
from areal.api.cli_args import GRPOConfig, load_expr_config
from areal.dataset import get_custom_dataset
from areal.engine import RemoteSGLangEngine
from areal.engine.fsdp_engine import FSDPPPOActor
from areal.utils import name_resolve, seeding, stats_tracker
from areal.utils.dataloader import create_dataloader
from areal.utils.evaluator import Evaluator
from areal.utils.hf_utils import load_hf_tokenizer
from areal.utils.recover import RecoverHandler
from areal.utils.saver import Saver
from areal.utils.stats_logger import StatsLogger
from areal.workflow.rlvr import RLVRWorkflow


def main(args):
    config, _ = load_expr_config(args, GRPOConfig)
    config: GRPOConfig
    name_resolve.reconfigure(config.cluster.name_resolve)
    rank = int(os.getenv("RANK", "0"))
    tokenizer = load_hf_tokenizer(config.tokenizer_path)
    seeding.set_random_seed(config.seed, key=f"trainer{rank}")

    actor = FSDPPPOActor(config=config.actor)
    actor.create_process_group()
    train_dataset = get_custom_dataset(
        split="train", dataset_config=config.train_dataset, tokenizer=tokenizer
    )
    train_dataloader = create_dataloader(
        train_dataset, rank=0, world_size=1, dataset_config=config.train_dataset
    )
    ft_spec = FinetuneSpec(
        total_train_epochs=config.total_train_epochs,
        dataset_size=len(train_dataloader) * config.train_dataset.batch_size,
        train_batch_size=config.train_dataset.batch_size,
    )
    rollout = RemoteSGLangEngine(config.rollout)
    rollout.initialize(train_data_parallel_size=1)
    actor.initialize(None, ft_spec)
    weight_update_meta = WeightUpdateMeta.from_disk(
        config.experiment_name, config.trial_name, config.cluster.fileroot
    )
    actor.connect_engine(rollout, weight_update_meta)

    workflow = RLVRWorkflow(
        reward_fn="tests.tiny_runs.sevens", gconfig=config.gconfig, tokenizer=tokenizer
    )
    saver = Saver(config.saver, ft_spec)
    stats_logger = StatsLogger(config, ft_spec)
    evaluator = Evaluator(config.evaluator, ft_spec)
    recover_handler = RecoverHandler(config.recover, ft_spec)
    recover_info = recover_handler.load(
        actor,
        saver,
        evaluator,
        stats_logger,
        train_dataloader,
        inference_engine=rollout,
        weight_update_meta=weight_update_meta,
    )
    start_step = recover_info.last_step_info.next().global_step if recover_info else 0
    print(f"starting at step {start_step}", flush=True)

    for global_step in range(start_step, config.total_train_steps):
        epoch, step = divmod(global_step, ft_spec.steps_per_epoch)
        step_info = StepInfo(
            global_step=global_step,
            epoch=epoch,
            epoch_step=step,
            steps_per_epoch=ft_spec.steps_per_epoch,
        )
        with stats_tracker.record_timing("rollout"):
            batch = actor.prepare_batch(
                train_dataloader, workflow=workflow, group_size=config.gconfig.n_samples
            )
        assert max(int(t["versions"].max()) for t in batch) == global_step
        batch = actor.compute_advantages(batch)
        with stats_tracker.record_timing("train_step"):
            actor.ppo_update(batch)
            actor.step_lr_scheduler()

        rollout.pause()
        with stats_tracker.record_timing("update_weights"):
            actor.update_weights(weight_update_meta.with_version(global_step + 1))
            actor.set_version(global_step + 1)
            rollout.set_version(global_step + 1)
        saver.save(actor, epoch, step, global_step, tokenizer=tokenizer)
        recover_handler.dump(
            actor, step_info, saver, evaluator, stats_logger, train_dataloader, tokenizer=tokenizer
        )

        def evaluate_fn():
            print(f"evaluating at step {rollout.get_version()}", flush=True)

        evaluator.evaluate(evaluate_fn, epoch, step, global_step)
        stats = stats_tracker.export_all()
        stats.update(rollout.export_stats())
        stats_logger.commit(epoch, step, global_step, stats)
        rollout.resume()

    stats_logger.close()
    saver.finalize()
    rollout.destroy()
    actor.destroy()


if __name__ == "__main__":
    main(sys.argv[1:])
