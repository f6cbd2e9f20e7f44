"""Submitting without Slurm: the commands to the letter, the plan and its cost, the run folder, who is refused."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from profiles_for_tests import STRONG, write

from kanstudy import cli
from kanstudy.record import Arm, Round, blank_record
from kanstudy.record_files import write_record
from kanstudy.run_spec import RunSpec, data_key
from kanstudy.study import experiments, launch
from kanstudy.study.cluster import read_cluster
from kanstudy.study.folder import FolderBusyError, opened
from kanstudy.study.jobs import costs, slurm, submission, submit
from kanstudy.study.plan import ExperimentPlan
from kanstudy.study.profile import Profile, ProfileError, load_profile

MACHINE = '[machine]\ndevice = "cpu"\nworld_sizes = [1, 2, 4]\n'
CLUSTER = '[cluster]\nnodes = 2\nranks_per_node = 2\ntime_limit = "01:00:00"\n'


@pytest.fixture
def profile(tmp_path: Path) -> Profile:
    return load_profile(write(tmp_path, STRONG, MACHINE, CLUSTER, study="rounds = 1"))


def plans_of(profile: Profile) -> dict[str, ExperimentPlan]:
    return {"strong_scaling": experiments.plan(profile, "strong_scaling", launcher="none")}


def finish(plan: ExperimentPlan, results: Path, number: int, status: str = "ok") -> None:
    """A final record for one point of the plan."""
    point = plan.points[number]
    run = RunSpec(
        profile="tiny",
        experiment=plan.experiment,
        points=(point,),
        data_files={data_key(point): "x"},
        results_dir=str(results),
        progress_file="x",
        rounds={point.point_id: plan.rounds[point.point_id]},
    )
    record = blank_record(point, run, status)
    block = Round(
        launch=0,
        attempt=1,
        index=0,
        order=0,
        active_ranks=[0],
        rank_step_times_s=[[0.1]],
        rank_block_times_s=[0.1],
        reference_kernel_s=[0.1],
        foreign_cpu_share=[None],
        minor_faults=[None],
        started_utc="",
    )
    record.arms = {arm: Arm(rounds=[block]) for arm in point.arms}
    write_record(record, results)


def test_the_sbatch_command_for_finisterrae3():
    cluster = load_profile("finisterrae3").cluster
    command = slurm.study_command(cluster, "finisterrae3", Path("/store/my run"), Path("slurm/study.sbatch"))
    assert shlex.join(command) == (
        "sbatch --parsable --job-name=kanstudy-finisterrae3 --nodes=4 --ntasks-per-node=2 --cpus-per-task=32"
        " --gres=gpu:a100:2 --time=06:00:00 --partition=short '--output=/store/my run/job-%j.out' --open-mode=append"
        " --signal=B:USR1@120 --requeue --mem=240G slurm/study.sbatch '/store/my run'"
    )


def test_the_report_waits_for_the_job_however_it_ends_and_asks_for_one_core():
    cluster = load_profile("finisterrae3").cluster
    command = slurm.report_command(cluster, "finisterrae3", Path("/r"), Path("slurm/report.sbatch"), "17")
    assert shlex.join(command) == (
        "sbatch --parsable --dependency=afterany:17 --job-name=kanstudy-finisterrae3-report --nodes=1 --ntasks=1"
        " --cpus-per-task=1 --time=00:30:00 --partition=short --output=/r/report-%j.out --mem=8G slurm/report.sbatch /r"
    )


def test_the_profile_says_how_gpus_are_asked_for_and_whether_to_begin_again():
    minimal = {"nodes": 1, "ranks_per_node": 2, "time_limit": "01:00:00"}
    cluster = read_cluster(minimal | {"gpus_per_node": "a100:2", "requeue": False, "account": "me", "qos": "low"}, "x")
    command = slurm.study_command(cluster, "x", Path("/50%/r"), Path("s"))
    assert {"--gpus-per-node=a100:2", "--no-requeue", "--account=me", "--qos=low"} <= set(command)
    assert "--output=/50%%/r/job-%j.out" in command
    assert not any(word.startswith(("--gres", "--partition", "--requeue")) for word in command)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1-02:03:04", 93784), ("02:03:04", 7384), ("3:04", 184), ("0:00", 0), ("UNLIMITED", None), ("", None)],
)
def test_the_time_left_in_the_words_of_squeue(text, seconds):
    assert slurm.parse_time_left(text) == seconds


def test_the_run_folder_holds_all_that_the_job_needs(profile, tmp_path):
    plans = plans_of(profile)
    written = submission.write(plans, profile, tmp_path / "r", tmp_path / "f", "the plan")
    profile.path.write_text("edited later")
    read = submission.read(written.folder)
    assert read.plans["strong_scaling"].points == plans["strong_scaling"].points
    assert read.plans["strong_scaling"].rounds == plans["strong_scaling"].rounds
    assert (read.cluster, read.profile.machine) == (profile.cluster, profile.machine)
    assert (read.profile.name, read.profile.backend, read.profile.world_sizes) == ("tiny", "gloo", (1, 2, 4))
    assert (read.results, read.figures, read.code) == (tmp_path / "r", tmp_path / "f", written.code)
    assert "global_batch_size = 8" in (written.folder / "profile.toml").read_text()
    assert (written.folder / "plan.txt").read_text() == "the plan\n"


def test_set_up_lines_come_first_and_variables_are_taken_as_they_are(tmp_path):
    values = {"nodes": 1, "ranks_per_node": 1, "time_limit": "01:00:00"}
    values |= {"setup": ["HERE=/sc", "false || true"], "environment": {"A": "$HOME `x` 'y' \"z\""}}
    cluster = read_cluster(values | {"scratch": "$HERE/me"}, "x")
    script = tmp_path / "setup.sh"
    script.write_text(submission.setup(cluster, tmp_path / "a b", "/my python"))
    shown = 'printf \'%s\\n\' "$A" "$TRITON_CACHE_DIR" "$PYTHONPATH" "$KANSTUDY_PYTHON"'
    command = ["bash", "-euc", f'. "$0"; {shown}', str(script)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={"PATH": "/usr/bin:/bin"})
    assert done.stdout.splitlines() == [
        "$HOME `x` 'y' \"z\"",
        "/sc/me/kanstudy/triton",
        str(tmp_path / "a b"),
        "/my python",
    ]


def test_only_what_has_no_final_record_is_left(profile, tmp_path):
    plans = plans_of(profile)
    plan = plans["strong_scaling"]
    finish(plan, tmp_path, 0)
    finish(plan, tmp_path, 1, "oom")
    finish(plan, tmp_path, 2, "failed")
    left = submission.unfinished(plans, tmp_path)
    assert left["strong_scaling"].points == plan.points[2:]
    finish(plan, tmp_path, 2)
    assert submission.unfinished(plans, tmp_path) == {}


def test_the_cost_counts_the_ranks_that_wait(profile):
    plans = plans_of(profile)
    plan = plans["strong_scaling"]
    found = costs.estimate(plans, 4)
    waiting = sum(plan.point_s(point) * (4 - point.world_size) for point in plan.points)
    assert found.idle_share == pytest.approx(waiting / (found.time_s * 4))
    assert found.device_hours == pytest.approx(found.time_s * 4 / 3600)
    assert 0 < found.idle_share < 1


def test_the_plan_says_when_the_time_limit_is_short(tmp_path):
    short = CLUSTER.replace("01:00:00", "00:03:00")
    path = write(tmp_path, STRONG, MACHINE, short, "[device]\nprice_per_hour = 500.0", study="rounds = 5")
    profile = load_profile(path)
    text = costs.plan_text(plans_of(profile), profile)
    assert "more than time_limit = '00:03:00' leaves" in text
    assert "on nodes x ranks: 1x1, 1x2, 2x2" in text
    assert " EUR" in text


def test_a_dry_run_needs_no_slurm_and_leaves_nothing(profile, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    results = tmp_path / "results"
    arguments = ["submit", "--profile", str(profile.path), "--dry-run", "--results-dir", str(results)]
    result = CliRunner().invoke(cli.main, arguments)
    assert result.exit_code == 0, result.output
    assert "strong_scaling: 3 points, 1 rounds" in result.output
    assert result.output.splitlines()[-1].startswith("sbatch --parsable --job-name=kanstudy-tiny --nodes=2")
    assert not results.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--profile", "smoke"], "has no [cluster]"),
        (["--profile", "finisterre3"], "did you mean 'finisterrae3'"),
        (["--profile", "tiny.toml", "--results-dir", "~nobody-at-all/x"], "--results-dir ~nobody-at-all/x: cannot be"),
        (["--profile", "tiny.toml", "--only", "weak_scaling"], "has no series [[study.weak_scaling]]"),
    ],
)
def test_what_cannot_be_submitted_is_said(profile, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli.main, ["submit", *arguments])
    assert result.exit_code == 2
    assert message in result.output


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        (["NCCL_ALGO"], "--env 'NCCL_ALGO': must be NAME=VALUE"),
        (["NCCL_ALGO="], "must be NAME=VALUE"),
        (["1A=x"], "--env: '1A': must be a variable's name"),
        (["A=1\n2"], "--env A = '1\\n2': must be text of one line"),
        (["A=1", "A=2"], "--env 'A=2': A must be given once"),
        (["NCCL_ALGO=Rng"], "NCCL_ALGO = 'Rng': 'Rng' must be one of Tree, Ring"),
        (["NCCL_PROTO=allreduce:^LL,LL129"], "'LL129' must be one of LL, LL128, Simple (did you mean 'LL128'?)"),
    ],
)
def test_a_wrong_variable_is_named(profile, tmp_path, variables, message):
    options = [word for variable in variables for word in ("--env", variable)]
    arguments = ["submit", "--profile", str(profile.path), "--results-dir", str(tmp_path / "r"), *options]
    result = CliRunner().invoke(cli.main, arguments)
    assert result.exit_code == 2
    assert message in result.output
    assert not (tmp_path / "r").exists()


def test_variables_without_a_folder_of_their_own_are_refused(profile):
    result = CliRunner().invoke(cli.main, ["submit", "--profile", str(profile.path), "--env", "NCCL_ALGO=Ring"])
    assert result.exit_code == 2
    assert "--env NCCL_ALGO=Ring: needs --results-dir" in result.output


def test_variables_reach_the_job_over_those_of_the_profile(tmp_path, stand_in):
    table = CLUSTER + '[cluster.environment]\nNCCL_ALGO = "Tree"\nA = "1"\n'
    own = load_profile(write(tmp_path, STRONG, MACHINE, table, study="rounds = 1"))
    options = ["--env", "NCCL_ALGO=^Ring,tree", "--env", "B=x=y z"]
    arguments = ["submit", "--profile", str(own.path), "--results-dir", str(tmp_path / "r"), *options]
    result = CliRunner().invoke(cli.main, arguments)
    assert result.exit_code == 0, result.output
    (run,) = submission.read_jobs(tmp_path / "r")
    assert submission.read(run).cluster.environment == {"A": "1", "B": "x=y z", "NCCL_ALGO": "^Ring,tree"}
    code = f'. {shlex.quote(str(run / "setup.sh"))}; echo "$A|$B|$NCCL_ALGO"'
    assert subprocess.run(["bash", "-c", code], capture_output=True, text=True).stdout == "1|x=y z|^Ring,tree\n"


def test_without_slurm_nothing_is_left_that_looks_submitted(profile, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(slurm.SlurmError, match="sbatch: not found: submit on a login node"):
        submit.submit(plans_of(profile), profile, tmp_path / "r", tmp_path / "f", lambda line: None)
    assert submission.read_jobs(tmp_path / "r") == {}


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """Commands named like Slurm's: each logs how it was called and answers what `answers/<name>` holds."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sbatch", "squeue", "sacct"):
        script = folder / name
        script.write_text(f'#!/bin/sh\necho "$@" >> "{tmp_path}/{name}.calls"\ncat "{tmp_path}/{name}.answer"\n')
        script.chmod(0o755)
        (tmp_path / f"{name}.answer").write_text("")
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    (tmp_path / "sbatch.answer").write_text("42;mycluster\n")
    return tmp_path


