"""The link is as slow as asked for (lower bounds, which no busy machine can break), and leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterable
from pathlib import Path

import psutil
import pytest

from kanstudy.record_files import read_record, record_path
from kanstudy.run_spec import RunSpec, data_key
from kanstudy.spec import PointSpec
from kanstudy.study.emulation import ranks
from kanstudy.study.launch import run
from kanstudy.study.plan import ExperimentPlan
from kanstudy.study.profile import Profile, Study
from kanstudy.study.series import Machine
from kanstudy.study.strict import ProfileError


def lacking() -> str:
    """What this machine lacks to emulate a link, empty where it has all."""
    try:
        ranks.check()
    except ProfileError as error:
        return str(error)
    return ""


LACKING = lacking()
needs_a_link = pytest.mark.skipif(LACKING != "", reason=LACKING or "a link can be emulated here")
TALK = """
    import json, os, socket, time
    rank, peer = int(os.environ["RANK"]), ("10.77.0.1", 5000)
    if rank == 0:
        connection, _ = socket.create_server(peer).accept()
        for _ in range(3):
            connection.send(connection.recv(1))
        left = 500_000
        while left:
            left -= len(connection.recv(left))
        connection.send(b"!")
    else:
        while True:
            try:
                connection = socket.create_connection(peer)
                break
            except OSError:
                time.sleep(0.01)
        def seconds(message):
            start = time.perf_counter()
            connection.sendall(message)
            connection.recv(1)
            return time.perf_counter() - start
        trips = [seconds(b"?") for _ in range(3)]
        print(json.dumps({"trips": trips, "bulk": seconds(bytes(500_000)), "host": socket.gethostname()}))
"""


def a_point(link: str, **changes) -> PointSpec:
    values = {
        "experiment": "held_out",
        "scaling": "strong",
        "world_size": 2,
        "global_batch_size": 16,
        "dataset": "synthetic:4:1",
        "n_samples": 64,
        "layer_widths": (4, 3, 1),
        "arms": ("ddp_noop", "ddp"),
        "block_s": 0.02,
        "warmup_s": 0.0,
        "phase_steps": 1,
    }
    return PointSpec(link=link, **(values | changes))


def started(tmp_path: Path, link: str, script: str) -> list[str]:
    """The command that runs a script, in place of the worker, on both ends of a link."""
    point = a_point(link)
    spec = RunSpec(
        profile="t", experiment="held_out", points=(point,), data_files={data_key(point): ""}, results_dir="",
        progress_file="", rounds={point.point_id: 1},
    )  # fmt: skip
    command = ranks.command(spec, tmp_path / "run.json", tmp_path)
    return [*command[:5], sys.executable, "-c", textwrap.dedent(script)]


@needs_a_link
@pytest.mark.parametrize(("link", "latency_s", "bytes_per_s"), [("40mbit:3ms", 3e-3, 5e6), ("80mbit:0ms", 0.0, 1e7)])
def test_a_link_has_the_latency_and_the_rate_asked_for(tmp_path, link, latency_s, bytes_per_s):
    done = subprocess.run(started(tmp_path, link, TALK), env=os.environ | ranks.environment(2), timeout=60, check=False)
    assert done.returncode == 0, (tmp_path / "step/attempt_0/1/stderr.log").read_text()
    said = json.loads((tmp_path / "step/attempt_0/1/stdout.log").read_text())
    assert said["host"] == "node1"
    assert all(2 * latency_s <= trip for trip in said["trips"])
    assert min(said["trips"]) < 2 * latency_s + 0.1
    assert 500_000 / bytes_per_s + 2 * latency_s <= said["bulk"]


@needs_a_link
def test_the_first_rank_that_fails_is_named_and_the_other_ended(tmp_path):
    script = "import os, sys, time\nsys.exit(7) if os.environ['RANK'] == '1' else time.sleep(600)"
    done = subprocess.run(started(tmp_path, "100mbit:1ms", script), capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "rank      : 1 (local_rank: 1)\n  exitcode  : 7" in done.stderr


@needs_a_link
def test_a_link_that_is_killed_leaves_no_rank_and_no_namespace(tmp_path):
    ours = os.readlink("/proc/self/ns/net")
    process = subprocess.Popen(started(tmp_path, "100mbit:1ms", "import time; time.sleep(600)"))
    wait_until(lambda: len(namespaces(psutil.Process(process.pid).children()) - {ours}) == 2)
    children = psutil.Process(process.pid).children()
    assert len(children) == 2
    own = namespaces(children)
    process.send_signal(signal.SIGKILL)
    process.wait()
    _, alive = psutil.wait_procs(children, timeout=60)
    assert not alive
    wait_until(lambda: not namespaces(psutil.process_iter()) & own)


def namespaces(processes: Iterable[psutil.Process]) -> set[str]:
    """The network namespaces that the processes live in."""
    found = set()
    for process in processes:
        try:
            found.add(os.readlink(f"/proc/{process.pid}/ns/net"))
        except OSError:
            continue
    return found


def wait_until(is_so) -> None:
    end = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_without_a_compiler_one_sentence_says_so(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ProfileError, match=r"a link cannot be emulated here: no C compiler"):
        ranks.check()


def test_what_the_program_says_is_passed_on(monkeypatch, tmp_path):
    broken = tmp_path / "shaped_link.c"
    broken.write_text("int main(void) { return 3; }\n")
    monkeypatch.setattr(ranks, "SOURCE", broken)
    with pytest.raises(ProfileError, match=r"cannot be emulated here: exit code 3; needs Linux, root and /dev/net/tun"):
        ranks.check()
    broken.write_text("not C\n")
    with pytest.raises(ProfileError, match="does not compile"):
        ranks.check()


@needs_a_link
@pytest.mark.slow
def test_real_ranks_over_two_links_and_none_are_three_launches_of_one_plan(tmp_path):
    points = tuple(a_point(link, allreduce_bytes=(4,)) for link in ("", "100mbit:20ms", "100mbit:1ms"))
    machine = Machine(device="cpu", world_sizes=(2,), threads_per_rank=1, allow_oversubscription=True)
    plan = ExperimentPlan(
        profile=Profile(name="t", path=tmp_path, study=Study(description="", series={}), machine=machine),
        experiment="held_out",
        points=points,
        rounds={point.point_id: 1 for point in points},
        provenance={"prediction": "abc"},
    )
    assert plan.links == ("", "100mbit:20ms", "100mbit:1ms")
    assert set(run(plan, tmp_path).statuses.values()) == {"ok"}
    plain, far, near = (read_record(record_path(tmp_path, "held_out", point.point_id)) for point in points)
    assert [record.source for record in (plain, far, near)] == ["measured", "emulated", "emulated"]
    assert [record.nodes for record in (plain, far, near)] == [1, 2, 2]
    assert plain.conditions not in (far.conditions, near.conditions)
    assert far.conditions != near.conditions
    assert min(far.allreduce[0].times_s) >= 0.02  # at least one message, one way
    assert far.provenance["settings"]["GLOO_SOCKET_IFNAME"] == "eth0"
    assert {record.provenance["prediction"] for record in (plain, far, near)} == {"abc"}
