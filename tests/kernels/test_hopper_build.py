"""The kernels compile for sm_90a wherever nvcc is, without spilled overlap, into Hopper's matrix
instructions."""

import ctypes
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from kernels.gemm.hopper.build import CSRC, Launch, library
from kernels.gemm.hopper.select import CONFIGS
from kernels.nvcc import find

pytestmark = pytest.mark.skipif(find() is None, reason="nvcc is not installed")
ALL = tuple(c for family in CONFIGS.values() for c in family)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return library(ALL, cache=tmp_path_factory.mktemp("hopper"))


def test_every_configuration_compiles_and_is_found_again(built: Path) -> None:
    loaded = ctypes.CDLL(str(built))
    assert all(hasattr(loaded, config.symbol) for config in ALL)
    assert library(ALL, cache=built.parent) == built
    assert [path.name for path in built.parent.iterdir()] == [built.name]


@pytest.mark.skipif(shutil.which("cuobjdump") is None, reason="cuobjdump is not installed")
def test_the_machine_code_multiplies_with_wgmma(built: Path) -> None:
    code = subprocess.run(
        ["cuobjdump", "-sass", str(built)], capture_output=True, text=True, check=True
    ).stdout
    assert "HGMMA.64x256x16.F32.BF16" in code
    assert "QGMMA.64x256x32.F32.E4M3.E4M3" in code


def test_launch_mirrors_the_c_structure() -> None:
    text = (CSRC / "hopper_launch.cuh").read_text()
    body = re.search(r"struct Launch \{(.*?)\};", text, re.DOTALL)
    assert body is not None
    fields = []
    for declaration in re.sub(r"//.*", "", body.group(1)).split(";"):
        names = re.sub(r"^\s*(const )?(void\*|long long|int) ", "", declaration.strip())
        fields += [name.strip() for name in names.split(",") if name.strip()]
    assert fields == [name for name, *_ in Launch._fields_]
