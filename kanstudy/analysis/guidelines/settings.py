"""Settings of DDP: which is fastest, of those measured for the same work.

Frames are those of `estimates.overhead`; a guideline is a row of `sentences.COLUMNS`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from kanstudy.analysis.guidelines.sentences import but, by, fastest, work_text


def bucket_cap(overhead: pd.DataFrame) -> Iterator[dict]:
    """The bucket cap with the shortest step, of points that do not synchronise buffers."""
    plain = overhead[~overhead["sync_buffers"].astype(bool)] if len(overhead) else overhead
    for _, rows in by(plain, but("bucket_cap_mb")):
        if rows["bucket_cap_mb"].nunique() > 1:
            settings = [f"bucket cap {cap:g} MiB" for cap in rows["bucket_cap_mb"]]
            yield from fastest("bucket cap", work_text(rows), rows, settings)


def buffers(overhead: pd.DataFrame) -> Iterator[dict]:
    """Whether synchronising buffers in every forward is slower."""
    for _, rows in by(overhead, but("sync_buffers")):
        if rows["sync_buffers"].nunique() > 1:
            settings = [f"buffers {'' if sync else 'not '}synchronised" for sync in rows["sync_buffers"]]
            head = f"{work_text(rows)}, bucket cap {rows['bucket_cap_mb'].iloc[0]:g} MiB"
            yield from fastest("buffers", head, rows, settings)
