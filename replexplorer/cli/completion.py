"""Completion in the shell: the script that asks for it, and the words that fit where the cursor stands.

At each Tab the script runs this program with the line in its environment; argcomplete reads that and asks the
parser. Of the verbs' modules only that of the typed one is imported. Docker and servers are not asked.
"""

from __future__ import annotations

import os
import shlex
from argparse import Action, ArgumentParser
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from replexplorer.cli.arguments import PROGRAM, build_parser, verbs_typed
from replexplorer.core.errors import UsageError
from replexplorer.formats import paths

if TYPE_CHECKING:
    from replexplorer.cli.entry import Call

SHELLS: Final = ("bash", "zsh", "fish", "tcsh")


def script_arguments(parser: ArgumentParser) -> None:
    """Whose script."""
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help="bash, zsh, fish or tcsh")


def script(call: Call) -> int:
    """Print what makes the shell ask for completions."""
    from argcomplete.shell_integration import shellcode

    call.console.print(shellcode([PROGRAM], shell=call.args.shell))
    return 0


def answer() -> None:
    """Print the words that fit for the shell whose line is in the environment, and end this process."""
    from argcomplete.completers import SuppressCompleter
    from argcomplete.finders import CompletionFinder

    parser = build_parser()
    with suppress(UsageError, ValueError):  # a flag or a quote that is not ended yet: ask all verbs
        words = shlex.split(os.environ.get("COMP_LINE", ""))
        parser = build_parser(verbs_typed(words[1:]))
    _give_words(parser)
    CompletionFinder(default_completer=SuppressCompleter())(parser)


def _give_words(parser: ArgumentParser) -> None:
    """Say for each argument which words may stand there; argparse's own choices are known."""
    from argcomplete.completers import FilesCompleter

    for action in parser._actions:
        if isinstance(action.choices, dict):
            for child in action.choices.values():
                _give_words(child)
        elif (what := _what(parser, action)) in _FILES:
            action.completer = FilesCompleter()  # type: ignore[attr-defined]
        elif action.choices is None and (words := _WORDS.get(what)):
            action.completer = lambda prefix, words=words, **_: words(prefix)  # type: ignore[attr-defined]


def _what(parser: ArgumentParser, action: Action) -> str:
    """What an argument is: its metavar, and for a bare NAME whose."""
    name = action.metavar if isinstance(action.metavar, str) else ""
    return f"{parser.prog.split()[1]} NAME" if name == "NAME" and not action.option_strings else name


def knob_words(prefix: str) -> dict[str, str]:
    """Knobs as `KEY=`, and once that stands there the words that it takes; each with what it is for."""
    from replexplorer.core.knobs.catalogue import BY_KEY, CATALOGUE

    key, equals, _ = prefix.partition("=")
    if not equals:
        return {f"{knob.key}=": knob.help for knob in CATALOGUE}
    knob = BY_KEY.get(key.partition("@")[0])
    return {f"{key}={word}": knob.help for word in knob.choices} if knob is not None else {}


def _keys(_: str) -> dict[str, str]:
    from replexplorer.core.knobs.catalogue import CATALOGUE

    return {knob.key: knob.help for knob in CATALOGUE}


def _faults(_: str) -> dict[str, str]:
    from replexplorer.core.fault import KINDS

    return {kind.key: kind.does for kind in KINDS}


def _labs(_: str) -> dict[str, str]:
    from replexplorer.engine.experiment.labs import LABS

    return {name: lab.title for name, lab in LABS.items()} | _own(paths.labs_directory())


def _drills(_: str) -> dict[str, str]:
    from replexplorer.cli.own_drills import shipped_drills

    return {name: drill.title for name, drill in shipped_drills().items()} | _own(paths.drills_directory())


def _scenes(_: str) -> dict[str, str]:
    from replexplorer.formats.scenes import SHIPPED

    return dict.fromkeys(SHIPPED, "a scene that ships") | _own(paths.scenes_directory())


def _documents(_: str) -> dict[str, str]:
    from replexplorer.formats.json.schema import DOCUMENTS

    return dict.fromkeys(DOCUMENTS, "")


def _own(directory: Path) -> dict[str, str]:
    return {file.stem: str(file) for file in paths.toml_files(directory)}


_WORDS: Final[dict[str, Callable[[str], dict[str, str]]]] = {
    "KEY=VALUE": knob_words,
    "KEY=V1,V2,...": knob_words,
    "KEY": _keys,
    "KIND[=VALUE][@NODE]": _faults,
    "KIND[@NODE]": _faults,
    "lab NAME": _labs,
    "drill NAME": _drills,
    "scene NAME": _scenes,
    "VERB": _documents,
}
"""Words by what the argument is called in --help."""
_FILES: Final = {"FILE", "DIR", "PATH"}
