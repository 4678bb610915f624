"""Compile CUDA sources with nvcc at their first use, into a cache that is keyed by the sources."""

import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path


class BuildError(RuntimeError):
    """The compiler is missing or refused the sources; its words are in the message."""


class LaunchError(RuntimeError):
    """CUDA refused a launch; the number is its cudaError_t."""


def find() -> str | None:
    """The path of nvcc, from the PATH or from where the toolkit puts it, or None."""
    usual = Path("/usr/local/cuda/bin/nvcc")
    return shutil.which("nvcc") or (str(usual) if usual.exists() else None)


def compile_source(source: Path, output: Path, flags: Sequence[str]) -> str:
    """Compile one file to `output`; the flags say for which card and to what. Returns what nvcc said.

    Raises BuildError.
    """
    nvcc = find()
    if nvcc is None:
        raise BuildError("nvcc is not installed; the kernels are compiled at their first use")
    command = [nvcc, "-std=c++17", "-O3", *flags, "-o", str(output), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(done.stdout + done.stderr)
    return done.stdout + done.stderr


def shared_library(
    source: Path, headers: Sequence[Path], flags: Sequence[str], cache: Path | None = None
) -> Path:
    """The shared library of one source, built unless the cache has one of these very files and flags.

    Two processes may build at once: each works in a folder of its own and the last rename wins, with equal
    contents. Raises BuildError.
    """
    key = hashlib.sha256("\0".join([*flags, *(path.read_text() for path in (source, *headers))]).encode())
    folder = cache or Path.home() / ".cache" / "assay" / "kernels"
    built = folder / f"{source.stem}-{key.hexdigest()[:20]}.so"
    if not built.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            compile_source(source, Path(scratch) / built.name, [*flags, "-shared", "-Xcompiler", "-fPIC"])
            (Path(scratch) / built.name).rename(built)
    return built
