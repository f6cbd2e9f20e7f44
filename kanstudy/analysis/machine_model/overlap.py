"""What communication adds to a step: buckets travel while backward goes on, and some of it outlasts backward.

A fluid model, event by event: a bucket leaves when it is ready and a stream is free; its delay passes by itself, and
the buckets that move bytes at the same time share the bandwidth. While any bucket is under way backward is slowed.
"""

from __future__ import annotations

import numpy as np


def exposed_s(
    backward_s: np.ndarray,
    ready: np.ndarray,
    delay_s: np.ndarray,
    transfer_s: np.ndarray,
    streams: int = 1,
    slowdown: float | np.ndarray = 0.0,
) -> np.ndarray:
    """Time from the end of an undisturbed backward to the arrival of the last bucket, s, in the shape of `backward_s`.

    `ready` (buckets,) is the share of backward after which each bucket is complete, ascending; of one complete at 1
    nothing is hidden. Bucket i alone takes `delay_s[i]` + `transfer_s[i]`. Of `streams` buckets at most one
    each is under way, in order: one with NCCL, two with gloo. Backward goes 1/(1 + `slowdown`) as fast meanwhile, and
    what that costs is part of the result, which is negative where backward outlasts the last bucket. `ready`,
    `delay_s`, `transfer_s` (n, buckets) and `slowdown` (n, 1) may also differ from one backward (n,) to the next.
    """
    whole = np.asarray(backward_s, dtype=float).reshape(-1, 1)
    shape = (len(whole), ready.shape[-1])
    ready_at = whole * ready  # in progress of backward, s of it when undisturbed
    delay = np.broadcast_to(delay_s, shape).astype(float)
    moved = np.broadcast_to(transfer_s, shape).astype(float)
    arrived = np.zeros(shape, dtype=bool)
    clock, progress = np.zeros_like(whole), np.zeros_like(whole)
    while not arrived.all():
        is_ready = progress >= ready_at
        waiting = is_ready & ~arrived
        flying = waiting & (np.cumsum(waiting, axis=1) <= streams)
        moving = flying & (delay == 0)
        sharing = np.maximum(moving.sum(axis=1, keepdims=True), 1)
        speed = np.where(flying.any(axis=1, keepdims=True), 1 / (1 + slowdown), 1.0)
        # time to the next event of each kind; what is not under way has none
        next_ready = np.min(np.where(is_ready, np.inf, ready_at), axis=1, keepdims=True)
        to_ready = (next_ready - progress) / speed
        to_leave = np.where(flying & ~moving, delay, np.inf)
        to_arrive = np.where(moving, moved * sharing, np.inf)
        step = np.minimum(to_ready, np.minimum(to_leave, to_arrive).min(axis=1, keepdims=True))
        step = np.where(arrived.all(axis=1, keepdims=True), 0.0, step)
        arrived |= to_arrive <= step
        with np.errstate(invalid="ignore"):  # of a bucket that never arrives
            moved = np.where(moving, moved - step / sharing, moved)
        delay = np.where(to_leave <= step, 0.0, np.where(flying & ~moving, delay - step, delay))
        progress = np.where(to_ready <= step, next_ready, progress + step * speed)
        clock = clock + step
    return (clock - whole).reshape(np.shape(backward_s))
