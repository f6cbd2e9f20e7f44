"""`kanstudy bench attribution`: does the attribution find what is put in?"""

from __future__ import annotations

import click

from kanstudy.commands import folders
from kanstudy.commands.errors import BadInput, keeps
from kanstudy.injection import OWN_FACTOR
from kanstudy.study.batch import FAILED

EXIT_CODES = """\b
Exit codes:
  0    every planned point is measured
  1    something failed; the message says what and where its log is
  2    the command cannot be used; nothing was started
  130  interrupted; the same command goes on"""


@click.command(epilog=EXIT_CODES, short_help="Put known causes into real runs: are they found?")
@click.option("--profile", metavar="P", help="whose results and figures folders to use; the sizes are always the same")
@click.option("--results-dir", default="", metavar="D", help="write to D/bench/attribution, figures to D/figures")
@click.option(
    "--rounds", type=click.IntRange(min=1), metavar="N", help="rounds a point; intervals need 12  [default: 14]"
)
@click.option("--quick", is_flag=True, help="one dose in place of three, shorter blocks")
@click.option(
    "--only", "causes", multiple=True, metavar="CAUSE", type=click.Choice(list(OWN_FACTOR)),
    help=f"put in this cause alone; may be repeated: {', '.join(OWN_FACTOR)}",
)  # fmt: skip
def attribution(
    profile: str | None, results_dir: str, rounds: int | None, quick: bool, causes: tuple[str, ...]
) -> None:
    """Put known causes of lost efficiency into real runs on two ranks, and see whether the attribution finds them.

    One launch measures every cause at several doses, and the same step with nothing put in, in shuffled rounds; each
    must land in its own factor and in no other. Takes about twelve minutes on two cores (--quick: four),
    and the machine should do nothing else meanwhile. What is measured already is not measured again.

    \b
    Examples:
      kanstudy bench attribution --profile laptop
      kanstudy bench attribution --results-dir out --quick
    """
    from kanstudy.analysis.dose_response import responses
    from kanstudy.analysis.plots import dose_response as plots
    from kanstudy.analysis.plots.save import save_figure
    from kanstudy.analysis.results import ResultsError
    from kanstudy.study import dose_response, launch
    from kanstudy.study.datasets.rows import DataError
    from kanstudy.study.profile import ProfileError

    loaded, results = folders.given(profile, results_dir)
    figures = folders.figures_folder(loaded, results_dir)
    failed = ""
    try:
        keeps()
        launch.run(dose_response.plan(causes, rounds or 0, quick), results / dose_response.FOLDER)
    except (ProfileError, launch.FolderError, DataError) as error:
        raise BadInput(str(error)) from error
    except launch.LaunchError as error:
        failed = str(error)
    try:
        records = responses.load(results / dose_response.FOLDER)
        found = responses.dose_response(records)
        save_figure(plots.dose_response(found), figures, plots.NAME, plots.caption(found, records))
    except (ResultsError, OSError) as error:
        raise click.ClickException(f"{error}; the records are kept") from error
    for row in found.verdicts.itertuples():
        click.echo(f"  {row.cause}: {row.verdict}")
    for row in found.unused.itertuples():
        click.echo(f"  not used: {row.point_id} {row.injection}: {row.reason}")
    click.echo(f"Look at {figures / plots.NAME}.pdf")
    if failed:
        click.echo(failed, err=True)
        raise SystemExit(FAILED)