def test_what_a_live_job_measures_is_not_submitted_again(profile, stand_in):
    results = stand_in / "r"
    first = submit.submit(plans_of(profile), profile, results, stand_in / "f", lambda line: None)
    assert submission.read_jobs(results) == {first.folder: {"study": "42", "report": "42"}}
    calls = (stand_in / "sbatch.calls").read_text().splitlines()
    assert "--dependency=afterany:42" in calls[1]
    assert json.loads((first.folder / "commands.json").read_text())["study"][0] == "sbatch"
    (stand_in / "squeue.answer").write_text("42 PENDING\n")
    said: list[str] = []
    assert submit.submit(plans_of(profile), profile, results, stand_in / "f", said.append) is None
    assert said[0].startswith("Job 42 is queued or runs")
    assert said[1] == "All that is left is in a job already: nothing is submitted"
    (stand_in / "squeue.answer").write_text("")
    (stand_in / "sacct.answer").write_text("42|TIMEOUT\n")
    assert submit.submit(plans_of(profile), profile, results, stand_in / "f", lambda line: None) is not None


def test_more_rounds_than_a_live_job_measures_wait_for_it(profile, stand_in):
    results = stand_in / "r"
    submit.submit(plans_of(profile), profile, results, stand_in / "f", lambda line: None)
    (stand_in / "squeue.answer").write_text("42 RUNNING\n")
    (stand_in / "sbatch.answer").write_text("43\n")
    more = {"strong_scaling": experiments.plan(profile, "strong_scaling", rounds=7, launcher="none")}
    second = submit.submit(more, profile, results, stand_in / "f", lambda line: None)
    assert "--dependency=afterany:42" in (stand_in / "sbatch.calls").read_text().splitlines()[2]
    assert set(submission.read(second.folder).plans["strong_scaling"].rounds.values()) == {7}


