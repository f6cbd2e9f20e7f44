"""What held-out settings really did: the predicted quantities, a row a launch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from kanstudy.analysis.attribution.chain import links
from kanstudy.analysis.calibration.readings import read
from kanstudy.record import Record


def launches(records: Sequence[Record]) -> pd.DataFrame:
    """A row a launch of each record: point_id, source, link, launch, step_time_s, parallel_efficiency, exposed_s (what
    a DDP step takes beyond the slowest rank at every step) and the factors; a record without its whole chain has none.
    """
    rows = []
    for record in records:
        pairs = links(record)
        if record.status != "ok" or not all(record.arms[arm].rounds for arm in record.arms):
            continue
        reading = read(record)
        if not reading.has(*{column for pair in pairs.values() for column in pair}):
            continue
        logs = dict(zip(reading.columns, reading.log_times.T, strict=True))
        scale = np.log(record.world_size) if record.scaling == "strong" else 0.0
        for launch in range(len(reading.log_times)):
            log = {name: float(values[launch]) for name, values in logs.items()}
            factors = {name: log[a] - log[b] - scale * (name == "batch") for name, (a, b) in pairs.items()}
            rows.append(
                {"point_id": record.point_id, "source": record.source, "link": record.link, "launch": launch}
                | {"step_time_s": np.exp(log["ddp"]), "parallel_efficiency": np.exp(sum(factors.values()))}
                | {"exposed_s": np.exp(log["ddp"]) - np.exp(log["ddp_noop_every_step"])}
                | {name: np.exp(value) for name, value in factors.items()}
            )
    return pd.DataFrame(rows)
