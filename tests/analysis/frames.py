"""Small frames of the shape that the estimates have, with known numbers."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd

from kanstudy.analysis.series import WORK_KEYS

WORK = dict.fromkeys(WORK_KEYS, "x") | {
    "source": "measured",
    "model": "kan",
    "dataset": "synthetic:32:1",
    "grid_size": 5,
    "bucket_cap_mb": 25.0,
    "sync_buffers": False,
    "comm_hook": "none",
    "global_batch_size": 512,
}
FACTORS = ("batch", "heterogeneity", "contention", "ddp", "synchronisation", "data_movement")


def curve(sizes: tuple[int, ...], n_series: int = 1, intervals: bool = True) -> pd.DataFrame:
    """Speed-up, efficiency and throughput of some series; efficiency falls by 0.08 a doubling."""
    rows = []
    for number in range(n_series):
        for size in sizes:
            efficiency = 1 - (0.08 + 0.05 * number) * np.log2(size)
            row = {
                "series": f"KAN 32-64-64-1, grid 5, set {number}",
                "world_size": size,
                "point_id": f"p{number}w{size}",
                "source": "measured",
                "model": "kan",
            }
            values = {"efficiency": efficiency, "speedup": efficiency * size, "throughput": 1e4 * efficiency * size}
            for name, value in values.items():
                spread = 0.04 * value if intervals else np.nan
                row |= {name: value, f"{name}_low": value - spread, f"{name}_high": value + spread}
            rows.append(row | {"oversubscribed": False, "reason": ""})
    return pd.DataFrame(rows)


def rounds(estimates: pd.DataFrame, n: int = 12) -> pd.DataFrame:
    """`n` rounds a point, around its estimates, the last of them disturbed."""
    rng = np.random.default_rng(0)
    parts = []
    for _, row in estimates.iterrows():
        part = {"point_id": row["point_id"], "world_size": row["world_size"], "series": row["series"]}
        part["disturbed"] = np.arange(n) == n - 1
        for name in ("efficiency", "speedup", "throughput", "overhead"):
            if name in row:
                part[name] = row[name] * np.exp(0.03 * rng.standard_normal(n))
        part["efficiency"] = (
            part["efficiency"] * np.where(part["disturbed"], 0.8, 1) if "efficiency" in part else np.nan
        )
        parts.append(pd.DataFrame(part))
    return pd.concat(parts, ignore_index=True)


def chain(values: tuple[float, ...], world_size: int = 2, series: str = "KAN 32-64-64-1, grid 5") -> pd.DataFrame:
    """The factors of one point and their product."""
    product = float(np.prod(values))
    rows = [
        {"series": series, "world_size": world_size, "point_id": "p", "factor": factor, "value": value}
        for factor, value in zip((*FACTORS, "efficiency"), (*values, product), strict=True)
    ]
    frame = pd.DataFrame(rows)
    return frame.assign(source="measured", value_low=frame["value"] - 0.02, value_high=frame["value"] + 0.02)


def settings(sizes: tuple[int, ...] = (2,), models: tuple[str, ...] = ("kan",)) -> pd.DataFrame:
    """Communication overheads of four settings of DDP."""
    rows = []
    for size, model in itertools.product(sizes, models):
        for cap, sync, value in ((0.1, False, 0.12), (1.0, False, 0.05), (25.0, False, -0.01), (25.0, True, 0.09)):
            rows.append(
                WORK
                | {
                    "model": model,
                    "world_size": size,
                    "point_id": f"{model}w{size}c{cap}{sync}",
                    "series": "KAN",
                    "bucket_cap_mb": cap,
                    "sync_buffers": sync,
                    "overhead": value,
                    "overhead_low": value - 0.02,
                    "overhead_high": value + 0.02,
                }
            )
    return pd.DataFrame(rows)


def messages(sizes: tuple[int, ...] = (2,), series: tuple[str, ...] = ("KAN",)) -> pd.DataFrame:
    """All-reduce times of latency 50 us and 4 GB/s; half as fast in each further series."""
    rows = []
    for size, name in itertools.product(sizes, series):
        for exponent in (10, 14, 18, 20, 22, 24):
            time = (50e-6 * size + 2**exponent / 4e9) * 2 ** series.index(name)
            algbw = 2**exponent / time
            busbw = algbw * 2 * (size - 1) / size
            rows.append(
                {
                    "world_size": size,
                    "message_bytes": 2**exponent,
                    "time_s": time,
                    "algbw_bytes_per_s": algbw,
                    "busbw_bytes_per_s": busbw,
                    "n": 50,
                    "series": name,
                    "point_id": f"{name}w{size}",
                    "source": "measured",
                    "device_name": "CPU",
                    "placement": "packed",
                    "link": "",
                }
            )
    return pd.DataFrame(rows)


def models(datasets: tuple[str, ...] = ("synthetic:32:1",)) -> pd.DataFrame:
    """Two grid sizes at three widths."""
    rows = []
    for grid_size, dataset in itertools.product((5, 15), datasets):
        for params in (8e3, 6e4, 2e5):
            n_params = params * (grid_size + 4) / 9
            memory = 30 * n_params + 4e7
            row = WORK | {"grid_size": grid_size, "n_params": n_params, "point_id": "p", "dataset": dataset}
            row |= {"series": "KAN", "world_size": 1}
            row |= {"step_time_s": 2e-7 * n_params + 0.01, "peak_memory_bytes": memory}
            rows.append(
                row | {"params_per_byte": n_params / memory, "step_time_s_low": np.nan, "step_time_s_high": np.nan}
            )
    return pd.DataFrame(rows)
