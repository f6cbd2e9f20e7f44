from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles_for_tests import COMMUNICATION, MACHINE, MODEL_SIZE, OPERATORS, STRONG, WEAK, profile_of

from kanstudy.sizes import kan_parameters, mlp_parameters
from kanstudy.spec import ARMS
from kanstudy.study import experiments
from kanstudy.study import profile as profile_module
from kanstudy.study.experiments import EXPERIMENTS, plan, plans
from kanstudy.study.profile import ProfileError, load_profile
from kanstudy.study.series import SERIES

UP_TO_4 = "[machine]\ndevice = 'cpu'\nworld_sizes = [1, 2, 4]\nallow_oversubscription = true"
ONE = "[machine]\ndevice = 'cpu'\nworld_sizes = [1]"


def test_every_kind_of_series_has_its_experiment():
    assert list(EXPERIMENTS) == list(SERIES)


def test_strong_scaling_keeps_the_global_batch_and_has_the_whole_chain(tmp_path):
    points = list(experiments.points(profile_of(tmp_path, STRONG, machine=UP_TO_4), "strong_scaling"))
    assert [(p.world_size, p.global_batch_size, p.local_batch_size) for p in points] == [
        (1, 8, 8),
        (2, 8, 4),
        (4, 8, 2),
    ]
    assert points[0].arms == ("serial_global", "ddp_noop", "ddp")
    assert points[1].arms == points[2].arms == ARMS
    assert {(p.scaling, p.experiment, p.layer_widths) for p in points} == {("strong", "strong_scaling", (4, 3, 1))}


def test_weak_scaling_keeps_the_local_batch(tmp_path):
    points = list(experiments.points(profile_of(tmp_path, WEAK, machine=UP_TO_4), "weak_scaling"))
    assert [(p.world_size, p.global_batch_size, p.local_batch_size) for p in points] == [
        (1, 4, 4),
        (2, 8, 4),
        (4, 16, 4),
    ]
    assert points[0].arms == ("serial_local", "ddp")
    assert points[1].arms == ("serial_local", "concurrent", "ddp_noop", "ddp")
    assert {p.scaling for p in points} == {"weak"}


@pytest.mark.parametrize("name", ["smoke", "laptop"])
def test_the_two_scalings_of_a_builtin_profile_meet_at_two_ranks(name):
    profile = load_profile(name)
    strong = next(p for p in experiments.points(profile, "strong_scaling") if p.world_size == 2)
    weak = next(p for p in experiments.points(profile, "weak_scaling") if p.world_size == 2)
    assert (strong.local_batch_size, strong.layer_widths) == (weak.local_batch_size, weak.layer_widths)


def test_communication_overhead_sweeps_buckets_where_there_is_communication(tmp_path):
    points = list(experiments.points(profile_of(tmp_path, COMMUNICATION, machine=UP_TO_4), "communication_overhead"))
    assert [(p.world_size, p.bucket_cap_mb, p.sync_buffers, bool(p.allreduce_bytes)) for p in points] == [
        (2, 0.1, False, True),
        (2, 25.0, False, False),
        (2, 25.0, True, False),
        (4, 0.1, False, True),
        (4, 25.0, False, False),
        (4, 25.0, True, False),
    ]
    assert {p.arms for p in points} == {("ddp_noop", "ddp")}
    assert points[0].allreduce_bytes == (8, 1024)


def test_an_mlp_has_no_buffers_to_synchronise(tmp_path):
    profile = profile_of(tmp_path, COMMUNICATION + 'models = ["kan", "mlp"]')
    points = list(experiments.points(profile, "communication_overhead"))
    assert [(p.model, p.sync_buffers) for p in points] == [
        ("kan", False),
        ("kan", False),
        ("kan", True),
        ("mlp", False),
        ("mlp", False),
    ]
    assert sum(bool(p.allreduce_bytes) for p in points) == 1


def test_one_rank_has_nothing_to_communicate_and_the_plan_says_so(tmp_path):
    planned = plan(profile_of(tmp_path, COMMUNICATION, machine=ONE), "communication_overhead")
    assert planned.points == ()
    assert "needs two ranks" in planned.note
    assert planned.table().empty
    assert planned.estimated_s() == 0
    assert planned.world_size == 0


def test_an_experiment_without_series_says_so(tmp_path):
    planned = plan(profile_of(tmp_path, STRONG), "weak_scaling")
    assert planned.points == ()
    assert "tiny has no series [[study.weak_scaling]]" in planned.note


