"""Starting the ranks of a launch over an emulated link: `shaped_link.c`, compiled where it is needed.

Each rank is a node of its own to the network and to the record, but all share this machine's cores, memory and caches:
what is emulated is the link alone. The rate and the latency are what is asked for; what TCP and gloo make of them is
measured. Needs Linux, root, /dev/net/tun and a C compiler.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from kanstudy.emulated_link import parse
from kanstudy.run_spec import RunSpec
from kanstudy.study.strict import ProfileError

SOURCE = Path(__file__).with_name("shaped_link.c")
COMPILERS = ("cc", "gcc", "clang")
_CHECK_S = 60.0


def command(run: RunSpec, plan_file: Path, log_dir: Path) -> list[str]:
    """The command that starts all ranks of a launch over its link; each has logs where a launcher's ranks have them."""
    link, logs = parse(run.link), log_dir / "step" / "attempt_0"
    for rank in range(run.world_size):
        (logs / str(rank)).mkdir(parents=True)
    shape = [f"{link.latency_s * 1e9:.0f}", repr(1e9 / link.bytes_per_s)]
    worker = [sys.executable, "-m", "kanstudy.worker", str(plan_file)]
    return [str(_compiled(log_dir)), *shape, str(run.world_size), str(logs), *worker]


def environment(ranks: int) -> dict[str, str]:
    """Where the ranks meet: at rank 0's address on the link."""
    return {
        "MASTER_ADDR": "10.77.0.1",
        "MASTER_PORT": "29500",  # of a namespace of its own: never taken
        "WORLD_SIZE": str(ranks),
        "LOCAL_WORLD_SIZE": str(ranks),
        "GLOO_SOCKET_IFNAME": "eth0",
    }


def check() -> None:
    """Raise `ProfileError`, saying what lacks, where this machine cannot emulate links."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "0").mkdir()
        said = _said([str(_compiled(Path(folder))), "0", "1", "1", folder, "true"])
    if said:
        raise ProfileError(f"a link cannot be emulated here: {said}; needs Linux, root and /dev/net/tun")


def _compiled(folder: Path) -> Path:
    """The program, compiled into the folder."""
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is None:
        raise ProfileError(f"a link cannot be emulated here: no C compiler ({', '.join(COMPILERS)}) on the PATH")
    program = folder / SOURCE.stem
    if said := _said([compiler, "-O2", "-o", str(program), str(SOURCE)]):
        raise ProfileError(f"a link cannot be emulated here: {SOURCE.name} does not compile: {said}")
    return program


def _said(command: list[str]) -> str:
    """The last line of a command that failed; empty of one that did not."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=_CHECK_S, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    return "" if done.returncode == 0 else (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
