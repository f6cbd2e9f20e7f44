"""How each table is laid out: which columns of its frame it shows, under which headings, in which units."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Column:
    """How a column is shown: its heading (with the unit), a factor on the value, and the digits after the point.

    `digits` None leaves the value as it is. A column `x` with `x_low` and `x_high` beside it is shown with them.
    """

    heading: str
    scale: float = 1.0
    digits: int | None = None


TEXT = {"series": Column("series"), "point_id": Column("point")}
SCALE = {
    "world_size": Column("ranks"),
    "global_batch_size": Column("global batch"),
    "local_batch_size": Column("local batch"),
    "bucket_cap_mb": Column("bucket cap (MiB)"),
}
"""What a point is measured at, under the same headings in every table."""
_RATIO = {
    "efficiency": Column("parallel efficiency", digits=3),
    "overhead": Column("communication overhead (%)", 100, 1),
}
_QUALITY = {"n_rounds": Column("rounds"), "n_disturbed": Column("disturbed"), "reason": Column("note")}

STRONG = {
    "series": TEXT["series"],
    "world_size": SCALE["world_size"],
    "global_batch_size": SCALE["global_batch_size"],
    "step_time_s": Column("step (ms)", 1e3, 2),
    "speedup": Column("speed-up", digits=2),
    "efficiency": _RATIO["efficiency"],
    "efficiency_ddp1": Column("efficiency, DDP baseline", digits=3),
    "efficiency_mean": Column("efficiency of means", digits=3),
    "efficiency_all": Column("efficiency, disturbed rounds kept", digits=3),
    "karp_flatt": Column("Karp-Flatt", digits=3),
    "overhead": _RATIO["overhead"],
    "holdout_loss": Column("hold-out MSE", digits=4),
    **_QUALITY,
    "point_id": TEXT["point_id"],
}
WEAK = {
    "series": TEXT["series"],
    "world_size": SCALE["world_size"],
    "local_batch_size": SCALE["local_batch_size"],
    "step_time_s": Column("step (ms)", 1e3, 2),
    "efficiency": _RATIO["efficiency"],
    "efficiency_mean": Column("efficiency of means", digits=3),
    "efficiency_all": Column("efficiency, disturbed rounds kept", digits=3),
    "throughput": Column("samples/s", 1, 0),
    "throughput_per_rank": Column("samples/s a rank", 1, 0),
    "overhead": _RATIO["overhead"],
    "holdout_loss": Column("hold-out MSE", digits=4),
    **_QUALITY,
    "point_id": TEXT["point_id"],
}
ATTRIBUTION = {
    "series": TEXT["series"],
    "world_size": SCALE["world_size"],
    "factor": Column("factor"),
    "pop": Column("POP metric, about"),
    "value": Column("value", digits=3),
    "fixed": Column("fixed part alone", digits=3),
    "log_share": Column("share of ln E (%)", 100, 0),
    **_QUALITY,
    "point_id": TEXT["point_id"],
}
STEADINESS = {
    "series": TEXT["series"],
    "scaling": Column("scaling"),
    "world_size": SCALE["world_size"],
    "arm": Column("arm"),
    "n_rounds": Column("rounds"),
    "first_steps": Column("first steps over the rest", digits=3),
    "first_steps_p": Column("p, slower", digits=3),
    "drift": Column("drift, Kendall", digits=2),
    "drift_p": Column("p, drift", digits=3),
    "relative_drift": Column("drift against the other arms", digits=2),
    "relative_drift_p": Column("p, against the others", digits=3),
    "n_outliers": Column("outliers"),
    "n_disturbed": Column("disturbed"),
    "point_id": TEXT["point_id"],
}
VERDICT = {"sentence": Column("largest loss"), "point_id": TEXT["point_id"]}
BESIDE = {
    "series": TEXT["series"],
    "world_size": SCALE["world_size"],
    "load_balance": Column("load balance", digits=3),
    "load_balance_arm": Column("of arm"),
    "data_wait_share": Column("data wait (% of a step)", 100, 2),
    "fixed_time_s": Column("fixed part t0 (ms)", 1e3, 3),
    "fixed_share": Column("t0 (% of serial step)", 100, 1),
    "optimizer_share": Column("optimizer (% of t0)", 100, 0),
    "fixed_sizes": Column("from ranks"),
    **_QUALITY,
    "point_id": TEXT["point_id"],
}
OVERHEAD = {
    "model": Column("model"),
    "dataset": Column("data"),
    "world_size": SCALE["world_size"],
    "global_batch_size": SCALE["global_batch_size"],
    "bucket_cap_mb": SCALE["bucket_cap_mb"],
    "sync_buffers": Column("buffers synchronised"),
    "buckets": Column("buckets", 1, 0),
    "step_time_s": Column("step (ms)", 1e3, 2),
    "overhead": _RATIO["overhead"],
    "exposed_ms": Column("exposed (ms)", 1, 3),
    "total_comm_s": Column("blocking all-reduce (ms)", 1e3, 3),
    **_QUALITY,
    "point_id": TEXT["point_id"],
    "allreduce_point_id": Column("all-reduce point"),
}
ALLREDUCE = {
    "world_size": SCALE["world_size"],
    "message_bytes": Column("message (bytes)"),
    "time_s": Column("time (ms)", 1e3, 3),
    "algbw_bytes_per_s": Column("algbw (GB/s)", 1e-9, 3),
    "busbw_bytes_per_s": Column("busbw (GB/s)", 1e-9, 3),
    "n": Column("repeats"),
    "point_id": TEXT["point_id"],
}
PHASES = {
    "series": TEXT["series"],
    "world_size": SCALE["world_size"],
    "arm": Column("arm"),
    "data_wait_ms": Column("data (ms)", digits=3),
    "forward_ms": Column("forward (ms)", digits=3),
    "backward_ms": Column("backward (ms)", digits=3),
    "last_bucket_ms": Column("last bucket ready (ms)", digits=3),
    "optimizer_ms": Column("optimizer (ms)", digits=3),
    "out_of_grid_share": Column("outside the grid (%)", 100, 2),
    "reason": Column("note"),
    "point_id": TEXT["point_id"],
}
MODEL_SIZE = {
    "series": TEXT["series"],
    "world_size": SCALE["world_size"],
    "n_params": Column("parameters", 1, 0),
    "gradient_bytes": Column("gradient (KiB)", 1 / 1024, 1),
    "serial_time_s": Column("step, 1 rank (ms)", 1e3, 2),
    "step_time_s": Column("step (ms)", 1e3, 2),
    "efficiency": _RATIO["efficiency"],
    "overhead": _RATIO["overhead"],
    "peak_memory_bytes": Column("peak memory (MiB)", 1 / 2**20, 1),
    "params_per_byte": Column("parameters per MiB", 2**20, 0),
    **_QUALITY,
    "point_id": TEXT["point_id"],
}
COMPLEMENTARITY = {
    "series": TEXT["series"],
    "world_size": SCALE["world_size"],
    "operator": Column("operator"),
    "faster_operator": Column("faster operator"),
    "operator_speedup": Column("by the operator", digits=2),
    "ranks_speedup": Column("by the ranks", digits=2),
    "product": Column("if independent", digits=2),
    "together": Column("together", digits=2),
    "interaction": Column("interaction", digits=3),
    "computation": Column("of it computation", digits=3),
    "communication": Column("of it communication", digits=3),
    "verdict": Column("verdict"),
    "overhead": Column("overhead (%)", 100, 1),
    "overhead_faster": Column("overhead, faster (%)", 100, 1),
    "exposed_ms": Column("exposed (ms)", 1, 3),
    "exposed_ms_faster": Column("exposed, faster (ms)", 1, 3),
    **_QUALITY,
    "point_id": TEXT["point_id"],
    "faster_point_id": Column("faster point"),
}
IDENTITY = {
    "series": TEXT["series"],
    "world_size": SCALE["world_size"],
    "local_batch_size": SCALE["local_batch_size"],
    "efficiency": Column("E strong", digits=3),
    "batch_times_weak": Column("batch x E weak", digits=3),
    "ratio": Column("ratio", digits=3),
    "meaning": Column("which means"),
    "reason": Column("note"),
    "point_id": Column("strong point"),
    "weak_point_id": Column("weak point"),
}
PLANNED = {
    "experiment": Column("experiment"),
    "world_size": SCALE["world_size"],
    "status": Column("status"),
    "rounds_done": Column("rounds"),
    "rounds_planned": Column("of"),
    "reason": Column("note"),
    "point_id": TEXT["point_id"],
}
PROBLEMS = {"path": Column("file"), "reason": Column("why it is left out")}
COMPARISON = {
    "quantity": Column("quantity"),
    "published": Column("published"),
    "ours": Column("here"),
    "comparable": Column("comparable"),
    "why": Column("why"),
    "point_ids": Column("points"),
}
GUIDELINES = {"sentence": Column("guideline"), "source": Column("source"), "point_ids": Column("points")}