def test_model_size_scaling_crosses_widths_and_grids_at_the_largest_world_size(tmp_path):
    points = list(experiments.points(profile_of(tmp_path, MODEL_SIZE, machine=UP_TO_4), "model_size_scaling"))
    assert [(p.layer_widths, p.grid_size) for p in points] == [
        ((4, 3, 1), 3),
        ((4, 3, 1), 5),
        ((4, 4, 4, 1), 3),
        ((4, 4, 4, 1), 5),
    ]
    assert {(p.world_size, p.arms) for p in points} == {(4, ("serial_global", "ddp_noop", "ddp"))}
    assert {
        p.world_size for p in experiments.points(profile_of(tmp_path, MODEL_SIZE, machine=ONE), "model_size_scaling")
    } == {1}


def test_operator_scaling_has_every_operator_on_every_world_size_above_one(tmp_path):
    points = list(experiments.points(profile_of(tmp_path, OPERATORS, machine=UP_TO_4), "operator_scaling"))
    assert [(p.world_size, p.operator) for p in points] == [
        (2, "reference"),
        (2, "fused"),
        (4, "reference"),
        (4, "fused"),
    ]
    assert {p.arms for p in points} == {("serial_global", "ddp_noop", "ddp")}
    assert {(p.scaling, p.global_batch_size, p.model) for p in points} == {("strong", 8, "kan")}
    planned = plan(profile_of(tmp_path, OPERATORS, machine=ONE), "operator_scaling")
    assert (planned.points, "needs two ranks" in planned.note) == ((), True)


def test_an_operator_is_compared_whatever_else_the_series_say(tmp_path):
    series = OPERATORS + 'operators = ["reference", "compiled", "fused"]\nmodels = ["mlp", "kan"]\noperator = "fused"'
    points = list(experiments.points(profile_of(tmp_path, series), "operator_scaling"))
    assert [(p.model, p.operator) for p in points] == [("kan", "reference"), ("kan", "compiled"), ("kan", "fused")]


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ('operators = ["fused"]', "operators = ['fused']: must be at least two, distinct"),
        ('operators = ["fused", "fused"]', "operators = ['fused', 'fused']: must be at least two, distinct"),
        ('models = ["mlp"]', "models = ['mlp']: must contain 'kan'"),
        ("spline_order = 0", "spline_order = 0: the operator 'fused'"),
    ],
)
def test_operators_that_cannot_be_compared_are_refused_when_planning(tmp_path, lines, words):
    message = refused(profile_of(tmp_path, OPERATORS + lines), "operator_scaling")
    assert message.startswith(f"{tmp_path / 'tiny.toml'} [[study.operator_scaling]] #1: ")
    assert words in message


@pytest.mark.parametrize("name", ["auto", "numba"])
def test_only_an_operator_of_a_name_of_its_own_can_be_compared(tmp_path, name):
    with pytest.raises(ProfileError, match=f"operators = .*{name}.*each item one of reference, compiled, fused"):
        profile_of(tmp_path, OPERATORS + f'operators = ["reference", "{name}"]')


def test_an_operator_for_cpus_is_refused_on_cuda_in_every_experiment(tmp_path):
    cuda = MACHINE.replace('"cpu"', '"cuda"')
    for experiment, series in (("operator_scaling", OPERATORS), ("strong_scaling", STRONG + 'operator = "fused"')):
        profile = profile_of(tmp_path, series, machine=cuda)
        with pytest.raises(ProfileError, match="'fused' is for CPUs, the device is cuda: name 'compiled'"):
            plan(profile, experiment, launcher="none")
    series = OPERATORS + 'operators = ["reference", "compiled"]'
    points = plan(profile_of(tmp_path, series, machine=cuda), "operator_scaling", launcher="none").points
    assert [point.operator for point in points] == ["reference", "compiled"]


def test_the_control_has_about_as_many_parameters(tmp_path):
    kan, mlp = list(
        experiments.points(profile_of(tmp_path, STRONG + 'models = ["kan", "mlp"]', machine=ONE), "strong_scaling")
    )
    assert (mlp.model, mlp.grid_size, mlp.spline_order, mlp.operator) == ("mlp", None, None, None)
    assert (mlp.layer_widths[0], mlp.layer_widths[-1], len(mlp.layer_widths)) == (4, 1, 3)
    wanted = kan_parameters(kan.layer_widths, kan.grid_size, kan.spline_order)
    assert abs(mlp_parameters(mlp.layer_widths) - wanted) <= 3  # half of what one more hidden unit adds


def test_a_control_that_two_models_of_a_sweep_share_is_one_point(tmp_path):
    sweep = MODEL_SIZE.replace("[[3], [4, 4]]", "[[1]]").replace("[3, 5]", "[50, 51]")
    points = list(experiments.points(profile_of(tmp_path, sweep, study='models = ["mlp"]'), "model_size_scaling"))
    assert [p.model for p in points] == ["mlp"] * len(points)
    assert len({p.point_id for p in points}) == len(points)