def test_a_report_that_slurm_refuses_does_not_hide_the_job_that_measures(profile, stand_in):
    script = stand_in / "bin" / "sbatch"
    script.write_text('#!/bin/sh\ncase "$*" in *report.sbatch*) echo "no such account" >&2; exit 1;; esac\necho 42\n')
    with pytest.raises(slurm.SlurmError, match="job 42 is submitted and measures; the one of the report: no such acc"):
        submit.submit(plans_of(profile), profile, stand_in / "r", stand_in / "f", lambda line: None)
    assert [*submission.read_jobs(stand_in / "r").values()] == [{"study": "42"}]


def test_slurms_own_words_are_shown(profile, stand_in):
    script = stand_in / "bin" / "sbatch"
    script.write_text("#!/bin/sh\necho 'sbatch: error: invalid partition specified: nowhere' >&2\nexit 1\n")
    result = CliRunner().invoke(
        cli.main, ["submit", "--profile", str(profile.path), "--results-dir", str(stand_in / "r")]
    )
    assert result.exit_code == 2
    assert "sbatch: error: invalid partition specified: nowhere" in result.output
    assert f"Nothing is submitted. This is what [cluster] of {profile.path} asks for:\nsbatch " in result.output


def test_a_notebook_submits_and_returns_at_once(profile, stand_in, capsys):
    plan = experiments.plan(profile, "strong_scaling", launcher="slurm")
    outcome = launch.run(plan, stand_in / "r", "slurm")
    assert set(outcome.statuses.values()) == {"missing"}
    assert "Submitted job 42" in capsys.readouterr().out
    assert len((stand_in / "sbatch.calls").read_text().splitlines()) == 2
    (run,) = submission.read_jobs(stand_in / "r")
    assert submission.read(run).figures == stand_in / "r" / "figures", "the profile's own are another result's"


