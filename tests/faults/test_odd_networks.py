"""What a machine's network may be like: the ranks of one machine meet all the same."""

from __future__ import annotations

import shutil
import socket
import subprocess

import pytest
from trial import Trial

pytestmark = pytest.mark.faults


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


def test_the_usual_port_is_taken(tmp_path):
    trial = Trial(tmp_path, "ranks")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        with trial.started(
            MASTER_ADDR="127.0.0.1", MASTER_PORT=port
        ) as study:  # as a job or a shell may have left them
            said, _ = study.communicate(timeout=300)
    assert study.returncode == 0, said
    trial.is_whole_after_another_run()