def refused(profile, experiment) -> str:
    with pytest.raises(ProfileError) as raised:
        plan(profile, experiment)
    assert "\n" not in str(raised.value)
    return str(raised.value)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("global_batch_size = 8", "global_batch_size = 6", ["#1", "global_batch_size = 6", "world size 4"]),
        ("n_samples = 64", "n_samples = 7", ["#1", "n_samples"]),
        ('"synthetic:4:1"', '"synthetik:4:1"', ["#1", "synthetik"]),
        ("hidden_widths = [3]", "spline_order = 9\nhidden_widths = [3]", ["#1", "spline_order = 9", "0 to 5"]),
        ("hidden_widths = [3]", 'models = ["mlp"]\nhidden_widths = []', ["#1", "no hidden layer"]),
    ],
)
def test_what_cannot_be_measured_is_refused_when_planning(tmp_path, old, new, words):
    assert old in STRONG
    profile = profile_of(tmp_path, STRONG.replace(old, new), machine=UP_TO_4)
    message = refused(profile, "strong_scaling")
    assert message.startswith(f"{profile.path} [[study.strong_scaling]]")
    assert [word for word in words if word not in message] == []


def test_the_same_series_twice_is_refused(tmp_path):
    assert "#2: measures strong_w1_b8" in refused(profile_of(tmp_path, STRONG, STRONG), "strong_scaling")


def test_too_many_ranks_are_refused_when_planning_unless_another_machine_measures(tmp_path, monkeypatch):
    monkeypatch.setattr(profile_module, "usable_cores", lambda: 2)
    profile = profile_of(tmp_path, STRONG, machine=UP_TO_4.replace("true", "false"))
    assert "4 ranks x 1 threads_per_rank" in refused(profile, "strong_scaling")
    assert plan(profile, "strong_scaling", launcher="none").world_size == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"experiment": "strong"}, "experiment 'strong': must be one of strong_scaling"),
        ({"rounds": -1}, "rounds = -1: must be a whole number >= 0"),
        ({"rounds": "3"}, "rounds = '3'"),
        ({"launches": 0}, "launches = 0: must be a whole number >= 1"),
    ],
)
def test_bad_arguments_of_a_plan(tmp_path, arguments, message):
    with pytest.raises(ProfileError, match=message):
        plan(profile_of(tmp_path, STRONG), **({"experiment": "strong_scaling"} | arguments))


def test_rounds_come_from_the_series_unless_given(tmp_path):
    profile = profile_of(tmp_path, STRONG, STRONG.replace("[3]", "[5]") + "rounds = 2", study="rounds = 7")
    planned = plan(profile, "strong_scaling")
    assert [planned.rounds[p.point_id] for p in planned.points] == [7, 7, 2, 2]
    given = plan(profile, "strong_scaling", rounds=4, launches=3)
    assert set(given.rounds.values()) == {4}
    assert given.points == planned.points, "how often is no part of what is measured"


def test_the_table_has_a_row_a_point_and_the_price_of_waiting(tmp_path):
    planned = plan(profile_of(tmp_path, STRONG, machine=UP_TO_4, study="block_s = 10\nrounds = 6"), "strong_scaling")
    table = planned.table()
    assert list(table.point) == [p.point_id for p in planned.points]
    assert list(table.world_size) == [1, 2, 4]
    assert table.idle_rank_minutes.iloc[0] == pytest.approx(3 * table.minutes.iloc[0], abs=0.2)
    assert table.idle_rank_minutes.iloc[2] == 0
    blocks = [p.blocks_per_round for p in planned.points]
    assert planned.estimated_s() > 6 * 10 * sum(blocks)


@given(rounds=st.integers(1, 50), launches=st.integers(1, 5))
def test_more_rounds_and_launches_take_longer(rounds, launches):
    profile = load_profile("smoke")
    base = plan(profile, "weak_scaling", rounds=rounds, launches=launches, launcher="none").estimated_s()
    assert plan(profile, "weak_scaling", rounds=rounds + 1, launches=launches, launcher="none").estimated_s() > base
    assert plan(profile, "weak_scaling", rounds=rounds, launches=launches + 1, launcher="none").estimated_s() > base


