"""`kanstudy analyse`: scaling results that this project did not measure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kanstudy.commands import folders
from kanstudy.commands.errors import BadInput

if TYPE_CHECKING:
    import pandas as pd

    from kanstudy.analysis.external.efficiency import Analysis
    from kanstudy.analysis.external.nccl_log import NcclLog

_SHOWN = 60
EXIT_CODES = """\b
Exit codes:
  0  analysed; rows that could not be used are listed with the reason
  2  the table or the command cannot be used; the message says what is allowed"""


@click.command(epilog=EXIT_CODES, short_help="Speed-up and efficiency of other people's results.")
@click.argument("table", metavar="TABLE", type=click.Path(path_type=Path))
@click.option(
    "--map",
    "roles",
    multiple=True,
    metavar="COLUMN=ROLE",
    help="what a column is: world_size, throughput (of all ranks), throughput_per_rank, time, samples (that a time "
    "is for) or repeat (numbers the repeats of one measurement)  [default: guessed by name where only one column fits]",
)
@click.option("--scaling", type=click.Choice(["strong", "weak"]), help="how the work grew; needed for times alone")
@click.option(
    "--by",
    metavar="COLUMNS",
    help="the keys, separated by commas: rows that differ in one are never put together  "
    "[default: every column of text or dates]",
)
@click.option(
    "--baseline",
    multiple=True,
    metavar="COLUMN=VALUE",
    help="where the 1-rank row stands under another key; may be repeated",
)
@click.option("--relative", is_flag=True, help="efficiency relative to the smallest world size of each series")
@click.option("--repeats", is_flag=True, help="rows of the same key and world size repeat one measurement")
@click.option("--ranks", type=click.IntRange(min=1), metavar="N", help="ranks of an nccl-tests log that lists none")
@click.option("--out", metavar="DIR", help="write the tables and the figure there")
def analyse(
    table: Path,
    roles: tuple[str, ...],
    scaling: str | None,
    by: str | None,
    baseline: tuple[str, ...],
    relative: bool,
    repeats: bool,
    ranks: int | None,
    out: str | None,
) -> None:
    """Speed-up and efficiency of scaling results that others measured; bandwidths of nccl-tests logs.

    TABLE is a .csv, .tsv, .json, .jsonl (also .gz) or .parquet file with a row a measurement, or the output of
    all_reduce_perf. Rows that share every key form a series; its row at world size 1 is the baseline. Nothing is
    averaged but repeats (their median), and every row that cannot be used is listed with the reason.

    DIR gets efficiency.csv, unused.csv and efficiency.pdf and .png; of a log allreduce.csv, unused.csv, allreduce.pdf
    and .png.

    \b
    Examples:
      kanstudy analyse throughput.csv --map gpus=world_size --map img_per_s=throughput --out mine
      kanstudy analyse runtimes.csv --scaling strong --relative
      kanstudy analyse epochs.csv --map epoch_s=time --map images=samples --by model,precision
      kanstudy analyse implementations.csv --baseline impl=no_ddp
      kanstudy analyse all_reduce_perf.log --ranks 16
    """
    from kanstudy.analysis.external import efficiency, nccl_log
    from kanstudy.analysis.external.read import ExternalError, as_text, is_table, read_bytes, read_table

    given = {"--map": roles, "--scaling": scaling, "--by": by is not None, "--baseline": baseline}
    given |= {"--relative": relative, "--repeats": repeats}
    pairs, bases = _pairs("--map", roles), _pairs("--baseline", baseline)
    folder = None if out is None else folders.made(out)  # now: nothing is computed for one that cannot be
    try:
        if not is_table(table):
            text = as_text(read_bytes(table))
            if not nccl_log.is_nccl_log(text):
                read_table(table)  # says what a table's name must end with
            _refuse(table, given, "is an nccl-tests log")
            _tell_log(nccl_log.parse_log(text, ranks, str(table)), table, folder)
            return
        frame = read_table(table)
        if not roles and nccl_log.is_nccl_table(frame):
            _refuse(table, given, "is an nccl-tests table")
            _tell_log(nccl_log.parse_table(frame, ranks, str(table)), table, folder)
            return
        _refuse(table, {"--ranks": ranks is not None}, "is a table of scaling results")
        found = efficiency.analyse(
            frame,
            roles=pairs,
            scaling=scaling,
            by=None if by is None else [name.strip() for name in by.split(",") if name.strip()],
            baseline=bases,
            relative=relative,
            repeats=repeats,
            where=str(table),
        )
    except ExternalError as error:
        raise BadInput(" ".join(str(error).split())) from error
    _tell_table(found, table, folder)


def _pairs(option: str, given: Sequence[str]) -> dict[str, str]:
    """COLUMN=VALUE by column; a name may hold an `=` only in a role's option, whose values have none."""
    pairs: dict[str, str] = {}
    for text in given:
        column, equals, value = text.rpartition("=") if option == "--map" else text.partition("=")
        if not equals or not column.strip():
            raise BadInput(f"{option} {text}: must be COLUMN={'ROLE' if option == '--map' else 'VALUE'}")
        if column.strip() in pairs:
            raise BadInput(f"{option} {text}: column {column.strip()!r} is given twice: must be once")
        pairs[column.strip()] = value.strip()
    return pairs