def test_data_that_cannot_be_prepared_are_said(profile, stand_in):
    (stand_in / "r").mkdir()
    (stand_in / "r" / "data").write_text("no folder")
    arguments = ["submit", "--profile", str(profile.path), "--results-dir", str(stand_in / "r")]
    result = CliRunner().invoke(cli.main, arguments)
    assert result.exit_code == 2
    assert result.output.startswith(f"Error: data set file {stand_in}/r/data/")
    assert not (stand_in / "sbatch.calls").exists()


def test_states_are_asked_of_the_accounting_where_the_queue_has_forgotten(stand_in):
    (stand_in / "squeue.answer").write_text("7 RUNNING\n")
    (stand_in / "sacct.answer").write_text("8|CANCELLED by 0\n8.batch|CANCELLED\n")
    assert slurm.states(["7", "8", "9"]) == {"7": "RUNNING", "8": "CANCELLED"}
    assert (stand_in / "sacct.calls").read_text().split()[-1] == "8,9"


def test_a_job_finds_a_file_of_the_users_own_by_what_was_prepared(tmp_path, stand_in):
    (tmp_path / "own.csv").write_text("a,y\n" + "".join(f"{row},{row * row}\n" for row in range(40)))
    series = STRONG.replace("synthetic:4:1", "file:own.csv:y").replace("n_samples = 64\n", "")
    own = load_profile(write(tmp_path, series, MACHINE, CLUSTER, study="rounds = 1"))
    run = submit.submit(plans_of(own), own, tmp_path / "r", tmp_path / "f", lambda line: None)
    (tmp_path / "own.csv").unlink()
    code = (
        "import sys; from pathlib import Path; from kanstudy.study.jobs import submission;"
        "from kanstudy.study.run_spec import data_files; run = submission.read(Path(sys.argv[1]));"
        "print(*data_files(run.plans['strong_scaling'].points, run.results).values())"
    )
    command = [sys.executable, "-c", code, str(run.folder)]  # as in a job, nothing is known of where the file lay
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert said == [str(path) for path in (tmp_path / "r" / "data").iterdir()]