@given(batch=st.integers(1, 64), sizes=st.sets(st.integers(1, 9), min_size=1))
def test_a_plan_has_every_world_size_or_is_refused(tmp_path_factory, batch, sizes):
    series = STRONG.replace("global_batch_size = 8", f"global_batch_size = {batch}")
    machine = f"[machine]\ndevice = 'cpu'\nworld_sizes = {sorted(sizes)}"
    profile = profile_of(tmp_path_factory.mktemp("p"), series, machine=machine)
    if any(batch % size for size in sizes):
        with pytest.raises(ProfileError, match="divisible"):
            experiments.points(profile, "strong_scaling")
    else:
        points = experiments.points(profile, "strong_scaling")
        assert [point.world_size for point in points] == sorted(sizes)
        assert all(point.local_batch_size * point.world_size == batch for point in points)


CONTROLS = "control_batches = [8, 24]\n"


def test_controls_are_the_mlp_of_as_many_parameters_at_their_own_batches_on_several_ranks(tmp_path):
    points = list(experiments.points(profile_of(tmp_path, STRONG + CONTROLS, machine=UP_TO_4), "strong_scaling"))
    kan, mlp = ([p for p in points if p.model == model] for model in ("kan", "mlp"))
    assert [p.world_size for p in kan] == [1, 2, 4]
    assert [(p.world_size, p.global_batch_size) for p in mlp] == [(2, 8), (2, 24), (4, 8), (4, 24)]
    assert {p.arms for p in mlp} == {("serial_global", "ddp_noop", "ddp")}
    target = kan_parameters(kan[0].layer_widths, 5, 3)
    for p in mlp:
        width = p.layer_widths[1]
        nearest = abs(mlp_parameters(p.layer_widths) - target)
        assert nearest <= min(abs(mlp_parameters((4, other, 1)) - target) for other in (width - 1, width + 1))


def test_controls_of_the_communication_are_measured_at_the_default_bucket_cap_only(tmp_path):
    points = list(experiments.points(profile_of(tmp_path, COMMUNICATION + CONTROLS), "communication_overhead"))
    controls = [(p.global_batch_size, p.bucket_cap_mb, p.arms, p.sync_buffers) for p in points if p.model == "mlp"]
    assert controls == [(batch, 25.0, ("ddp_noop", "ddp"), False) for batch in (8, 24)]
    assert not any(p.allreduce_bytes or p.train_steps for p in points if p.model == "mlp")


@pytest.mark.parametrize("series", [STRONG, COMMUNICATION])
@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("control_batches = [8, 8]", "control_batches = [8, 8]: must be distinct"),
        (
            "control_batches = [7]",
            "control_batches = [7]: global_batch_size = 7: must be divisible by the world size 2",
        ),
        (
            "control_batches = [80]",
            "control_batches = [80]: n_samples = 64: must be at least one global batch (80 rows)",
        ),
        ('control_batches = [8]\nmodels = ["kan", "mlp"]', "control_batches = [8]: must not hold 8"),
        ('control_batches = [8]\nmodels = ["mlp"]', "models = ['mlp']: must contain 'kan'"),
        ("control_batches = [0]", "control_batches = [0]: must be a list, each item a whole number >= 1"),
    ],
)
def test_controls_that_cannot_be_measured_are_refused(tmp_path, series, lines, words):
    experiment = "strong_scaling" if series is STRONG else "communication_overhead"
    with pytest.raises(ProfileError) as error:
        plan(profile_of(tmp_path, series + lines), experiment)
    assert words in str(error.value)


def test_controls_need_a_kan_with_their_bucket_cap(tmp_path):
    with pytest.raises(ProfileError, match=r"bucket_cap_mb = 4\.0: must be one of bucket_caps_mb = \[0\.1, 25\.0\]"):
        plan(profile_of(tmp_path, COMMUNICATION + CONTROLS + "bucket_cap_mb = 4"), "communication_overhead")


@pytest.mark.parametrize(("name", "minutes"), [("laptop", 20), ("smoke", 2)])
def test_a_builtin_profile_stays_within_its_time_on_two_cores(name, minutes, monkeypatch):
    monkeypatch.setattr(profile_module, "usable_cores", lambda: 2)
    profile = load_profile(name)
    assert sum(plan(profile, experiment).estimated_s() for experiment in EXPERIMENTS) < 60 * minutes


def test_all_plans_are_those_with_points_in_running_order_and_why_not_of_others_is_said(tmp_path):
    profile = profile_of(tmp_path, WEAK, STRONG, COMMUNICATION, machine=ONE)
    said: list[str] = []
    assert list(plans(profile, launcher="none", say=said.append)) == ["strong_scaling", "weak_scaling"]
    (note,) = said
    assert "communication_overhead: nothing to measure" in note
    assert list(plans(profile, ["weak_scaling"], launcher="none")) == ["weak_scaling"]
    with pytest.raises(ProfileError, match="communication_overhead: nothing to measure"):
        plans(profile, ["communication_overhead"], launcher="none")
