"""Command-line parsing: one line per error, with a suggestion for a misspelt name."""

from __future__ import annotations

import argparse
import difflib
import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import NoReturn

__all__ = ["Command", "CommandLine"]

_WIDTHS = 60, 110
_SHELLS = ("bash", "zsh", "fish")
# zsh has completion off until a user configures it.
_ZSH = """\
(( $+functions[compdef] )) || { autoload -U +X compinit && compinit; }
autoload -U +X bashcompinit && bashcompinit
"""


class CommandLine:
    """The commands of a program."""

    def __init__(self, program: str, description: str, *, distribution: str) -> None:
        """Set up the command line; `distribution` is the package whose version `--version` prints."""
        self._program = program
        self._description = description
        self._distribution = distribution
        self._commands: dict[str, Command] = {}
        self._summaries: dict[str, str] = {}

    def add(self, name: str, summary: str, operands: str = "") -> Command:
        """Add a command without flags; `operands` are its other arguments, such as `ID...`."""
        usage = " ".join(filter(None, (self._program, name, operands, "[FLAGS]")))
        description = f"{summary[0].upper()}{summary[1:]}."
        command = self._commands[name] = Command(f"{self._program} {name}", usage, description)
        self._summaries[name] = summary
        return command

    def read(self, arguments: Sequence[str] | None) -> argparse.Namespace:
        """Parse the arguments; `command` is one of them. Help, version and errors raise `SystemExit`."""
        _open_standard_files()
        name, *rest = (sys.argv[1:] if arguments is None else arguments) or [""]
        if name in {"-h", "--help", "help"}:
            sys.stdout.write(self._help())
            raise SystemExit(0)
        if name == "--version":
            sys.stdout.write(f"{self._program} {self._version()}\n")
            raise SystemExit(0)
        if not name:
            sys.stderr.write(self._help())
            raise SystemExit(2)
        if name == "completion":
            self._complete(rest)
        if name not in self._commands:
            what = "flag" if name.startswith("-") else "command"
            known = f"; the commands are {', '.join((*self._commands, 'completion'))}, and --help"
            meant = _meant(name, [*self._commands, "completion", "--help", "--version"]) or known
            sys.stderr.write(f"{self._program}: unknown {what} {name!r}{meant}\n")
            raise SystemExit(2)
        given = self._commands[name].read(rest)
        given.command = name
        return given

    def _complete(self, arguments: Sequence[str]) -> NoReturn:
        asked = " ".join(arguments)
        if asked not in _SHELLS:
            sys.stderr.write(
                f"{self._program}: completion: one of {', '.join(_SHELLS)} is expected, not {asked!r}\n"
            )
            raise SystemExit(2)
        words = {name: command.flags() for name, command in self._commands.items()}
        values: dict[str, Sequence[str]] = {}
        for command in self._commands.values():
            values |= command.values()
        sys.stdout.write(_completion(self._program, {**words, "completion": _SHELLS}, values, asked))
        raise SystemExit(0)

    def _help(self) -> str:
        summaries = {
            **self._summaries,
            "completion": "print what bash, zsh or fish reads to complete all this",
        }
        commands = "\n".join(f"  {name:<15} {summary}" for name, summary in summaries.items())
        return (
            f"{self._description}\n\nUsage: {self._program} COMMAND [FLAGS]\n\nCommands:\n{commands}\n\n"
            f"{self._program} COMMAND --help explains one and its flags, --version prints the version.\n"
        )

    def _version(self) -> str:
        try:
            return version(self._distribution)
        except PackageNotFoundError:
            return "of sources that are not installed"


def _open_standard_files() -> None:
    """Open /dev/null for any missing stdin, stdout or stderr.

    Otherwise the first opened file or connection gets the number of a missing one, and receives all output.
    """
    if None not in (sys.stdin, sys.stdout, sys.stderr):
        return
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:  # noqa: PLR2004 - the descriptor of stderr
        pass
    os.close(number)
    sys.stdin = sys.stdin or os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8", closefd=False)


