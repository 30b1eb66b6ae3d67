"""The command `completion`."""
# ruff: noqa: T201 - a program's output is printed

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Mapping, Sequence
from typing import get_args

from manager.cli.arguments import ArgumentParser, UsageError
from manager.cli.commands import Command
from manager.cli.main import all_commands
from manager.cli.settings import WebhookCertificates
from manager.logs import LogFormat, LogLevel
from manager.operator import AnyOperator
from manager.program import Program

_DESCRIPTION = """\
Print what a shell reads to complete commands and flags, those of your operators too:

  source <(PROGRAM completion bash)      or zsh
  PROGRAM completion fish | source"""

_SHELLS = ("bash", "zsh", "fish")

_flag = re.compile(
    r"^  (?:(-\w)(?: \S+)?, )?(--[a-z-]+)(?: \{(?P<choices>[\w,]+)\}|(?P<takes> [^\[\s]))?", re.MULTILINE
)


def completion(argv: Sequence[str], operators: Sequence[AnyOperator], program: Program) -> int:
    """Print it. The flags are those that the help of each command lists."""
    description = _DESCRIPTION.replace("PROGRAM", program.name)
    parser = ArgumentParser("completion", f"{program.name} completion bash|zsh|fish", description)
    _, asked = parser.read_with_operands(argv)
    if len(asked) != 1 or asked[0] not in _SHELLS:
        raise UsageError(f"completion: one of {', '.join(_SHELLS)} is expected, not {' '.join(asked)!r}")

    values = _values(operators)

    def flags(command: Command, *of: str) -> Sequence[str]:
        told = io.StringIO()
        silent = contextlib.redirect_stdout(told), contextlib.redirect_stderr(io.StringIO())
        with silent[0], silent[1], contextlib.suppress(SystemExit):
            command.load()([*of, "--help"], operators, program)
        found = [*_flag.finditer(told.getvalue())]
        for flag in found:
            if flag["choices"]:
                values[flag[2]] = flag["choices"].split(",")
            elif flag["takes"]:
                values.update({name: () for name in flag.groups()[:2] if name and name not in values})
        return [flag[2] for flag in found]

    words: dict[str, Sequence[str]] = {}
    for name, command in all_commands().items():
        words[name] = command.subcommands or flags(command)
        words |= {f"{name} {each}": flags(command, each) for each in command.subcommands}
    words["completion"] = _SHELLS
    print(_script(program.name, words, values, asked[0]), end="")
    return 0


def _values(operators: Sequence[AnyOperator]) -> dict[str, Sequence[str]]:
    """What a flag may be given, where that is known."""
    names = [operator.name for operator in operators]
    kinds = {kind.gvk.kind: None for operator in operators for kind in operator.kinds()}
    return {
        "--controllers": names,
        "--operator": names,
        "--kind": [*kinds],
        "--log-level": get_args(LogLevel),
        "--log-format": get_args(LogFormat),
        "--webhook-certificates": get_args(WebhookCertificates),
    }


# Completion is off in a zsh that nobody has configured.
_ZSH = """\
(( $+functions[compdef] )) || { autoload -U +X compinit && compinit; }
autoload -U +X bashcompinit && bashcompinit
"""

# What stands behind the sign is completed, as bash does by itself.
_REGISTERED = {
    "bash": "complete -o default -F FUNCTION PROGRAM\n",
    "zsh": """\
FUNCTION_in_zsh() { compset -P 1 '--*='; _bash_complete -o default -F FUNCTION; }
compdef FUNCTION_in_zsh PROGRAM
""",
}


def _script(
    program: str, words: Mapping[str, Sequence[str]], values: Mapping[str, Sequence[str]], shell: str
) -> str:
    """What a shell reads to complete commands, the `words` of each, and `values`; files where none fits.

    What a flag may be given is not always known: then there are no `values` of it, but it is among them.
    """
    commands = " ".join(command for command in words if " " not in command)
    if shell == "fish":
        lines = [
            f"complete -c {program} -n __fish_use_subcommand -f -a '{commands}'",
            f"complete -c {program} -n __fish_use_subcommand -l help",
            f"complete -c {program} -n __fish_use_subcommand -l version",
        ]
        for command, known in words.items():
            told = "; and ".join(f"__fish_seen_subcommand_from {each}" for each in command.split())
            for word in known:
                if not word.startswith("--"):
                    what = f"-f -a {word}"
                else:
                    what = f"-l {word.removeprefix('--')}"
                    what += f" -x -a '{' '.join(values[word])}'" if values.get(word) else ""
                lines.append(f"complete -c {program} -n '{told}' {what}")
        return "\n".join([*lines, ""])
    function = f"_{program.replace('-', '_')}"
    cases = "".join(f"    '{command}') words='{' '.join(known)}' ;;\n" for command, known in words.items())
    given = "".join(f"    {flag}) words='{' '.join(known)}' ;;\n" for flag, known in values.items() if known)
    given += f"    {'|'.join(flag for flag, known in values.items() if not known)}) words= ;;\n"
    return (
        (_ZSH if shell == "zsh" else "")
        + f"{function}() {{\n"
        + "  local words= of=${COMP_WORDS[1]}\n"
        + "  local before=${COMP_WORDS[COMP_CWORD-1]} typed=${COMP_WORDS[COMP_CWORD]}\n"
        + '  [ "$of" != create ] || [ "$COMP_CWORD" = 2 ] || of="$of ${COMP_WORDS[2]}"\n'
        + "  case $of in\n"
        + cases
        + f"  esac\n  [ \"$COMP_CWORD\" != 1 ] || words='{commands} --help --version'\n"
        # Of `--flag=value`, the sign is a word too, or all of it is one.
        + '  [ "$before" != = ] || before=${COMP_WORDS[COMP_CWORD-2]}\n'
        + '  [ "$typed" != = ] || typed=\n'
        + "  case $typed in --*=*) before=${typed%%=*} typed=${typed#*=} ;; esac\n"
        + "  case $before in\n"
        + given
        + "  esac\n"
        + '  COMPREPLY=($(compgen -W "$words" -- "$typed"))\n'
        + "}\n"
        + _REGISTERED[shell].replace("FUNCTION", function).replace("PROGRAM", program)
    )
