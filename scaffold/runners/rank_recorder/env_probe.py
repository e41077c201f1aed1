"""Print the versions and devices of this interpreter as JSON; `scaffold debug env` runs it."""

import importlib.metadata
import json
import platform
import sys

sys.path.pop(0)  # this folder: torch is not to find a module of the recorder

PACKAGES = ("torch", "transformers", "accelerate", "deepspeed", "numpy", "triton", "vllm", "sglang")


def versions():
    """Return the versions of packages that are installed, without importing them."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def of_torch():
    """Return what torch was built with, and the devices that it sees."""
    import torch
    import torch.distributed as dist

    found = {"cuda": torch.version.cuda, "devices": [], "backends": [], "nccl": None}
    if dist.is_available():
        names = ("gloo", "nccl", "mpi", "ucc", "xccl")
        found["backends"] = [
            name for name in names if getattr(dist, f"is_{name}_available", lambda: False)()
        ]
    if torch.cuda.is_available():
        count = torch.cuda.device_count()
        found["devices"] = [torch.cuda.get_device_name(index) for index in range(count)]
    if "nccl" in found["backends"]:
        found["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
    return found


def main():
    found = {"python": platform.python_version(), "executable": sys.executable}
    found["packages"] = versions()
    if "torch" in found["packages"]:
        try:
            found["torch"] = of_torch()
        # A broken installation raises anything: a missing library of CUDA is an OSError.
        except Exception as error:
            found["error"] = f"torch cannot be imported: {error!r}"
    print(json.dumps(found))


main()