class Command(argparse.ArgumentParser):
    """The flags of one command."""

    def __init__(self, program: str, usage: str, description: str) -> None:
        super().__init__(
            prog=program, usage=usage, description=description, formatter_class=_Help, allow_abbrev=False
        )
        self._offered: dict[str, Sequence[str]] = {}

    def read(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Parse the arguments; an unknown one is an error."""
        given, rest = self.parse_known_args(arguments)
        for argument in rest:
            if not argument.startswith("-"):
                self.error(f"unexpected argument {argument!r}")
            flag = argument.partition("=")[0]
            self.error(f"unknown flag {flag!r}{_meant(flag, self.flags())}")
        return given

    def flags(self) -> list[str]:
        """Return the known flags in their long form."""
        names = [each for action in self._actions for each in action.option_strings]
        return [each for each in names if each.startswith("--")]

    def offer(self, flag: str, values: Sequence[str]) -> None:
        """Set a flag's completions (with `choices`, argparse would refuse other values in its own words)."""
        self._offered[flag] = values

    def values(self) -> dict[str, Sequence[str]]:
        """Return the completions of each flag that takes a value; empty where they are unknown."""
        taking = [name for each in self._actions if each.nargs != 0 for name in each.option_strings]
        return {name: self._offered.get(name, ()) for name in taking}

    def error(self, message: str) -> NoReturn:
        """End with one line."""
        self.exit(2, f"{self.prog.replace(' ', ': ')}: {message.removeprefix('argument ')}\n")


class _Help(argparse.HelpFormatter):
    def __init__(self, prog: str) -> None:
        width = min(max(shutil.get_terminal_size().columns, _WIDTHS[0]), _WIDTHS[1])
        super().__init__(prog, max_help_position=8, width=width)

    def _split_lines(self, text: str, width: int) -> list[str]:
        # A flag in the text stays in one piece.
        return textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False, break_long_words=False)

    def _get_help_string(self, action: argparse.Action) -> str:
        text = action.help or ""
        if "default" in text or not action.option_strings or action.dest == "help":
            return text
        if action.required:
            return f"{text} (needed)"
        default = "off" if action.nargs == 0 else action.default or "none"
        return f"{text} (default {default})"


def _completion(
    program: str, words: Mapping[str, Sequence[str]], values: Mapping[str, Sequence[str]], shell: str
) -> str:
    """Return the shell code that completes a program's commands, the `words` of each, and flag `values`.

    `values` has every flag that takes a value, with an empty sequence where its values are unknown: the shell
    then offers files.
    """
    if shell == "fish":
        lines = [f"complete -c {program} -n __fish_use_subcommand -f -a '{' '.join(words)}'"]
        lines += [
            f"complete -c {program} -n '__fish_seen_subcommand_from {command}' "
            + (f"-l {word.removeprefix('--')}" if word.startswith("--") else f"-f -a {word}")
            + (f" -x -a '{' '.join(values[word])}'" if values.get(word) else "")
            for command, known in words.items()
            for word in known
        ]
        return "\n".join([*lines, ""])
    function = f"_{program.replace('-', '_')}"
    registered = f"complete -o default -F {function} {program}\n"
    if shell == "zsh":  # zsh completes files after `=` only with this
        registered = (
            f"{function}_in_zsh() {{ compset -P 1 '--*='; _bash_complete -o default -F {function}; }}\n"
            f"compdef {function}_in_zsh {program}\n"
        )
    cases = "".join(f"    {command}) words='{' '.join(known)}' ;;\n" for command, known in words.items())
    given = "".join(f"    {flag}) words='{' '.join(known)}' ;;\n" for flag, known in values.items() if known)
    given += f"    {'|'.join(flag for flag, known in values.items() if not known)}) words= ;;\n"
    return (
        (_ZSH if shell == "zsh" else "")
        + f"{function}() {{\n"
        + "  local words= before=${COMP_WORDS[COMP_CWORD-1]} typed=${COMP_WORDS[COMP_CWORD]}\n"
        + "  case ${COMP_WORDS[1]} in\n"
        + cases
        + f"  esac\n  [ \"$COMP_CWORD\" != 1 ] || words='{' '.join(words)} --help --version'\n"
        # Of `--flag=value`, the sign is a word too, or all of it is one.
        + '  [ "$before" != = ] || before=${COMP_WORDS[COMP_CWORD-2]}\n'
        + '  [ "$typed" != = ] || typed=\n'
        + "  case $typed in --*=*) before=${typed%%=*} typed=${typed#*=} ;; esac\n"
        + f"  case $before in\n{given}  esac\n"
        + '  COMPREPLY=($(compgen -W "$words" -- "$typed"))\n'
        + f"}}\n{registered}"
    )


def _meant(word: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {close[0]}?" if close else ""
