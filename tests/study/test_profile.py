from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles_for_tests import MACHINE, STRONG, profile_of, write

from kanstudy.study import profile as profile_module
from kanstudy.study.profile import ProfileError, builtin_profiles, load_profile
from kanstudy.study.series import SERIES


@pytest.fixture
def machine_with(monkeypatch):
    """Pretend a machine with so many cores and GPUs."""

    def pretend(cores: int, gpus: int = 0) -> None:
        monkeypatch.setattr(profile_module, "usable_cores", lambda: cores)
        monkeypatch.setattr(profile_module, "gpu_count", lambda: gpus)

    return pretend


@pytest.mark.parametrize("name", sorted(builtin_profiles()))
def test_a_builtin_profile_says_what_its_file_says(name):
    profile = load_profile(name)
    tables = tomllib.loads(builtin_profiles()[name].read_text())
    assert profile.name == name
    for key, value in tables["machine"].items():
        assert getattr(profile.machine, key) == (tuple(value) if isinstance(value, list) else value)
    assert {"strong_scaling", "weak_scaling"} <= set(tables["study"])
    for experiment in SERIES:
        for series, table in zip(profile.study.series[experiment], tables["study"].get(experiment, []), strict=True):
            assert series.dataset == table["dataset"]
            assert series.rounds == table.get("rounds", tables["study"]["rounds"])


def test_the_builtin_profiles_are_those_of_the_readme():
    assert {"smoke", "laptop"} <= set(builtin_profiles())


def test_a_series_overrides_the_study(tmp_path):
    own = 'rounds = 2\nlearning_rate = 1\nmodels = ["kan", "mlp"]\ndtype = "float64"\n'
    profile = profile_of(tmp_path, STRONG, STRONG + own, study="rounds = 7\nlearning_rate = 0.5")
    first, second = profile.study.series["strong_scaling"]
    assert (first.rounds, first.learning_rate, first.models, first.dtype) == (7, 0.5, ("kan",), "float32")
    assert (second.rounds, second.learning_rate, second.models, second.dtype) == (2, 1.0, ("kan", "mlp"), "float64")
    assert isinstance(second.learning_rate, float)


