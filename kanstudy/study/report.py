"""Results as one self-contained HTML page: no code, no script, nothing fetched from elsewhere."""

from __future__ import annotations

import html
import os
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from kanstudy.files import write_atomically
from kanstudy.study.notebooks import read_notebook

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light; }}  /* figures are drawn on white */
body {{ max-width: 100rem; margin: 0 auto; padding: 1rem; color: #1a1a1a; background: #fff;
       font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: break-word; }}
h1, h2, h3 {{ line-height: 1.25; }}
h2 {{ margin-top: 2.5rem; }}
p, li {{ max-width: 48rem; }}
nav ul {{ columns: 16rem; padding-left: 1.2rem; }}
img, svg {{ max-width: max(100%, 35rem); height: auto; }}
.output_png, p:has(> img) {{ max-width: none; overflow-x: auto; }}  /* in a narrow window figures keep legible */
pre {{ overflow-x: auto; font-size: 0.85rem; }}
table {{ display: block; overflow-x: auto; border: 0; border-collapse: collapse; margin: 1rem 0; font-size: 0.85rem; }}
th, td {{ padding: 0.25rem 0.6rem; border: 0; border-bottom: 1px solid #ddd; text-align: right; vertical-align: top; }}
thead th {{ border-bottom: 2px solid #555; vertical-align: bottom; }}
td {{ white-space: nowrap; }}
td.prose {{ white-space: normal; min-width: 16rem; text-align: left; }}
th:first-child, td:first-child {{ text-align: left; }}
@media print {{
  @page {{ size: A4 landscape; margin: 12mm; }}
  body {{ max-width: none; padding: 0; font-size: 10pt; }}
  h2, h3 {{ break-after: avoid; }}
  img, tr {{ break-inside: avoid; }}
  img {{ max-width: 100%; }}
  table {{ display: table; font-size: 7pt; }}
  td, td.prose {{ white-space: normal; min-width: 0; }}
  th, td {{ padding: 0.15rem 0.25rem; }}
}}
</style>
</head>
<body>
<main>
{body}
</main>
</body>
</html>
"""
_HEADING = re.compile(r'<h2(?: id="([^"]*)")?>(.*?)</h2>', re.DOTALL)
_TAG = re.compile(r"<[^>]*>")
_CELL = re.compile(r"<td>(.*?)</td>", re.DOTALL)
_PROSE = 40
"""Letters from which on a table's cell is a text that may have several lines."""


def page(title: str, body: str) -> str:
    """A page of its own around a body of HTML, with a table of its contents below the first heading."""
    headings: dict[str, str] = {}

    def named(heading: re.Match[str]) -> str:
        text = _TAG.sub("", heading[2])
        name = heading[1] or html.escape(re.sub(r"\W+", "-", html.unescape(text)))
        headings[name] = text
        return f'<h2 id="{name}">{heading[2]}</h2>'

    body = _CELL.sub(lambda cell: _cell(cell[1]), _HEADING.sub(named, body))
    entries = "\n".join(f'<li><a href="#{name}">{text}</a></li>' for name, text in headings.items())
    contents = f'<nav aria-label="Contents">\n<ul>\n{entries}\n</ul>\n</nav>' if headings else ""
    top, end, rest = body.partition("</h1>")
    return _PAGE.format(
        title=html.escape(title), body=f"{top}{end}\n{contents}{rest}" if end else f"{contents}\n{body}"
    )


def _cell(content: str) -> str:
    letters = len(html.unescape(_TAG.sub("", content)))
    return f'<td class="prose">{content}</td>' if letters > _PROSE else f"<td>{content}</td>"


def write_report(notebook: Path, output: Path, title: str) -> None:
    """Write the page for an executed notebook to `output`, replacing it as a whole; `NotebookError` if unreadable.

    Cells tagged `notebook-only` are left out. Points in tables are links to their records, where these lie beside the
    page.
    """
    from nbconvert import HTMLExporter  # imported where it is needed: takes a second

    exporter = HTMLExporter(
        template_name="basic",  # the body alone: the other templates load scripts and fonts from elsewhere
        exclude_input=True,
        exclude_input_prompt=True,
        exclude_output_prompt=True,
        exclude_anchor_links=True,
        embed_images=True,
    )
    node = read_notebook(notebook)
    node.metadata.pop("widgets", None)
    node.cells = [cell for cell in node.cells if "notebook-only" not in cell.metadata.get("tags", [])]
    body, _ = exporter.from_notebook_node(node, resources={"metadata": {"path": str(notebook.parent)}})
    body = f"<p>{html.escape(title)}</p>\n{linked(body, records_from(output, output.parent))}"
    write_atomically(output, page(title, body))


def records_from(output: Path, folder: Path) -> dict[str, str]:
    """Where a page at `output` finds the record of each point in a folder of results: relative links."""
    found = [*folder.glob("bench/*/*/*.json"), *folder.glob("*/*.json")]
    way = {path.stem: os.path.relpath(path, output.parent) for path in found if path.parent.name != "plans"}
    return {point: quote(Path(path).as_posix()) for point, path in way.items()}


def linked(body: str, records: Mapping[str, str], heading: str = "") -> str:
    """The HTML with each point in a table's cell as a link to its record, of one column where its heading is given."""

    def link(word: re.Match[str]) -> str:
        return f'<a href="{records[word[0]]}">{word[0]}</a>' if word[0] in records else word[0]

    def cells(text: str) -> str:
        return re.sub(r"(?<=<td>)[^<]+(?=</td>)", lambda cell: re.sub(r"\S+", link, cell[0]), text)

    headings = re.findall(r"<th>(.*?)</th>", body)
    if not heading or heading not in headings:
        return body if heading else cells(body)
    column = headings.index(heading)

    def row(found: re.Match[str]) -> str:
        parts = re.split(r"(?=<td>)", found[0])
        return "".join([*parts[: column + 1], *map(cells, parts[column + 1 : column + 2]), *parts[column + 2 :]])

    return re.sub(r"<tr>\s*<td>.*?</tr>", row, body, flags=re.DOTALL)
