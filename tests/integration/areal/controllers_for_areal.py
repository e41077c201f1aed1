"""A loop of its own over controllers, written for AReaL against its public names alone.

As AReaL's trainers do it starts workers by a scheduler, and holds no model itself.
"""

import sys

from areal.api import FinetuneSpec, StepInfo, WeightUpdateMeta
from areal.api.cli_args import GRPOConfig, load_expr_config
from areal.dataset import get_custom_dataset
from areal.engine import RemoteSGLangEngine
from areal.engine.fsdp_engine import FSDPPPOActor
from areal.infra.scheduler import LocalScheduler
from areal.utils import stats_tracker
from areal.utils.dataloader import create_dataloader
from areal.utils.evaluator import Evaluator
from areal.utils.hf_utils import load_hf_tokenizer
from areal.utils.recover import RecoverHandler, check_if_recover
from areal.utils.saver import Saver
from areal.utils.stats_logger import StatsLogger


def main(args, server_infos):
    config, _ = load_expr_config(args, GRPOConfig)
    config: GRPOConfig
    tokenizer = load_hf_tokenizer(config.tokenizer_path)
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
    scheduler = LocalScheduler(exp_config=config)
    actor = FSDPPPOActor.as_controller(config.actor, scheduler)
    actor.initialize(role="actor", ft_spec=ft_spec)
    rollout = RemoteSGLangEngine.as_controller(config.rollout, scheduler)
    rollout.initialize(role="rollout", server_infos=server_infos)
    weight_update_meta = WeightUpdateMeta.from_disk(
        config.experiment_name, config.trial_name, config.cluster.fileroot
    )
    actor.connect_engine(rollout, weight_update_meta)

    saver = Saver(config.saver, ft_spec)
    stats_logger = StatsLogger(config, ft_spec)
    evaluator = Evaluator(config.evaluator, ft_spec)
    recover_handler = RecoverHandler(config.recover, ft_spec)
    print(f"recovers: {check_if_recover(config.recover, run_id=0)}", flush=True)
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
    workflow_kwargs = {
        "reward_fn": "tests.tiny_runs.sevens",
        "gconfig": config.gconfig,
        "tokenizer": config.tokenizer_path,
    }
    for global_step in range(start_step, config.total_train_steps):
        epoch, step = divmod(global_step, ft_spec.steps_per_epoch)
        step_info = StepInfo(
            global_step=global_step,
            epoch=epoch,
            epoch_step=step,
            steps_per_epoch=ft_spec.steps_per_epoch,
        )
        batch = actor.prepare_batch(
            train_dataloader,
            workflow="areal.workflow.rlvr.RLVRWorkflow",
            workflow_kwargs=workflow_kwargs,
            group_size=config.gconfig.n_samples,
        )
        for trajectory in batch:
            prompt = trajectory["input_ids"][0][trajectory["loss_mask"][0] == 0]
            print(f"row {tokenizer.decode(prompt[trajectory['attention_mask'][0][: len(prompt)]])}")
        batch = actor.compute_advantages(batch)
        actor.ppo_update(batch)
        actor.step_lr_scheduler()
        rollout.pause()
        actor.update_weights(weight_update_meta.with_version(global_step + 1))
        actor.set_version(global_step + 1)
        rollout.set_version(global_step + 1)
        saver.save(actor, epoch, step, global_step, tokenizer=tokenizer)
        recover_handler.dump(
            actor, step_info, saver, evaluator, stats_logger, train_dataloader, tokenizer=tokenizer
        )
        evaluator.evaluate(
            lambda: print(f"evaluating at step {rollout.get_version()}", flush=True),
            epoch,
            step,
            global_step,
        )
        stats = stats_tracker.export_all()
        stats.update(actor.export_stats())
        stats.update(rollout.export_stats())
        stats_logger.commit(epoch, step, global_step, stats)
        rollout.resume()

    stats_logger.close()
    saver.finalize()
    rollout.destroy()
    actor.destroy()
    scheduler.close()


if __name__ == "__main__":
    from areal.api import LocalInfServerInfo

    host, _, port = sys.argv[1].partition(":")
    main(sys.argv[2:], [LocalInfServerInfo(host, int(port), None)])
