"""The plan of the dose-response: every cause at several doses, and the same point with nothing put in.

Of one size everywhere, whatever the profile: it tests the method, not the machine. Two ranks, a KAN whose gradients are
one bucket, so that backward hides nothing of what a message is delayed by.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

from kanstudy.injection import OWN_FACTOR, Injection
from kanstudy.spec import ARMS, PointSpec
from kanstudy.study.places import folder_to_read
from kanstudy.study.plan import ExperimentPlan
from kanstudy.study.profile import Profile, Study
from kanstudy.study.series import Machine
from kanstudy.study.strict import ProfileError, allowed

EXPERIMENT = "dose_response"
FOLDER = Path("bench") / "attribution"
"""Where the records lie, below a results folder."""
DOSES = (0.1, 0.2, 0.4)
ROUNDS = 14
"""Two more than a bootstrap takes: some are disturbed."""
_QUICK_DOSES, _QUICK_BLOCK_S = (0.3,), 0.1
_TIMES = {"jitter": 2.0}
"""Of jitter two ranks wait for less than half of what each is given."""
_PLAIN = PointSpec(
    experiment=EXPERIMENT,
    scaling="strong",
    world_size=2,
    global_batch_size=2048,
    dataset="synthetic:32:1",
    n_samples=32768,
    layer_widths=(32, 64, 64, 1),
    arms=ARMS,
    operator="auto",
    comm_hook="allreduce",  # a hook in every arm of DDP, also where nothing is put in
    phase_steps=12,  # enough for an interval of the data wait
    block_s=0.15,  # short, and many: noise is between blocks, and records stay small
    warmup_steps=5,
    warmup_s=0.05,
)


def plan(causes: tuple[str, ...] = (), rounds: int = 0, quick: bool = False) -> ExperimentPlan:
    """The plan: all causes, or some; `rounds` = 0 is the usual number. `quick` has one dose and shorter blocks.

    Raises `ProfileError` for a cause that there is not and for rounds below 0.
    """
    for cause in causes:
        if cause not in OWN_FACTOR:
            raise ProfileError(f"cause {cause!r}: must be {allowed(cause, OWN_FACTOR)}")
    if not isinstance(rounds, int) or rounds < 0:
        raise ProfileError(f"rounds = {rounds!r}: must be a whole number >= 0")
    plain = dataclasses.replace(_PLAIN, block_s=_QUICK_BLOCK_S) if quick else _PLAIN
    points = [plain]
    for cause in causes or OWN_FACTOR:
        for dose in _QUICK_DOSES if quick else DOSES:
            injection = Injection(cause, dose * _TIMES.get(cause, 1.0))
            points.append(dataclasses.replace(plain, injection=str(injection)))
    return ExperimentPlan(
        profile=_profile(),
        experiment=EXPERIMENT,
        points=tuple(points),
        rounds={point.point_id: rounds or ROUNDS for point in points},
    )


def folder(results: Path) -> Path:
    """The records below a results folder, or where there are none, those of the reference result."""
    own = results / FOLDER
    return own if own.is_dir() else folder_to_read() / FOLDER


def _profile() -> Profile:
    """Two ranks on CPU cores of their own."""
    return Profile(
        name=EXPERIMENT,
        path=Path(EXPERIMENT),
        study=Study(description="does the attribution find what is put in?", series={}),
        machine=Machine(device="cpu", world_sizes=(2,), threads_per_rank=1, collective_timeout_s=120.0),
    )
