"""Command lines of inference servers."""

from __future__ import annotations

import sys

from areal.api.cli_args import SGLangConfig, vLLMConfig


def flags(command: list[str]) -> dict[str, list[str]]:
    """Returns the values of each flag."""
    found: dict[str, list[str]] = {}
    name = ""
    for part in command[3:]:
        if part.startswith("--"):
            name = part
            found[name] = []
        else:
            found[name].append(part)
    return found


def test_an_sglang_server_gets_its_settings_and_its_place() -> None:
    config = SGLangConfig(
        model_path="m", lora_paths=["a=1", "b=2"], enable_lora=True, torchao_config=""
    )
    command = SGLangConfig.build_cmd(
        config, tp_size=2, base_gpu_id=0, host="127.0.0.1", port=3000, dist_init_addr="h:1"
    )
    assert command[:3] == [sys.executable, "-m", "sglang.launch_server"]
    found = flags(command)
    assert found["--model-path"] == ["m"]
    assert found["--lora-paths"] == ["a=1", "b=2"]
    assert found["--enable-lora"] == []
    assert found["--base-gpu-id"] == ["0"]
    assert found["--tp-size"] == ["2"]
    assert found["--port"] == ["3000"]
    assert found["--dist-init-addr"] == ["h:1"]
    assert not {"--torchao-config", "--disable-cuda-graph", "--context-len"} & found.keys()


def test_a_vllm_server_gets_its_settings_and_its_place() -> None:
    command = vLLMConfig.build_cmd(vLLMConfig(model="m"), tp_size=2, pp_size=1, port=3001)
    assert command[:3] == [sys.executable, "-m", "vllm.entrypoints.openai.api_server"]
    found = flags(command)
    assert found["--model"] == ["m"]
    assert found["--tensor-parallel-size"] == ["2"]
    assert found["--no-enable-prefix-caching"] == []
    assert not {"--host", "--nnodes", "--enable-lora"} & found.keys()


def test_a_worker_extension_of_areal_is_not_asked_of_the_real_vllm() -> None:
    assert "worker_extension_cls" not in vLLMConfig.build_args(vLLMConfig(), tp_size=1)
    own = vLLMConfig(worker_extension_cls="mine.Extension")
    assert vLLMConfig.build_args(own, tp_size=1)["worker_extension_cls"] == "mine.Extension"


def test_a_server_on_several_nodes_knows_where_they_meet() -> None:
    args = vLLMConfig.build_args(
        vLLMConfig(), tp_size=8, dist_init_addr="10.0.0.1:29500", n_nodes=2, node_rank=1
    )
    assert args["nnodes"] == 2
    assert args["node_rank"] == 1
    assert (args["master_addr"], args["master_port"]) == ("10.0.0.1", "29500")
