"""`kanstudy report`: figures, tables and the report of what is measured already."""

from __future__ import annotations

import click

from kanstudy.commands import bundle, comparison, folders, options
from kanstudy.commands.errors import BadInput
from kanstudy.study.batch import FAILED, OK

EXIT_CODES = """\b
Exit codes:
  0  made
  1  something could not be made or written, or is not as it was in the bundle; the message says what
  2  the command, the results or the bundle cannot be used; nothing was written"""


@click.command(epilog=EXIT_CODES, short_help="Make figures, tables and report again; bundle or compare them.")
@options.profile_or_not
@options.results_dir
@click.option("--figures-dir", default="", metavar="F", help="where figures and tables go")
@click.option(
    "--compare",
    nargs=2,
    metavar="A B",
    help="two results side by side, each a profile or a results folder; goes to figures/A-B or to F",
)
@click.option("--bundle", "packed", metavar="FILE", help="also as one file for a paper, .zip or .tar.gz")
@click.option("--from", "unpacked", metavar="FILE", help="verify such a file, and make all again from it, in D")
def report(
    profile: str | None,
    results_dir: str,
    figures_dir: str,
    compare: tuple[str, str] | None,
    packed: str | None,
    unpacked: str | None,
) -> None:
    """Make figures, tables and report.html again from the records that are there. Measures nothing.

    \b
    Examples:
      kanstudy report --profile laptop
      kanstudy report --results-dir results/reference/laptop --figures-dir figures/reference
      kanstudy report --compare laptop results/reference/laptop
      kanstudy report --profile laptop --bundle paper.zip
      kanstudy report --from paper.zip --results-dir again
    """
    if sum(map(bool, (compare, packed, unpacked))) > 1:
        raise click.UsageError("--compare, --bundle and --from exclude one another")
    if compare or unpacked:
        wrong = {"--profile": profile, "--results-dir": results_dir if compare else "", "--figures-dir": figures_dir}
        if named := [
            option for option, value in wrong.items() if value and not (compare and option == "--figures-dir")
        ]:
            raise click.UsageError(f"{named[0]} does not go with {'--compare' if compare else '--from'}: leave it out")
    if compare:
        comparison.compare(compare, figures_dir)
        return
    if unpacked:
        bundle.rebuild(unpacked, results_dir)
        return
    loaded, results = folders.given(profile, results_dir)
    if not any(results.glob("*/*.json")):
        raise BadInput(f"{folders.short(results)}: no records; measure first: kanstudy run --help")
    if packed:
        bundle.pack(loaded, results_dir, packed)
        return
    work = folders.batch_of(loaded, results_dir, figures_dir)
    folders.check(work, [])
    work.run([], f"kanstudy: {loaded.name if loaded else results.name}")
    folders.close(work, FAILED if work.failures else OK)