def _refuse(table: Path, given: Mapping[str, object], what: str) -> None:
    wrong = [option for option, value in given.items() if value]
    if wrong:
        raise BadInput(f"{table}: {what}, to which {wrong[0]} does not apply: leave it out")


def _tell_table(found: Analysis, table: Path, folder: Path | None) -> None:
    for note in found.notes:
        click.echo(f"Note: {note}")
    keys = ", ".join(found.keys) or "none, all rows are one series"
    click.echo(f"Keys: {keys}; scaling: {found.scaling or 'not needed, the table has throughputs'}")
    shown = found.efficiency.drop(columns=["rows"]).dropna(axis=1, how="all")
    _show(shown, "speedup_low" in shown)
    _tell_unused(found.unused, "row")
    blank = f" ({found.blank} of them without an efficiency: no baseline)" if found.blank else ""
    counts = f"Rows: {found.planned} planned = {found.used} used{blank} + {len(found.unused)} unused"
    click.echo(counts)
    if folder:
        from kanstudy.analysis.plots import external

        figure, caption = external.scaling(found), external.caption(found, table.name)
        _write(folder, {"efficiency": found.efficiency, "unused": found.unused}, figure, caption)
    if not found.used:
        raise BadInput(f"{table}: none of its {found.planned} rows can be used: {found.unused['reason'].iloc[0]}")


def _tell_log(found: NcclLog, table: Path, folder: Path | None) -> None:
    for note in found.notes:
        click.echo(f"Note: {note}")
    shown = found.rows.assign(
        time_us=found.rows["time_s"] * 1e6,
        algbw_gb_per_s=found.rows["algbw_bytes_per_s"] / 1e9,
        busbw_gb_per_s=found.rows["busbw_bytes_per_s"] / 1e9,
    )
    _show(shown[["message_bytes", "in_place", "time_us", "algbw_gb_per_s", "busbw_gb_per_s"]], False)
    _tell_unused(found.unused, "line")
    click.echo(f"All-reduce of {found.ranks} ranks, average busbw {found.average_busbw / 1e9:.2f} GB/s")
    click.echo(f"Values: {found.planned} planned = {len(found.rows)} used + {len(found.unused)} unused")
    if folder:
        from kanstudy.analysis.plots import external

        figure, caption = external.bandwidth(found.rows), external.bandwidth_caption(found, table.name)
        _write(folder, {"allreduce": found.rows.assign(ranks=found.ranks), "unused": found.unused}, figure, caption)


def _show(frame: pd.DataFrame, has_intervals: bool) -> None:
    text = frame.head(_SHOWN).to_string(index=False, na_rep="", float_format=lambda value: f"{value:.4g}")
    click.echo(text if len(frame) else "(nothing)")
    if len(frame) > _SHOWN:
        click.echo(f"... and {len(frame) - _SHOWN} more: --out DIR writes them all")
    if has_intervals:
        click.echo("_low and _high: 95 % intervals of the ratio of medians, over the table's repeats")


def _tell_unused(unused: pd.DataFrame, what: str) -> None:
    for row, reason in zip(unused["row"][:_SHOWN], unused["reason"], strict=False):
        click.echo(f"Unused: {what} {row}: {reason}")
    if len(unused) > _SHOWN:
        click.echo(f"... and {len(unused) - _SHOWN} more unused: --out DIR writes them all")


def _write(folder: Path, tables: dict[str, pd.DataFrame], figure: Any, caption: str) -> None:
    """The tables, and the figure under the name of the first."""
    from kanstudy.analysis.plots.save import save_figure
    from kanstudy.files import write_atomically

    first = next(iter(tables))
    try:
        for name, frame in tables.items():
            write_atomically(folder / f"{name}.csv", frame.to_csv(index=False))
        save_figure(figure, folder, first, caption)
    except OSError as error:
        raise BadInput(f"--out {folder}: cannot be written: {error.strerror or error}") from error
    click.echo(f"Look at {folders.short(folder)}/{first}.csv, unused.csv and {first}.pdf")