def test_nothing_is_submitted_where_nothing_is_left(profile, stand_in):
    plans = plans_of(profile)
    for number in range(3):
        finish(plans["strong_scaling"], stand_in / "r", number)
    said: list[str] = []
    assert submit.submit(plans, profile, stand_in / "r", stand_in / "f", said.append) is None
    assert said == ["Every planned point has its final record: nothing is submitted"]
    assert not (stand_in / "sbatch.calls").exists()


def test_a_job_is_not_submitted_again_where_the_queue_does_not_answer(profile, stand_in):
    results = stand_in / "r"
    submit.submit(plans_of(profile), profile, results, stand_in / "f", lambda line: None)
    squeue = stand_in / "bin" / "squeue"
    squeue.write_text("#!/bin/sh\necho 'slurm_load_jobs error: Socket timed out on send/recv operation' >&2\nexit 1\n")
    with pytest.raises(slurm.SlurmError, match="Socket timed out"):
        submit.submit(plans_of(profile), profile, results, stand_in / "f", lambda line: None)
    assert len((stand_in / "sbatch.calls").read_text().splitlines()) == 2
    squeue.write_text("#!/bin/sh\necho 'slurm_load_jobs error: Invalid job id specified' >&2\nexit 1\n")
    assert submit.submit(plans_of(profile), profile, results, stand_in / "f", lambda line: None) is not None


