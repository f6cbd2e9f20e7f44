"""A record goes on under the same conditions, which include the nodes, and starts anew under others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tiny import tiny_point

from kanstudy.record import Record, Round
from kanstudy.record_files import read_record, record_path, write_record
from kanstudy.run_spec import RunSpec, data_key
from kanstudy.worker import conditions
from kanstudy.worker.resume import open_record

POINT = tiny_point()


def run_of(results: Path, job: str = "1") -> RunSpec:
    return RunSpec(
        profile="tiny",
        experiment="strong_scaling",
        points=(POINT,),
        data_files={data_key(POINT): "x"},
        results_dir=str(results),
        progress_file="x",
        rounds={POINT.point_id: 4},
        provenance={"utc": "then", "job": {"SLURM_JOB_ID": job}, "cpus": [0]},
    )


def details(*hosts: str, uuid: str = "A") -> dict[str, Any]:
    ranks = [{"device_name": "GPU", "gpu_uuid": f"{uuid}{rank}"} for rank in range(len(hosts))]
    launch = {"hosts": list(hosts), "ranks": ranks, "versions": {"torch": "2"}}
    return conditions.of_point(launch, POINT, tuple(range(len(hosts))), "reference")


def measured(results: Path, on: dict[str, Any], launch_hosts: list[str], job: str) -> Record:
    """Open the record on these conditions, measure one round more and write it."""
    record = open_record(run_of(results, job), POINT, conditions.fingerprint(on))
    conditions.apply(record, on, (0, 1), launch_hosts)
    index = record.rounds_of_launch(0)
    for arm in record.arms.values():
        block = {"rank_step_times_s": [[0.1]], "rank_block_times_s": [0.1], "reference_kernel_s": [0.1]}
        none = {"foreign_cpu_share": [None], "minor_faults": [None]}
        arm.rounds.append(
            Round(
                launch=0,
                attempt=record.attempt,
                index=index,
                order=0,
                active_ranks=[0],
                started_utc="",
                **block,
                **none,
            )
        )
    write_record(record, results)
    return record


def test_the_same_nodes_go_on_and_each_attempt_is_told(tmp_path):
    measured(tmp_path, details("a", "b"), ["a", "b"], "1")
    record = measured(tmp_path, details("a", "b", uuid="other"), ["a", "b"], "2")
    assert [(item.index, item.attempt) for item in record.arms["ddp"].rounds] == [(0, 1), (1, 2)]
    assert record.provenance["job"] == {"SLURM_JOB_ID": "1"}
    assert record.provenance["later_attempts"] == [{"attempt": 2, "utc": "then", "job": {"SLURM_JOB_ID": "2"}}]
    assert record.provenance["node_set"] == ["a", "b"]
    assert read_record(record_path(tmp_path, "strong_scaling", POINT.point_id)).provenance == record.provenance


def test_other_nodes_start_anew_and_nothing_is_lost(tmp_path):
    measured(tmp_path, details("a", "b"), ["a", "b"], "1")
    record = measured(tmp_path, details("a", "c"), ["a", "c"], "2")
    assert [item.index for item in record.arms["ddp"].rounds] == [0]
    assert record.provenance["node_set"] == ["a", "c"]
    (aside,) = (tmp_path / "strong_scaling" / "aside").iterdir()
    assert json.loads(aside.read_text())["provenance"]["node_set"] == ["a", "b"]


def test_the_node_set_is_of_the_launch_and_the_nodes_are_the_groups(tmp_path):
    record = measured(tmp_path, details("a", "a"), ["a", "a", "b", "b"], "1")
    assert (record.nodes, record.ranks_per_node, record.provenance["node_set"]) == (1, 2, ["a", "b"])