WRONG = [
    ("", STRONG + "global_batchsize = 4", ["[[study.strong_scaling]] #1", "global_batchsize", "global_batch_size"]),
    ("rouns = 3", STRONG, ["[study]", "'rouns'", "did you mean 'rounds'"]),
    ("rounds = -3", STRONG, ["[study] rounds = -3", "a whole number >= 0"]),
    ("rounds = true", STRONG, ["[study] rounds = True", "a whole number"]),
    ("rounds = 2.5", STRONG, ["[study] rounds = 2.5", "a whole number"]),
    ("block_s = 0", STRONG, ["[study] block_s = 0", "a number > 0"]),
    ("warmup_s = nan", STRONG, ["[study] warmup_s = nan", "a number"]),
    ("learning_rate = '0.1'", STRONG, ["[study] learning_rate = '0.1'", "a number"]),
    ("optimizer = 'adamw'", STRONG, ["[study] optimizer = 'adamw'", "adam, sgd", "did you mean 'adam'"]),
    ("models = ['kan', 'cnn']", STRONG, ["[study] models = ['kan', 'cnn']", "each item one of kan, mlp"]),
    ("models = 'kan'", STRONG, ["[study] models = 'kan'", "a list"]),
    ("models = []", STRONG, ["[study] models = []", "a list of at least one item"]),
    ("operator = 'fast'", STRONG, ["[study] operator = 'fast'", "one of auto, reference, compiled, fused"]),
    ("tf32 = 1", STRONG, ["[study] tf32 = 1", "true or false"]),
    ("description = 3", STRONG, ["[study] description = 3", "text"]),
    ("", STRONG.replace("[3]", "3"), ["hidden_widths = 3", "a list"]),
    ("", STRONG.replace("[3]", "[3, 0]"), ["hidden_widths = [3, 0]", "each item a whole number >= 1"]),
    ("", STRONG.replace("global_batch_size = 8", ""), ["#1", "'global_batch_size' is missing"]),
    ("", STRONG + STRONG.replace('"synthetic:4:1"', "4"), ["#2 dataset = 4", "text"]),
    ("", STRONG.replace("strong", "strogn"), ["[study]", "experiment 'strogn_scaling'", "'strong_scaling'"]),
    (
        "",
        STRONG.replace("[[study.strong_scaling]]", "[study.strong_scaling]"),
        ["study.strong_scaling", "two brackets"],
    ),
    ("strong_scaling = [1]", "", ["[[study.strong_scaling]] #1 = 1", "table"]),
    ("", "", ["nothing to measure", "study.weak_scaling"]),
    ("", STRONG + "[machines]\n", ["[machines]", "did you mean 'machine'"]),
    ("", STRONG + "[machine]\nworld_size = [1]", ["[machine]", "'world_size'", "did you mean 'world_sizes'"]),
    ("", STRONG + "[machine]\nworld_sizes = [1, 1]", ["world_sizes = [1, 1]", "distinct"]),
    ("", STRONG + "[machine]\nworld_sizes = [0]", ["world_sizes = [0]", "each item a whole number >= 1"]),
    ("", STRONG + "[machine]\ndevice = 'gpu'", ["[machine] device = 'gpu'", "auto, cpu, cuda"]),
    ("", STRONG + "[machine]\ncollective_timeout_s = -1", ["[machine] collective_timeout_s = -1", ">= 1"]),
    ("rounds = ", STRONG, ["not TOML", "line 2"]),
]


@pytest.mark.parametrize(("study", "tables", "words"), WRONG, ids=[" ".join(words)[:50] for _, _, words in WRONG])
def test_what_is_wrong_is_said_in_one_message(tmp_path, study, tables, words):
    path = write(tmp_path, tables, study=study)
    with pytest.raises(ProfileError) as raised:
        load_profile(path)
    message = str(raised.value)
    assert message.startswith(str(path))
    assert [word for word in words if word not in message] == []
    assert "\n" not in message


def test_a_top_level_value_is_no_table(tmp_path):
    path = tmp_path / "tiny.toml"
    path.write_text("study = 3")
    with pytest.raises(ProfileError, match=r"\[study\] = 3: must be a table"):
        load_profile(path)


def test_an_unknown_name_lists_the_profiles():
    with pytest.raises(ProfileError, match=r"'lapton'.*laptop.*smoke.*did you mean 'laptop'.*\.toml"):
        load_profile("lapton")


def test_a_name_that_lacks_its_ending_is_told_so(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, STRONG, name="mine.toml")
    with pytest.raises(ProfileError, match=r"or a path that ends in \.toml \(there is mine\.toml here\)$"):
        load_profile("mine")