def test_an_accounting_that_has_lost_a_jobs_end_does_not_hinder(profile, stand_in):
    submit.submit(plans_of(profile), profile, stand_in / "r", stand_in / "f", lambda line: None)
    (stand_in / "sacct.answer").write_text("42|RUNNING\n")
    assert submit.submit(plans_of(profile), profile, stand_in / "r", stand_in / "f", lambda line: None) is not None


def test_of_two_submissions_at_once_one_is_refused(profile, stand_in):
    with opened(stand_in / "r" / "jobs"), pytest.raises(FolderBusyError):
        submit.submit(plans_of(profile), profile, stand_in / "r", stand_in / "f", lambda line: None)
    assert not (stand_in / "sbatch.calls").exists()


@pytest.mark.parametrize("answer", ["note: low priority\n42;gpu\n", "42\nCharged to account me: 7 hours\n"])
def test_the_number_is_found_beside_what_a_centre_prints(stand_in, answer):
    (stand_in / "sbatch.answer").write_text(answer)
    assert slurm.submit(["sbatch"]) == "42"


def test_of_several_clusters_the_name_above_the_answer_is_passed_over(stand_in):
    (stand_in / "squeue.answer").write_text("CLUSTER: gpu\n1:00:00\n")
    assert (slurm.time_left_s("42"), slurm.reason("42")) == (3600, "1:00:00")
    (stand_in / "squeue.answer").write_text("CLUSTER: gpu\n42 RUNNING\n")
    assert slurm.states(["42"]) == {"42": "RUNNING"}


@pytest.mark.parametrize("state", ["SPECIAL_EXIT", "REQUEUE_HOLD", "POWER_UP_NODE"])
def test_a_held_job_is_not_over(profile, stand_in, state):
    submit.submit(plans_of(profile), profile, stand_in / "r", stand_in / "f", lambda line: None)
    (stand_in / "squeue.answer").write_text(f"42 {state}\n")
    assert submit.submit(plans_of(profile), profile, stand_in / "r", stand_in / "f", lambda line: None) is None


@pytest.mark.parametrize(
    "change",
    [{"rounds": {}}, {"rounds": {"x": 1}}, {"rounds": None}, {"launches": 0}, {"launches": "1"}, {"target_width": 3}],
)
def test_a_plan_that_does_not_fit_its_points_is_named(profile, tmp_path, change):
    run = submission.write(plans_of(profile), profile, tmp_path / "r", tmp_path / "f", "").folder
    assert submission.read(run).plans
    values = json.loads((run / "run.json").read_text())
    values["plans"][0] |= change
    (run / "run.json").write_text(json.dumps(values))
    with pytest.raises(ProfileError, match=r"run\.json: not what kanstudy submit writes: .*must fit the points"):
        submission.read(run)


@pytest.mark.parametrize("text", ["", '{"half', "[]", "{}", '{"profile": "x", "path": "x", "machine": 3}'])
def test_a_folder_of_no_run_is_named(tmp_path, text):
    with pytest.raises(ProfileError, match=r"run\.json: cannot be read: No such file"):
        submission.read(tmp_path)
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(ProfileError, match=r"run\.json: not what kanstudy submit writes"):
        submission.read(tmp_path)


def test_a_job_that_is_submitted_from_within_another_does_not_inherit_its_size(stand_in, monkeypatch):
    (stand_in / "bin" / "sbatch").write_text(f"#!/bin/sh\nenv > {stand_in}/variables\necho 42\n")
    variables = {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "1", "SLURM_CONF": "/etc/s", "SBATCH_ACCOUNT": "me"}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert slurm.submit(["sbatch"]) == "42"
    kept = [line for line in (stand_in / "variables").read_text().splitlines() if line.startswith(("SLURM_", "SB"))]
    assert sorted(kept) == ["SBATCH_ACCOUNT=me", "SLURM_CONF=/etc/s"]
