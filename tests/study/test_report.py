"""The HTML report stands alone: it opens without a network, on any width, and shows results instead of code."""

from __future__ import annotations

import base64
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import nbformat
import pytest

from kanstudy.study.notebooks import NotebookError
from kanstudy.study.report import page as page_of
from kanstudy.study.report import write_report

PNG = base64.b64encode(
    b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89"
).decode()


class Page(HTMLParser):
    """Every element with its attributes, and all text outside <style>."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data


@pytest.fixture
def page(tmp_path: Path) -> Page:
    (tmp_path / "beside.png").write_bytes(base64.b64decode(PNG))
    output = nbformat.v4.new_output
    code = nbformat.v4.new_code_cell("secret_code = 1", execution_count=1)
    code.outputs = [
        output("display_data", data={"image/png": PNG, "text/plain": "<Figure>"}),
        output("execute_result", data={"text/html": "<table><tr><td>0.953</td></tr></table>"}, execution_count=1),
        output("stream", name="stdout", text="printed <line> ü"),
    ]
    text = "# Strong scaling\n\n$E = S/p$ and [a paper](https://example.org)\n\n![](beside.png)"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(text), code])
    notebook.metadata["widgets"] = {"application/vnd.jupyter.widget-state+json": {"state": {}}}
    nbformat.write(notebook, tmp_path / "90.ipynb")
    write_report(tmp_path / "90.ipynb", tmp_path / "out" / "report.html", "kanstudy: <laptop>")
    return Page((tmp_path / "out" / "report.html").read_text(encoding="utf-8"))


def test_the_report_loads_nothing_from_elsewhere(page):
    for tag, attributes in page.elements:
        assert tag not in ("script", "link", "iframe", "object", "embed")
        for name in ("src", "srcset", "data", "background"):
            assert (attributes.get(name) or "data:").startswith("data:"), (tag, attributes)
    assert "@import" not in page.text
    assert "url(" not in page.text


def test_the_report_shows_results_and_no_code(page):
    assert [attributes["src"][:15] for tag, attributes in page.elements if tag == "img"] == ["data:image/png;"] * 2
    assert "0.953" in page.text
    assert "printed <line> ü" in page.text
    assert "Strong scaling" in page.text
    assert page.text.count("kanstudy: <laptop>") == 2  # the window's title, and on the page
    assert "secret_code" not in page.text
    assert ("a", "https://example.org") in [(tag, attributes.get("href")) for tag, attributes in page.elements]


def test_every_section_is_in_the_contents_below_the_title():
    body = '<h1>Results</h1>\n<p>Of here.</p><h2>A &amp; <code>b</code></h2><p/><h2 id="C">C</h2>'
    shown = Page(page_of("t", body))
    targets = [attributes["href"] for tag, attributes in shown.elements if tag == "a"]
    assert targets == ["#A-b", "#C"]
    ids = [attributes["id"] for tag, attributes in shown.elements if tag == "h2"]
    assert [f"#{name}" for name in ids] == targets
    tags = [tag for tag, _ in shown.elements]
    assert tags.index("h1") < tags.index("nav") < tags.index("h2")
    assert Page(page_of("t", "<p>no heading</p>")).text.count("no heading") == 1


def test_only_long_texts_in_tables_have_several_lines():
    cells = ["0.953 [0.941, 0.967]", "too few rounds for an interval; and no point of one rank", "&lt;" * 39]
    shown = Page(page_of("t", f"<table><tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr></table>"))
    assert [attributes.get("class") for tag, attributes in shown.elements if tag == "td"] == [None, "prose", None]


def test_what_only_the_notebook_needs_is_not_in_the_report(tmp_path):
    cells = [nbformat.v4.new_markdown_cell(text) for text in ("# Results", "## Parameters\n\nset them")]
    cells[1].metadata["tags"] = ["notebook-only"]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "90.ipynb")
    write_report(tmp_path / "90.ipynb", tmp_path / "report.html", "x")
    text = Page((tmp_path / "report.html").read_text(encoding="utf-8")).text
    assert "Results" in text
    assert "Parameters" not in text
    assert "set them" not in text


def test_a_figure_of_ours_says_what_it_shows_and_at_which_size(tmp_path):
    code = nbformat.v4.new_code_cell("1", execution_count=1)
    metadata = {"image/png": {"width": 700, "height": 270, "alt": "efficiency over <ranks>"}}
    code.outputs = [nbformat.v4.new_output("display_data", data={"image/png": PNG}, metadata=metadata)]
    nbformat.write(nbformat.v4.new_notebook(cells=[code]), tmp_path / "90.ipynb")
    write_report(tmp_path / "90.ipynb", tmp_path / "report.html", "x")
    (image,) = [
        attributes
        for tag, attributes in Page((tmp_path / "report.html").read_text(encoding="utf-8")).elements
        if tag == "img"
    ]
    assert (image["width"], image["alt"]) == ("700", "efficiency over <ranks>")


def test_a_notebook_that_cannot_be_read_leaves_the_old_report(tmp_path):
    (tmp_path / "report.html").write_text("old")
    with pytest.raises(NotebookError):
        write_report(tmp_path / "absent.ipynb", tmp_path / "report.html", "x")
    assert (tmp_path / "report.html").read_text() == "old"


def test_points_in_tables_are_links_to_their_records_beside_the_page(tmp_path):
    for name in ("strong scaling/w1-0a.json", "strong scaling/w2-0b.json", "plans/weak.json", "bench/a/d/j-0c.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("{}")
    cells = "".join(f"<td>{text}</td>" for text in ("w1-0a", "w1-0a w2-0b", "j-0c", "weak", "absent-00", "x w1-0a"))
    code = nbformat.v4.new_code_cell("1", execution_count=1)
    data = {"text/html": f"<table><tr>{cells}</tr></table> w1-0a"}
    code.outputs = [nbformat.v4.new_output("execute_result", data=data, execution_count=1)]
    nbformat.write(nbformat.v4.new_notebook(cells=[code]), tmp_path / "90.ipynb")
    write_report(tmp_path / "90.ipynb", tmp_path / "report.html", "x")
    page = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    targets = [attributes["href"] for tag, attributes in page.elements if tag == "a"]
    first, second = "strong%20scaling/w1-0a.json", "strong%20scaling/w2-0b.json"
    assert targets == [first, first, second, "bench/a/d/j-0c.json", first]
    assert all((tmp_path / unquote(target)).is_file() for target in targets)
