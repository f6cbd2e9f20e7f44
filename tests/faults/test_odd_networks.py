"""What a machine's network may be like: the ranks of one machine meet all the same."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess

import pytest
from trial import Trial

pytestmark = pytest.mark.faults
TORCHRUNS_PORT = 29500


@pytest.mark.skipif(shutil.which("unshare") is None or shutil.which("ip") is None, reason="needs unshare and ip")
def test_a_name_that_leads_nowhere_and_no_ipv4_but_the_loopback(tmp_path):
    script = """
ip link set lo up && ip link add outside type veth peer name other && ip link set outside up || exit 77
ip -6 address add 2001:db8::1/64 dev outside nodad && hostname no-such-host.invalid || exit 77
exec "$@"
"""
    alone = ["unshare", "--net", "--uts", "sh", "-c", script, "sh"]
    if subprocess.run([*alone, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no network of its own can be made here")
    trial = Trial(tmp_path, "ranks")
    with trial.started(*alone) as study:
        said, _ = study.communicate(timeout=300)
    assert study.returncode == 0, said
    assert {record.provenance["host"] for record in trial.records().values()} == {"no-such-host.invalid"}
    trial.is_whole_after_another_run()


def test_usual_ports_are_taken(tmp_path):
    """That of torchrun, and one that a job or a shell has left in its variables."""
    trial = Trial(tmp_path, "ranks")
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # somebody has it already: as good
            stack.enter_context(socket.create_server(("", TORCHRUNS_PORT)))
        taken = stack.enter_context(socket.create_server(("", 0)))
        variables = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(taken.getsockname()[1])}
        with trial.started(**variables) as study:
            said, _ = study.communicate(timeout=300)
    assert study.returncode == 0, said
    trial.is_whole_after_another_run()