def test_a_file_that_cannot_be_read(tmp_path):
    with pytest.raises(ProfileError, match=r"absent\.toml: cannot be read: No such file"):
        load_profile(tmp_path / "absent.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ProfileError, match=r"binary\.toml: not TOML"):
        load_profile(tmp_path / "binary.toml")


def test_a_file_named_like_a_builtin_is_refused_but_the_builtin_by_path_is_not(tmp_path):
    with pytest.raises(ProfileError, match=r"named like the built-in profile 'smoke'"):
        load_profile(write(tmp_path, STRONG, name="smoke.toml"))
    assert load_profile(builtin_profiles()["smoke"]).name == "smoke"


def test_no_profile_may_write_into_the_committed_reference(tmp_path):
    with pytest.raises(ProfileError, match="'reference' is where the committed reference result lies"):
        load_profile(write(tmp_path, STRONG, name="reference.toml"))


@pytest.mark.parametrize("name", ["a b.toml", ".toml", "..toml", "-x.toml", "ä.toml"])
def test_a_name_that_is_no_good_folder_name_is_refused(tmp_path, name):
    with pytest.raises(ProfileError, match="becomes a folder's name"):
        load_profile(write(tmp_path, STRONG, name=name))


def test_a_path_may_be_relative(tmp_path, monkeypatch):
    write(tmp_path, STRONG)
    monkeypatch.chdir(tmp_path)
    assert load_profile("tiny.toml").path == tmp_path / "tiny.toml"


@given(cores=st.integers(1, 300), threads=st.integers(1, 8))
def test_default_world_sizes_are_the_powers_of_two_that_fit(cores, threads):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(profile_module, "usable_cores", lambda: cores)
        profile = load_profile("smoke")
        sizes = profile_module.Profile(
            name="x",
            path=profile.path,
            study=profile.study,
            machine=profile_module.Machine(device="cpu", threads_per_rank=threads),
        ).world_sizes
    assert sizes == tuple(p for p in (1, 2, 4, 8) if p == 1 or p * threads <= cores)


@pytest.mark.parametrize("given", ["file:rows.csv:t,u", "file:{folder}/rows.csv:t,u", "file:~/rows.csv:t,u"])
def test_an_own_file_is_looked_for_beside_the_profile(tmp_path, monkeypatch, given):
    monkeypatch.setenv("HOME", str(tmp_path))
    series = STRONG.replace("synthetic:4:1", given.format(folder=tmp_path))
    assert profile_of(tmp_path, series).study.series["strong_scaling"][0].dataset == f"file:{tmp_path}/rows.csv:t,u"


def test_device_and_backend_follow_the_machine(tmp_path, machine_with):
    table = "[machine]\ndevice = 'auto'"
    machine_with(cores=16)
    profile = profile_of(tmp_path, STRONG, machine=table)
    assert (profile.device, profile.backend, profile.world_sizes) == ("cpu", "gloo", (1, 2, 4, 8))
    machine_with(cores=16, gpus=2)
    profile = profile_of(tmp_path, STRONG, machine=table)
    assert (profile.device, profile.backend, profile.world_sizes) == ("cuda", "nccl", (1, 2))


def test_named_world_sizes_are_taken_as_they_are(tmp_path):
    assert profile_of(tmp_path, STRONG, machine="[machine]\nworld_sizes = [4, 1]").world_sizes == (1, 4)


def test_more_ranks_times_threads_than_cores_are_refused(tmp_path, machine_with):
    machine_with(cores=4)
    table = "[machine]\ndevice = 'cpu'\nworld_sizes = [1, 4]\nthreads_per_rank = "
    profile_of(tmp_path, STRONG, machine=table + "1").check_machine()
    with pytest.raises(ProfileError, match=r"world_sizes = \[1, 4\]: 4 ranks x 2 threads_per_rank .* 4 cores"):
        profile_of(tmp_path, STRONG, machine=table + "2").check_machine()
    allowed = profile_of(tmp_path, STRONG, machine=table + "2\nallow_oversubscription = true")
    allowed.check_machine()
    assert allowed.is_oversubscribed


def test_more_ranks_than_gpus_are_refused_whatever_is_allowed(tmp_path, machine_with):
    machine_with(cores=64, gpus=1)
    profile = profile_of(tmp_path, STRONG, machine=MACHINE.replace("cpu", "cuda"))
    with pytest.raises(ProfileError, match=r"2 ranks need a GPU each, this machine has 1"):
        profile.check_machine()


def test_the_stall_time_out_is_longer_than_the_collectives(tmp_path):
    assert profile_of(tmp_path, STRONG, machine="[machine]\ncollective_timeout_s = 30").stall_timeout_s == 90
    assert profile_of(tmp_path, STRONG, machine="[machine]\nstall_timeout_s = 7").stall_timeout_s == 7
