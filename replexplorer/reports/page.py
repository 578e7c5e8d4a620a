"""A report as one page of HTML, its Markdown through one template, its charts as SVG within; and the
directory of a `--report`: made before the work begins, filled when it is done.

Law: the page stands alone. It loads nothing, its policy forbids that it does, and no text of a report is
markup: links, images and HTML are no part of the Markdown that is read here.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from replexplorer.core.text import LAYOUT, printable
from replexplorer.formats.documents import to_json
from replexplorer.formats.files import MOST_TOML_BYTES, read_text, unwritable, whole_binary_file, whole_file
from replexplorer.formats.paths import expanded
from replexplorer.reports.report import (
    Report,
    ReportChart,
    ReportTable,
    block_markdown,
    facts_markdown,
    markdown,
)

if TYPE_CHECKING:
    from jinja2 import Template
    from markdown_it import MarkdownIt

_TEMPLATE: Final = Path(__file__).with_name("page.html")
_VERDICTS: Final = {
    "holds": "holds", "deviates": "deviates", "aborted": "deviates", "shown": "dim", "open": "dim",
}  # fmt: skip
"""A verdict's class of colour; a cell of words that says nothing else has it."""


def html(report: Report) -> str:
    """The whole page."""
    return _template().render(
        report=report,
        kind=_VERDICTS.get(report.verdict, "dim"),
        facts=_html(facts_markdown(report)),
        blocks=list(_blocks(report)),
    )


def _blocks(report: Report) -> Iterator[dict[str, str]]:
    """The markup of each block, and whether it is a chart's."""
    for block in report.shown:
        if isinstance(block, ReportChart):
            yield {"kind": "chart", "title": block.title, "markup": block.svg}
        else:
            large = isinstance(block, ReportTable) and block.is_large
            yield {"kind": "large" if large else "", "title": "", "markup": _html(block_markdown(block))}


def _html(markdown: str) -> str:
    """Markdown as markup; a cell that is a verdict in its colour."""
    from markdown_it.token import Token

    reader = _reader()
    tokens = reader.parse(markdown)
    for before, token in pairwise(tokens):
        word = token.content.strip("*")
        if before.type == "td_open" and word in _VERDICTS and not before.attrs:
            verdict = f'<span class="{_VERDICTS[word]}">{word}</span>'
            token.children = [Token("html_inline", "", 0, content=verdict)]
    markup = str(reader.renderer.render(tokens, reader.options, {}))
    return markup.replace("<table>", '<div class="wide"><table>').replace("</table>", "</table></div>")


@cache
def _reader() -> MarkdownIt:
    """Knows what `report` writes, and nothing more."""
    from markdown_it import MarkdownIt

    rules = ["table", "heading", "list", "fence", "code", "backticks", "newline"]
    return MarkdownIt("zero").enable(rules)


@cache
def _template() -> Template:
    from jinja2 import Environment

    made = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return made.from_string(_TEMPLATE.read_text(encoding="utf-8"))


_SESSION: Final = "session.rxs"
_JSON: Final = ".json"
"""Ends the name of a file for programs, which has its own escapes."""


def report_directory(name: str | None) -> Path | None:
    """The directory that was asked for, and that can be written to; raises UsageError."""
    if name is None:
        return None
    directory = expanded(name)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        raise unwritable(directory, error) from None
    return directory


def write_report(
    directory: Path,
    report: Report,
    document: Any,
    session: str | None = None,
    own: Path | None = None,
    parts: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Write report.md, report.html, the `document` as result.json, the `own` file that was run, and the
    session as `write_files` does; answers what was written in words. Raises UsageError."""
    contents = {
        "report.md": markdown(report),
        "report.html": html(report),
        "result.json": to_json(document) + "\n",
    }
    if own is not None:
        contents[own.name] = read_text(own, "file of the experiment", MOST_TOML_BYTES)
    return write_files(directory, contents, session, parts)


def write_files(
    directory: Path,
    contents: Mapping[str, str],
    session: str | None = None,
    parts: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Write texts by name, and a copy of the recorded session, or of each of its `parts` by name, readable by
    its owner alone as the session is; answers what was written in words. Raises UsageError."""
    names = list(contents)
    for name, text in contents.items():
        with whole_file(directory / name) as stream:
            stream.write(text if name.endswith(_JSON) else printable(text, LAYOUT))
    sessions = {} if session is None else {_SESSION: session}
    sessions |= {f"session-{part}.rxs": recorded for part, recorded in parts.items()}
    for name, recorded in sessions.items():
        with whole_binary_file(directory / name, mode=0o600) as copy, open(recorded, "rb") as stream:
            shutil.copyfileobj(stream, copy)
        names.append(name)
    return f"wrote {directory}/{', '.join(names[:-1])} and {names[-1]}"
