"""A report: facts, then tables, charts and notes in their order; as text for a terminal, as Markdown, and as
one page of HTML, its Markdown through one template; and the directory of a `--report`.

Law: what was found is put into a report once, and every form is made of that. The page stands alone: it
loads nothing, its policy forbids that it does, and no text of a report is markup: links, images and HTML are
no part of the Markdown that is read here.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal

from replexplorer.core.records import frozen
from replexplorer.core.text import LAYOUT, folded, printable
from replexplorer.core.text import table as text_table
from replexplorer.formats.documents import to_json
from replexplorer.formats.files import MOST_TOML_BYTES, read_text, unwritable, whole_binary_file, whole_file
from replexplorer.formats.paths import expanded

if TYPE_CHECKING:
    from jinja2 import Template
    from markdown_it import MarkdownIt

_GAP: Final = 2
"""Blanks between the columns of a table in text."""
_LEAST_FOLDED: Final = 24
"""Columns that are kept for the last text of a row, which may take several lines."""


@frozen
class ReportColumn:
    """A column of a table."""

    head: str
    is_number: bool = False
    rank: int = 0
    """Where a terminal is too narrow, the column with the highest is left out first; 0 always stays."""


def words(*heads: str) -> tuple[ReportColumn, ...]:
    """Columns of text with these headings."""
    return tuple(ReportColumn(head) for head in heads)


def numbers(*heads: str) -> tuple[ReportColumn, ...]:
    """Columns of figures with these headings."""
    return tuple(ReportColumn(head, is_number=True) for head in heads)


@frozen
class ReportTable:
    """Rows under columns."""

    columns: Sequence[ReportColumn]
    rows: Sequence[Sequence[str]]
    title: str = ""
    note: str = ""
    """What its figures mean, below it."""
    is_large: bool = False
    """On a page it is set larger, to be read from afar."""
    in_text: bool = True
    """Whether a terminal shows it, too."""


@frozen
class ReportChart:
    """A drawing: on a page as SVG, elsewhere as lines of characters where it has them."""

    svg: Callable[[], str]
    """Draws it, for a page alone; empty where nothing is known."""
    lines: Sequence[str] = ()
    title: str = ""


@frozen
class ReportNotes:
    """Lines of text."""

    lines: Sequence[str]
    title: str = ""
    kind: Literal["list", "lines", "commands"] = "list"
    in_text: bool = True


def again(commands: Sequence[str]) -> ReportNotes:
    """What to type to get the same again: not in the text, whose reader has just typed it."""
    return ReportNotes(commands, "Again", "commands", in_text=False)


Block = ReportTable | ReportChart | ReportNotes


@frozen
class Report:
    """All that was found."""

    name: str
    facts: Sequence[tuple[str, str]]
    """What it is of and what it was measured under: a name, empty for a sentence by itself, and the fact."""
    blocks: Sequence[Block]
    verdict: str = ""
    """`holds`, `deviates`, `aborted`; empty where nothing is judged."""

    @property
    def title(self) -> str:
        """Its name, with the verdict where there is one."""
        return f"{self.name}: {self.verdict}" if self.verdict else self.name

    @property
    def shown(self) -> Iterator[Block]:
        """The blocks that have anything in them."""
        for block in self.blocks:
            match block:
                case ReportTable(rows=rows) if rows:
                    yield block
                case ReportChart():
                    yield block
                case ReportNotes(lines=lines) if lines:
                    yield block


def plain_text(report: Report, columns: int | None = None) -> str:
    """The report for a terminal of this width, or for a pipe: the verdict at its end, where it is read
    first."""
    facts = text_table([(name, fact) for name, fact in report.facts if name], fold=1, columns=columns)
    sentences = [fact for name, fact in report.facts if not name]
    parts = ["\n".join([report.name, *sentences]), facts]
    parts += [block_text(each, columns) for each in report.shown]
    if report.verdict:
        parts.append(f"verdict: {report.verdict}")
    return "\n\n".join(filter(None, parts))


def block_text(block: Block, columns: int | None) -> str:
    """One block for a terminal of this width; empty where only a page shows it."""
    match block:
        case ReportTable(in_text=False) | ReportNotes(in_text=False):
            return ""
        case ReportTable(note=note):
            lines = [_table_text(block, columns), *([folded(note, columns)] if note else ())]
        case ReportChart(lines=drawn):
            lines = list(drawn)
        case ReportNotes(lines=told, title=title):
            lines = [folded(f"  {line}" if title else line, columns) for line in told]
    return "\n".join([*([block.title] if block.title and lines else ()), *lines])


def _table_text(table: ReportTable, columns: int | None) -> str:
    """Without columns of high rank where it is too wide; verdicts against what was expected stand out."""
    kept = list(range(len(table.columns)))
    widths = [
        max(len(cell) for cell in (column.head, *(row[at] for row in table.rows))) + _GAP
        for at, column in enumerate(table.columns)
    ]
    if not table.columns[-1].is_number:  # its cells can be folded
        widths[-1] = min(widths[-1], _LEAST_FOLDED)

    def is_too_wide() -> bool:
        return columns is not None and sum(widths[at] for at in kept) - _GAP > columns

    while is_too_wide():
        last = max(kept, key=lambda at: table.columns[at].rank)
        if not table.columns[last].rank:
            break
        kept.remove(last)
    shown = [table.columns[at] for at in kept]
    # Over words in capitals; a heading over figures has units, which have none.
    heads = [column.head if column.is_number else column.head.upper() for column in shown]
    rows = [[row[at].upper() if row[at] == "deviates" else row[at] for at in kept] for row in table.rows]
    right = [at for at, column in enumerate(shown) if column.is_number]
    if columns is not None and len(kept) > 1 and not right and is_too_wide():
        return _stacked(rows, widths[kept[0]], columns)
    fold = None if shown[-1].is_number else len(shown) - 1
    return text_table(rows, heads if any(heads) else (), right=right, fold=fold, columns=columns)


def _stacked(rows: Sequence[Sequence[str]], indent: int, columns: int) -> str:
    """Words without headings where no column is narrow: the last cell of each row is below the others."""
    under = " " * indent
    lines = [
        folded(text, columns, under)
        for first, *others, last in rows
        for text in (f"{first:{indent}}{'  '.join(others)}", f"{under}{last}")
        if text.strip()
    ]
    return "\n".join(lines)


def markdown(report: Report) -> str:
    """The report for a ticket."""
    parts = [f"# {report.title}", facts_markdown(report), *map(block_markdown, report.shown)]
    return "\n\n".join(filter(None, parts)) + "\n"


def facts_markdown(report: Report) -> str:
    """A fact a line."""
    return "  \n".join(f"{_sentence(name)}: {fact}" if name else fact for name, fact in report.facts)


def block_markdown(block: Block) -> str:
    """One block as Markdown; empty where it is a chart without lines."""
    match block:
        case ReportTable(note=note):
            body = "\n".join(
                [
                    _row(column.head for column in block.columns),
                    _row("---:" if column.is_number else "---" for column in block.columns),
                    *(_row(f"**{cell}**" if cell == "deviates" else cell for cell in r) for r in block.rows),
                    *(["", note] if note else ()),
                ]
            )
        case ReportChart(lines=lines):
            body = "\n".join(["```", *lines, "```"]) if lines else ""
        case ReportNotes(lines=lines, kind="commands"):
            body = "\n".join(f"    {line}" for line in lines)
        case ReportNotes(lines=lines, kind=kind):
            body = "\n".join(f"- {line}" for line in lines) if kind == "list" else "  \n".join(lines)
    return f"## {_sentence(block.title)}\n\n{body}" if block.title and body else body


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _sentence(text: str) -> str:
    """With a capital at its beginning."""
    return text[:1].upper() + text[1:]


# -- the page, and the files

_VERDICTS: Final = {
    "holds": "holds", "deviates": "deviates", "aborted": "deviates", "shown": "dim", "open": "dim",
}  # fmt: skip
"""A verdict's class of colour; a cell of words that says nothing else has it."""


def html(report: Report) -> str:
    """The whole page."""
    return template("page.html").render(
        report=report,
        kind=_VERDICTS.get(report.verdict, "dim"),
        facts=_html(facts_markdown(report)),
        blocks=list(_blocks(report)),
    )


def _blocks(report: Report) -> Iterator[dict[str, str]]:
    """The markup of each block, and whether it is a chart's."""
    for block in report.shown:
        if isinstance(block, ReportChart):
            if markup := block.svg():
                yield {"kind": "chart", "title": block.title, "markup": markup}
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
def template(name: str) -> Template:
    """One of the files next to this; what is filled in is text and never markup."""
    from jinja2 import Environment

    made = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return made.from_string(Path(__file__).with_name(name).read_text(encoding="utf-8"))


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
    session: str | None,
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
