"""`kanstudy report --bundle FILE` and `--from FILE`: a study as one file, and figures and tables from such a file."""

from __future__ import annotations

import shlex
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kanstudy.commands import folders
from kanstudy.commands.errors import BadInput
from kanstudy.study.batch import FAILED, FINAL, OK

if TYPE_CHECKING:
    from kanstudy.study.profile import Profile


def pack(profile: Profile | None, results_dir: str, file: str) -> None:
    """Make figures and tables anew and write them with the records into one archive."""
    from kanstudy.analysis import results
    from kanstudy.study import archive, bundle
    from kanstudy.study.notebooks import NotebookError, run_notebook
    from kanstudy.study.places import project_root

    path = folders.path_given(file, "--bundle")
    folder = folders.results_folder(profile, results_dir)
    if path.is_dir():
        raise BadInput(f"--bundle {file}: is a folder, must be a file that can be written")
    notebook = project_root() / "notebooks" / f"{FINAL}.ipynb"
    folders.check(folders.batch_of(profile, results_dir), [])
    try:
        archive.check_ending(path)
        with tempfile.TemporaryDirectory(prefix="kanstudy-") as made:  # what the notebook makes, and nothing older
            click.echo(f"[1/1] {FINAL}")
            parameters = {"results_dir": str(folder), "figures_dir": f"{made}/figures"}
            run_notebook(notebook, Path(made) / "executed.ipynb", parameters)
            files = bundle.contents(folder, Path(made) / "figures", results.experiments(folder))
        name = profile.name if profile else folder.name
        digest = bundle.write_bundle(path, name, files, results.load(folder).records)
    except (archive.BundleError, results.ResultsError) as error:
        raise BadInput(str(error)) from error
    except NotebookError as error:
        raise click.ClickException(f"{file}: not written, the figures could not be made: {error}") from error
    except OSError as error:
        raise click.ClickException(f"{file}: cannot be written: {error.strerror or error}") from error
    click.echo(f"SHA-256 {digest}")
    click.echo(f"Look at {folders.short(path)}; verified and made again by: kanstudy report --from {shlex.quote(file)}")


def rebuild(file: str, results_dir: str) -> None:
    """Verify a bundle, unpack its records, and make figures and tables of them; say whether these are the bundle's."""
    from kanstudy.analysis.tables.unequal import unequal
    from kanstudy.files import write_atomically
    from kanstudy.study import archive, bundle

    path = folders.path_given(file, "--from")
    stem = next((path.name.removesuffix(end) for end in archive.ENDINGS if path.name.endswith(end)), path.name)
    folder = folders.results_folder(None, results_dir or stem)
    try:
        if folder.is_dir() and any(folder.iterdir()):
            raise BadInput(f"{folders.short(folder)}: is there already: name an empty folder with --results-dir")
        files = bundle.read_bundle(path)
    except archive.BundleError as error:
        raise BadInput(" ".join(str(error).split())) from error
    except OSError as error:
        raise BadInput(f"{file}: cannot be read: {error.strerror or error}") from error
    work = folders.batch_of(None, str(folder))
    folders.check(work, [])
    click.echo(f"{file}: {len(files)} files, every checksum holds")
    try:
        for name, data in files.items():
            if name.startswith("results/"):
                write_atomically(folder / name.removeprefix("results/"), data)
    except OSError as error:
        raise click.ClickException(f"{folder}: cannot be written: {error.strerror or error}") from error
    work.run([], f"kanstudy: {stem}")
    tables = {name.removeprefix("figures/"): data for name, data in files.items() if name.endswith(".csv")}
    other = unequal(tables, work.figures)
    for line in other:
        click.echo(f"  {line}")
    click.echo(f"Tables: {len(tables) - len(other)} of {len(tables)} as in the bundle")
    folders.close(work, FAILED if work.failures or other else OK)
