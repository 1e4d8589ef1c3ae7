"""What DeepSpeed saves, against its own conversions; in an environment of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from nbrewind.training.convert import open_source

PACKAGES = ["deepspeed==0.19.8", "einops", "hjson", "msgpack", "ninja", "packaging", "psutil"]
PACKAGES += ["py-cpuinfo", "pydantic", "tqdm"]
PROGRAM = Path(__file__).with_name("deepspeed_program.py")

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

Run = Callable[..., None]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Run Python with DeepSpeed beside this environment's torch."""
    folder = tmp_path_factory.mktemp("deepspeed")
    venv.create(folder / "env", with_pip=True)
    python = folder / "env" / "bin" / "python"
    site = next((folder / "env" / "lib").glob("python*")) / "site-packages"
    (site / "torch.pth").write_text(sysconfig.get_path("purelib") + "\n")
    environment = {
        **{k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
        "DS_ACCELERATOR": "cpu",
        "DS_BUILD_OPS": "0",
        "OMP_NUM_THREADS": "1",
        "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}",
        "TORCH_EXTENSIONS_DIR": str(folder / "extensions"),
    }

    def run(*arguments: Any) -> None:
        ran = subprocess.run(
            [str(python), *map(str, arguments)],
            env=environment,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=900,
        )
        assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-4000:]

    try:
        run("-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", *PACKAGES)
        run("-c", "import deepspeed")
    except (AssertionError, OSError, subprocess.TimeoutExpired) as exc:
        pytest.skip(f"DeepSpeed cannot be installed here: {str(exc)[-300:]}")
    return run


@pytest.mark.skipif(sys.platform != "linux", reason="DeepSpeed trains on Linux only")
@pytest.mark.parametrize(
    ("stage", "kind"), [(1, "float32"), (2, "float32"), (2, "bfloat16"), (3, "float32")]
)
def test_what_deepspeed_saves_is_what_it_makes_of_it(
    run: Run, tmp_path: Path, stage: int, kind: str
) -> None:
    saved = tmp_path / "saved"
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", 2]
    run(*launcher, PROGRAM, stage, saved, kind)
    source = open_source(saved)
    assert source.format == "deepspeed"
    weights = source.part("model").tensors

    run(
        "-c",
        "import sys, torch\n"
        "from deepspeed.utils.zero_to_fp32 import get_fp32_state_dict_from_zero_checkpoint as get\n"
        "found = {name: tensor.clone() for name, tensor in get(sys.argv[1]).items()}\n"
        "torch.save(found, sys.argv[2])",
        saved,
        tmp_path / "fp32.pt",
    )
    whole = torch.load(tmp_path / "fp32.pt")
    assert {"a.weight", "b.bias", "scale", "seen"} <= {*whole}
    for name, tensor in whole.items():
        found = weights[name].read()
        assert found.dtype == tensor.dtype, name
        assert torch.equal(found, tensor), name
    assert "frozen.weight" in weights

    run(
        "-m", "deepspeed.checkpoint.ds_to_universal", "--inject_missing_state",
        "--input_folder", saved / "global_step3", "--output_folder", tmp_path / "universal",
    )  # fmt: skip
    universal = open_source(tmp_path / "universal")
    assert universal.format == "universal"
    converted = dict(universal.part("model").tensors)
    assert {"a.weight", "a.bias", "b.weight", "b.bias", "scale"} <= {*converted}
    if stage < 3:
        for name in ("tied.weight", "tied.bias"):  # DeepSpeed has them in the model's type only
            converted.pop(name, None)
            assert torch.equal(weights[name].read(), whole[name.replace("tied", "b")])
    for name, tensor in converted.items():
        found = weights[name].read()
        assert torch.equal(found.to(tensor.dtype), tensor.read().reshape(found.shape)), name
    kept = universal.tree["optimizer"]["state"]
    for name, own in source.tree["optimizer"]["state"].items():
        for key in ("exp_avg", "exp_avg_sq"):
            found = own[key].read()
            assert torch.equal(found, kept[name][key].read().reshape(found.shape)), name
            assert found.any()
