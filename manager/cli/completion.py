"""The command `completion`."""
# ruff: noqa: T201 - a program's output is printed

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Mapping, Sequence

from manager.cli.arguments import ArgumentParser, UsageError
from manager.cli.main import COMMANDS, command_named
from manager.operator import AnyOperator
from manager.program import Program

_DESCRIPTION = """\
Print what a shell reads to complete commands and flags, those of your operators too:

  source <(PROGRAM completion bash)      or zsh
  PROGRAM completion fish | source"""

_SHELLS = ("bash", "zsh", "fish")

_is_flag = re.compile(r"^  (?:-\w, )?(--[a-z-]+)", re.MULTILINE).findall


def completion(argv: Sequence[str], operators: Sequence[AnyOperator], program: Program) -> int:
    """Print it. The flags are those that the help of each command lists."""
    description = _DESCRIPTION.replace("PROGRAM", program.name)
    parser = ArgumentParser("completion", f"{program.name} completion bash|zsh|fish", description)
    _, asked = parser.read_with_operands(argv)
    if len(asked) != 1 or asked[0] not in _SHELLS:
        raise UsageError(f"completion: one of {', '.join(_SHELLS)} is expected, not {' '.join(asked)!r}")

    def flags(command: str, *of: str) -> Sequence[str]:
        told = io.StringIO()
        silent = contextlib.redirect_stdout(told), contextlib.redirect_stderr(io.StringIO())
        with silent[0], silent[1], contextlib.suppress(SystemExit):
            command_named(command)([*of, "--help"], operators, program)
        return _is_flag(told.getvalue())

    words: dict[str, Sequence[str]] = {name: flags(name) for name in COMMANDS}
    created = ("api", "webhook")
    words["create"] = [*created, *dict.fromkeys(flag for each in created for flag in flags("create", each))]
    print(_script(program.name, {**words, "completion": _SHELLS}, asked[0]), end="")
    return 0


def _script(program: str, words: Mapping[str, Sequence[str]], shell: str) -> str:
    """What a shell reads to complete a program's commands, and the `words` of each; files where none fits."""
    if shell == "fish":
        lines = [f"complete -c {program} -n __fish_use_subcommand -f -a '{' '.join(words)}'"]
        lines += [
            f"complete -c {program} -n '__fish_seen_subcommand_from {command}' -l {word.removeprefix('--')}"
            for command, known in words.items()
            for word in known
        ]
        return "\n".join([*lines, ""])
    function = f"_{program.replace('-', '_')}"
    cases = "".join(f"    {command}) words='{' '.join(known)}' ;;\n" for command, known in words.items())
    return (
        ("autoload -U +X bashcompinit && bashcompinit\n" if shell == "zsh" else "")
        + f"{function}() {{\n"
        + "  local words=\n  case ${COMP_WORDS[1]} in\n"
        + cases
        + f"  esac\n  [ \"$COMP_CWORD\" != 1 ] || words='{' '.join(words)} --help --version'\n"
        + '  COMPREPLY=($(compgen -W "$words" -- "${COMP_WORDS[COMP_CWORD]}"))\n'
        + f"}}\ncomplete -o default -F {function} {program}\n"
    )
