"""What `make check` looks for in our texts and names, which no linter knows.

`python -m tests.style` prints each place and fails where there is one.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Iterator

from tests.program_texts import ROOT, texts_in

UNCLEAR = re.compile(
    r"\banew\b|\bso many\b|\bof ours\b|nobody looked|come what may|drives no more|\btaken back\b"
    r"|\bgiven back\b|told, not asserted|at every look|wait if alone|\btells? (more|what)\b",
    re.IGNORECASE,
)
"""What people do not read on the screen, in an error or on a page."""

GONE = re.compile(
    r"\breckon|\bmend(s|ed|ing)?\b|\bseldom\b|\bwhoever\b|\bnobody\b|\bsomebody\b|(?<!--)\bbeside\b"
    r"|\bgoes on\b|\b(is|are) told\b|\bstands (there|beside)\b|\bnot let in\b|\ball the same\b|\bcolours?\b"
    r"|\bflavours?\b(?!\.py)|(?<!there )\b(is|are) no (?!longer|more)",
    re.IGNORECASE,
)
"""Words that were taken out of what users read and must not come back; docstrings may still have some."""
IDIOM = re.compile(
    r"(?<!`)\banew\b(?!`)|\bso many\b|nobody looked|come what may|\bgiven back\b|\bshall\b"
    r"|^(Draw|Forget|End) it\.$",
    re.IGNORECASE,
)
"""What docstrings do not say either, nor that alone."""

CLASS = re.compile(r"^class ([A-Za-z]\w*)", re.MULTILINE)
PACKAGE = ROOT / "replexplorer"
JSON = PACKAGE / "formats" / "json"
"""A verb's JSON may be called as the thing that it shows."""


def unclear_texts() -> Iterator[str]:
    """Where a text of the program or a page is not said plainly."""
    for module, texts in texts_in("replexplorer").items():
        for text in texts:
            is_plain = not (IDIOM if text.is_prose else UNCLEAR).search(text.value)
            if is_plain and not text.is_prose and " " in text.value:
                is_plain = not GONE.search(text.value)
            if not is_plain:
                yield f"replexplorer/{module}:{text.line}: say it plainly: {text.value}"
    pages = (ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md")))
    files = (file for room in (PACKAGE, ROOT / "themes") for file in sorted(room.rglob("*.toml")))
    for page in (*pages, *files):
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
            said = line.partition("=")[2] if page.suffix == ".toml" else line
            if UNCLEAR.search(said) or GONE.search(said):
                yield f"{page.relative_to(ROOT)}:{number}: say it plainly: {line}"


def names_of_two_things() -> Iterator[str]:
    """Public classes at the top of two modules that have the same name."""
    found = defaultdict(list)
    for file in sorted(PACKAGE.rglob("*.py")):
        if not file.is_relative_to(JSON):
            for name in CLASS.findall(file.read_text(encoding="utf-8")):
                found[name].append(str(file.relative_to(ROOT)))
    for name, files in found.items():
        if len(files) > 1:
            yield f"{', '.join(files)}: two classes {name}"


if __name__ == "__main__":
    places = [*unclear_texts(), *names_of_two_things()]
    print(*places, sep="\n", end="\n" * bool(places))
    sys.exit(bool(places))
