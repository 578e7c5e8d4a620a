"""Completion in the shell: the script that asks for it, and the words that fit where the cursor stands.

At each Tab the script runs this program with the line in its environment; argcomplete reads that and asks the
parser. No verb's module is imported, and Docker and servers are not asked.
"""

from __future__ import annotations

from argparse import Action, ArgumentParser
from pathlib import Path
from typing import TYPE_CHECKING, Final

from replexplorer.cli.arguments import PROGRAM, build_parser
from replexplorer.formats import paths

if TYPE_CHECKING:
    from replexplorer.cli.entry import Call


def script(call: Call) -> int:
    """Print what makes the shell ask for completions."""
    from argcomplete.shell_integration import shellcode

    call.console.print(shellcode([PROGRAM], shell=call.args.shell))
    return 0


def answer() -> None:
    """Print the words that fit for the shell whose line is in the environment, and end this process."""
    from argcomplete.completers import SuppressCompleter
    from argcomplete.finders import CompletionFinder

    CompletionFinder(default_completer=SuppressCompleter())(completing_parser())


def completing_parser() -> ArgumentParser:
    """The parser of all verbs; each argument says what may be typed there."""
    parser = build_parser()
    _give_words(parser)
    return parser


def _give_words(parser: ArgumentParser) -> None:
    """Say for each argument which words may stand there; argparse's own choices are known."""
    from argcomplete.completers import FilesCompleter

    for action in parser._actions:
        if isinstance(action.choices, dict):
            for child in action.choices.values():
                _give_words(child)
        elif (what := _what(parser, action)) in _FILES:
            action.completer = FilesCompleter()  # type: ignore[attr-defined]
        elif action.choices is None:
            action.completer = lambda prefix, what=what, **_: words(what, prefix)  # type: ignore[attr-defined]


def _what(parser: ArgumentParser, action: Action) -> str:
    """What an argument is: its metavar, and for a bare NAME whose."""
    name = action.metavar if isinstance(action.metavar, str) else ""
    return f"{parser.prog.split()[1]} NAME" if name == "NAME" and not action.option_strings else name


def words(what: str, prefix: str) -> list[str]:
    """What may stand for an argument, by what it is called in --help; nothing where anything may."""
    match what:
        case "KEY=VALUE" | "KEY=V1,V2,...":
            return knob_words(prefix)
        case "KEY":
            from replexplorer.core.knobs.catalogue import BY_KEY

            return [*BY_KEY]
        case "KIND[=VALUE][@NODE]" | "KIND[@NODE]":
            from replexplorer.core.fault import KINDS

            return [kind.key for kind in KINDS]
        case "lab NAME":
            return _stems(paths.shipped_labs(), paths.labs_directory())
        case "drill NAME":
            return _stems(paths.shipped_drills(), paths.drills_directory())
        case "scene NAME":
            from replexplorer.formats.scenes import shipped_directory

            return _stems(shipped_directory(), paths.scenes_directory())
        case "VERB":
            from replexplorer.cli.documents import documents

            return [*documents()]
    return []


def knob_words(prefix: str) -> list[str]:
    """Knobs as `KEY=`, and once that stands there the words that it takes."""
    from replexplorer.core.knobs.catalogue import BY_KEY

    key, equals, _ = prefix.partition("=")
    if not equals:
        return [f"{name}=" for name in BY_KEY]
    knob = BY_KEY.get(key.partition("@")[0])
    return [f"{key}={word}" for word in knob.choices] if knob is not None else []


def _stems(*directories: Path) -> list[str]:
    return [file.stem for directory in directories for file in paths.toml_files(directory)]


_FILES: Final = {"FILE", "DIR", "PATH"}
