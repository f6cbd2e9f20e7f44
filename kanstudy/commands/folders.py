"""What the options --profile, --results-dir, --figures-dir and --calibration name, and what is run on it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kanstudy.commands.errors import BadInput, refusing
from kanstudy.study.batch import OK

if TYPE_CHECKING:
    from kanstudy.analysis.calibration.calibration import Calibration
    from kanstudy.study.batch import Batch
    from kanstudy.study.profile import Profile


def load(profile: str) -> Profile:
    """The profile of that name or file."""
    from kanstudy.study.profile import ProfileError, load_profile

    with refusing(ProfileError):
        return load_profile(profile)


def calibration_of(given: Path | str) -> Calibration:
    """The calibration that --calibration names: its file, or a results folder."""
    from kanstudy.analysis.calibration import calibration_file
    from kanstudy.analysis.calibration.calibration import CalibrationError
    from kanstudy.analysis.calibration.domain import NotCovered

    try:
        with refusing(CalibrationError, NotCovered):
            return calibration_file.load(given)
    except OSError as error:
        raise BadInput(f"--calibration {given}: cannot be read: {error.strerror}") from error


def given(profile: str | None, results_dir: str) -> tuple[Profile | None, Path]:
    """The profile, if one is named, and the folder of its records; one of the two options is needed."""
    if not profile and not results_dir:
        raise click.UsageError("give --profile or --results-dir")
    loaded = load(profile) if profile else None
    return loaded, results_folder(loaded, results_dir)


def path_given(given: str, option: str) -> Path:
    """The path that an option names, absolute; `BadInput` where there can be none of that name."""
    try:
        return Path(given).expanduser().absolute()
    except (OSError, RuntimeError, ValueError) as error:
        raise BadInput(f"{option} {given}: cannot be used: {error}") from error


def made(given: str) -> Path:
    """The folder that `--out` names, which is there from now on; `BadInput` where it cannot be."""
    folder = path_given(given, "--out")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise BadInput(
            f"--out {given}: must be a folder that can be written: {getattr(error, 'strerror', error)}"
        ) from error
    return folder


def results_folder(profile: Profile | None, given: str, option: str = "--results-dir") -> Path:
    """The folder given, or else the profile's; it need not exist, but must be none that cannot."""
    from kanstudy.study.places import resolved, results_dir

    try:
        folder = resolved(given) if profile is None else results_dir(profile, given).absolute()
        is_file = folder.exists() and not folder.is_dir()
    except (OSError, RuntimeError, ValueError) as error:
        raise BadInput(f"{option} {given}: cannot be used: {error.__cause__ or error}") from error
    if is_file:
        raise BadInput(f"{option} {given}: is a file, must be a folder")
    return folder


def simulated_folder(profile: Profile) -> Path:
    """Where records of the profile's machine go that are simulated, beside those that are measured."""
    measured = results_folder(profile, "")
    return measured.with_name(f"{measured.name}-simulated")


def figures_folder(profile: Profile | None, results_dir: str, figures_dir: str = "") -> Path:
    """Where figures go: the folder given, or below the results that are named, or else the profile's."""
    from kanstudy.study import places

    if figures_dir:
        return path_given(figures_dir, "--figures-dir")
    if profile and not results_dir:
        return places.figures_dir(profile)
    return results_folder(profile, results_dir) / "figures"


def batch_of(
    profile: Profile | None, results_dir: str, figures_dir: str = "", max_minutes: float = 0.0, **parameters: Any
) -> Batch:
    """The notebooks on those folders."""
    from kanstudy.study import batch, places
    from kanstudy.study.profile import builtin_profiles

    results, figures = results_folder(profile, results_dir), figures_folder(profile, results_dir, figures_dir)
    if profile:
        builtin = profile.name in builtin_profiles()
        parameters["profile"] = profile.name if builtin else str(profile.path)
    notebooks = places.project_root() / "notebooks"
    return batch.Batch(notebooks, results, figures, parameters | {"launcher": "local"}, max_minutes, click.echo)


def check(work: Batch, names: list[str]) -> None:
    """Refuse now what would only show when the last notebook begins."""
    from kanstudy.study.notebooks import NotebookError

    if not work.notebooks.is_dir():
        raise BadInput(f"{work.notebooks}: no such folder: kanstudy runs the notebooks of a checkout: go there")
    with refusing(NotebookError):
        work.check(names)


def close(work: Batch, code: int) -> None:
    """The last line says where to look."""
    page = work.results / "report.html"
    report = short(page) if page.exists() else f"no report; executed notebooks: {short(work.results / 'notebooks')}"
    click.echo(f"Look at {report} and {short(work.figures)}{'' if code == OK else f'  (exit code {code})'}")
    sys.exit(code)


def short(path: Path) -> str:
    """Relative to the current folder, where it lies below it."""
    try:
        here = Path.cwd()
    except OSError:  # removed meanwhile
        return str(path)
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
