"""A worker that measures nothing, quickly: `stub_worker.py PLAN`. Events and records are those of the real one.

`<results>/stub.json` says what is to go wrong: under a point_id (in its second round, so that one complete round is
there) or under "start", before any block. Each start is counted in `<results>/starts`.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from pathlib import Path

import psutil

from kanstudy.files import write_atomically
from kanstudy.record import Fault, Round, blank_record
from kanstudy.record_files import read_record, record_path, write_record
from kanstudy.run_spec import RunSpec, run_spec_from_json
from kanstudy.spec import PointSpec
from kanstudy.stopping import LOOKS, look
from kanstudy.wanted import wanted_of

RANK = int(os.environ.get("RANK", "0"))


def tell(run: RunSpec, event: str, **details: object) -> None:
    with open(run.progress_file, "a", encoding="utf-8") as file:
        file.write(json.dumps({"event": event, "unix_s": time.time(), **details}) + "\n")


def go_wrong(run: RunSpec, how: str) -> None:
    if how == "raise":
        raise RuntimeError("the stub was told to fail")
    if how == "timeout":
        raise RuntimeError("[unbound_buffer.cc:78] Timed out waiting 2000ms for recv operation to complete")
    if how in ("hang", "sleep"):
        if how == "hang":  # and does not even end when told to
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        (Path(run.results_dir) / "hanging").write_text(str(os.getpid()))
        time.sleep(600)
    if how == "fill":
        with contextlib.suppress(OSError), open(Path(run.results_dir) / "ballast", "wb", buffering=0) as file:
            while True:
                file.write(bytes(1024))
    if how == "leave":
        sys.exit(0)
    if how == "port":
        raise OSError("[Errno 98] EADDRINUSE: address already in use")


def is_alive(number: int) -> bool:
    try:
        return psutil.Process(number).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def one_round(run: RunSpec, point: PointSpec, wrong: str) -> bool:
    """A complete round of one point; whether the point goes on."""
    path = record_path(run.results_dir, point.experiment, point.point_id)
    record = read_record(path) if path.exists() else blank_record(point, run)
    nodes = Path(run.results_dir, "nodes").read_text() if Path(run.results_dir, "nodes").exists() else ""
    is_elsewhere = record.provenance.setdefault("nodes", nodes) != nodes
    if record.threads_per_rank != run.threads_per_rank or is_elsewhere:  # other conditions: anew
        record = blank_record(point, run)
        record.provenance["nodes"] = nodes
    done = record.rounds_of_launch(run.launch)
    tell(run, "block", point_id=point.point_id, arm="ddp", round=done, done=done, total=run.rounds[point.point_id])
    if wrong == "oom":
        record.status, record.error = "oom", Fault(reason="out of memory: 1 GiB wanted", arm="ddp", rank=0)
        write_record(record, run.results_dir)
        tell(run, "point", point_id=point.point_id, status="oom")
        return False
    if wrong and done:
        go_wrong(run, wrong)
    for arm in record.arms.values():
        values = {"reference_kernel_s": [1e-3], "foreign_cpu_share": [None], "minor_faults": [None]}
        times = {"rank_step_times_s": [[1e-3]], "rank_block_times_s": [1e-3]}
        arm.rounds.append(
            Round(
                launch=run.launch,
                attempt=record.attempt,
                index=done,
                order=0,
                active_ranks=[0],
                started_utc=str(time.time_ns()),
                **times,
                **values,
            )
        )
    record.error = None
    wanted = wanted_of(run, point.point_id)
    most, target = wanted.rounds, wanted.target_width
    if target is not None and done + 1 in LOOKS:
        look(record, run.launch, target, most)
    record.status = "ok" if wanted.has_rounds(record) else "partial"
    write_record(record, run.results_dir)
    if wanted.has_launch(record, run.launch):
        tell(run, "point", point_id=point.point_id, status="ok")
        return False
    return True


def main() -> None:
    run = run_spec_from_json(Path(sys.argv[1]).read_text())
    results = Path(run.results_dir)
    faults = json.loads((results / "stub.json").read_text()) if (results / "stub.json").exists() else {}
    if RANK > 0:  # the others wait for rank 0, unless they are to die
        waiting = results / "rank0_done"
        while not waiting.exists():
            if (results / f"die{RANK}").exists():
                write_atomically(results / f"dying{RANK}", str(os.getpid()))
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(0.01)
        return
    with open(results / "starts", "a") as file:
        file.write("start\n")
    with open(results / "ports", "a") as file:
        file.write(f"{os.environ.get('MASTER_PORT')}\n")
    tell(run, "started", world_size=run.world_size)
    go_wrong(run, faults.get("start", ""))
    if faults.get("rank1") == "kill":
        one_round(run, run.points[0], "")
        (results / "die1").touch()
        while not (results / "dying1").exists() or is_alive(int((results / "dying1").read_text())):
            time.sleep(0.01)
        raise RuntimeError("Connection closed by peer [127.0.0.1]:4242")
    pending = list(run.points)
    while pending:
        pending = [point for point in pending if one_round(run, point, faults.get(point.point_id, ""))]
        if run.deadline_unix_s is not None and faults.get("slow"):
            return
    tell(run, "finished")
    (results / "rank0_done").touch()


if __name__ == "__main__":
    main()
