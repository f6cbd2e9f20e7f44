"""The executed final notebook as one self-contained HTML page: no code, no script, nothing fetched from elsewhere."""

from __future__ import annotations

import html
import re
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
body {{ max-width: 72rem; margin: 0 auto; padding: 1rem; color: #1a1a1a; background: #fff;
       font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: break-word; }}
h1, h2, h3 {{ line-height: 1.25; }}
img, svg {{ max-width: 100%; height: auto; }}
pre {{ overflow-x: auto; font-size: 0.85rem; }}
table {{ display: block; overflow-x: auto; border: 0; border-collapse: collapse; margin: 1rem 0; font-size: 0.85rem; }}
th, td {{ padding: 0.25rem 0.6rem; border: 0; border-bottom: 1px solid #ddd; text-align: right; vertical-align: top; }}
thead th {{ border-bottom: 2px solid #555; }}
th:first-child, td:first-child {{ text-align: left; }}
.anchor-link {{ display: none; }}
</style>
</head>
<body>
<main>
{body}
</main>
</body>
</html>
"""


def page(title: str, body: str) -> str:
    """A page of its own around a body of HTML."""
    return _PAGE.format(title=html.escape(title), body=body)


def write_report(notebook: Path, output: Path, title: str) -> None:
    """Write the page for an executed notebook to `output`, replacing it as a whole; `NotebookError` if unreadable.

    Points in tables are links to their records, where these lie beside the page.
    """
    from nbconvert import HTMLExporter  # imported where it is needed: takes a second

    exporter = HTMLExporter(
        template_name="basic",  # the body alone: the other templates load scripts and fonts from elsewhere
        exclude_input=True,
        exclude_input_prompt=True,
        exclude_output_prompt=True,
        embed_images=True,
    )
    node = read_notebook(notebook)
    node.metadata.pop("widgets", None)
    body, _ = exporter.from_notebook_node(node, resources={"metadata": {"path": str(notebook.parent)}})
    body = f"<p>{html.escape(title)}</p>\n{_with_contents(_linked(body, output.parent))}"
    write_atomically(output, page(title, body))


def _with_contents(body: str) -> str:
    """The page with links to its parts before the first of them."""
    parts = re.findall(r'<h2 id="([^"]*)">(.*?)<a class="anchor-link"', body)
    links = " &middot; ".join(f'<a href="#{name}">{heading}</a>' for name, heading in parts)
    return body.replace("<h2", f"<nav>{links}</nav>\n<h2", 1) if parts else body


def _linked(body: str, folder: Path) -> str:
    """The page with each point in a cell of a table as a link to its record in the folder."""
    found = [*folder.glob("bench/*/*/*.json"), *folder.glob("*/*.json")]
    records = {path.stem: quote(path.relative_to(folder).as_posix()) for path in found if path.parent.name != "plans"}

    def link(word: re.Match[str]) -> str:
        return f'<a href="{records[word[0]]}">{word[0]}</a>' if word[0] in records else word[0]

    return re.sub(r"(?<=<td>)[^<]+(?=</td>)", lambda cell: re.sub(r"\S+", link, cell[0]), body)
