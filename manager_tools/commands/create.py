"""The command `create`."""
# ruff: noqa: T201 - a program's output is printed

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from manager.cli.arguments import ArgumentParser, UsageError
from manager.operator import AnyOperator
from manager.program import Program
from manager_tools.scaffold import Answers, Names, ScaffoldError, Written, create_api, create_webhook
from manager_tools.scaffold.names import plural_of
from manager_tools.scaffold.writing import beginnings, domain_of

_DESCRIPTION = """\
Add to the project in this folder: `create api` a kind, `create webhook` webhooks of a kind that is there.
Each has a --help of its own."""

_BACK = """

Nothing that is there already is overwritten; `git checkout . && git clean -fd apis controllers config tests`
takes all of it back."""

_API = f"""\
Add a kind to the project in this folder: model, operator, sample, test, list entry and generated
manifests.{_BACK}"""

_WEBHOOK = f"""\
Add methods to the operator of a kind, which answer what the API server asks, with a test of each sort and
generated manifests; and, to convert, another version of the kind.{_BACK}"""

_GROUP = "a word; the project's domain is appended, as in hello.example.com"
_KIND = "such as Greeting"


def create(argv: Sequence[str], operators: Sequence[AnyOperator], program: Program) -> int:
    """Write the files, and say which and what to do next; `operators` play no part."""
    del operators
    what, rest = (argv[0], argv[1:]) if argv else ("", [])
    if what not in {"api", "webhook"}:
        if {"-h", "--help"}.intersection(argv):
            usage = f"{program.name} create api|webhook [FLAGS]"
            ArgumentParser("create", usage, _DESCRIPTION).parse_args(["--help"])
        wrong = f"{what!r} cannot be created; " if what else ""
        raise UsageError(f"create: {wrong}the commands are create api and create webhook")
    try:
        written, following = (_api if what == "api" else _webhook)(rest, program)
    except ScaffoldError as error:
        raise UsageError(f"create {what}: {error}") from error
    for done, paths in (
        ("wrote", written.new),
        ("changed", written.changed),
        ("generated", written.generated),
    ):
        for path in paths:
            print(f"{done} {path}")
    tests = " ".join(str(path) for path in written.new if path.parts[0] == "tests")
    print(f"Next: {following}; then make generate, and .venv/bin/pytest {tests}.")
    return 0


def _api(argv: Sequence[str], program: Program) -> tuple[Written, str]:
    """What was written, and what to do next."""
    usage = f"{program.name} create api --group GROUP --version VERSION --kind KIND [FLAGS]"
    parser = ArgumentParser("create api", usage, _API)
    for flag, text in (
        ("--group", _GROUP),
        ("--version", "such as v1 or v1alpha1"),
        ("--kind", _KIND),
        ("--plural", "of the kind, where English makes it otherwise"),
    ):
        parser.add_argument(flag, metavar=flag[2:].upper(), help=text)
    scope = "its objects are in no namespace"
    parser.add_argument("--cluster-scoped", action="store_true", default=False, help=scope)
    kinds = f"{{{','.join(beginnings())}}}"
    parser.add_argument("--owns", metavar=kinds, help="begin with an operator that has a child of this kind")
    flags = parser.read(argv)
    for flag in ("--group", "--version", "--kind"):
        if not hasattr(flags, flag[2:]):
            parser.error(f"{flag} is needed")
    names = Names(
        program=program.name,
        domain=domain_of(Path()),
        group=flags.group,
        version=flags.version,
        kind=flags.kind,
        plural=getattr(flags, "plural", plural_of(flags.kind)),
    )
    owns = getattr(flags, "owns", None)
    written = create_api(Path(), names, cluster_scoped=flags.cluster_scoped, owns=owns)
    return written, (
        f"say in apis/{names.group}/{names.version}/{names.module}.py what users may write, and in "
        f"controllers/{names.group}/{names.module}.py what is done about it"
    )


def _webhook(argv: Sequence[str], program: Program) -> tuple[Written, str]:
    """What was written, and what to do next."""
    parser = ArgumentParser("create webhook", f"{program.name} create webhook --kind KIND [FLAGS]", _WEBHOOK)
    parser.add_argument("--kind", metavar="KIND", help=_KIND)
    parser.add_argument("--group", metavar="GROUP", default="", help="of the kind, where several have one")
    for flag, text in (
        ("--defaulting", "a method that changes objects before they are stored"),
        ("--validation", "methods that refuse objects, and changes of them"),
    ):
        parser.add_argument(flag, action="store_true", default=False, help=text)
    version = "another version of the kind, and methods that convert, such as v1beta1"
    parser.add_argument("--conversion", metavar="VERSION", default="", help=version)
    flags = parser.read(argv)
    if not hasattr(flags, "kind"):
        parser.error("--kind is needed")
    answers = Answers(flags.defaulting, flags.validation, flags.conversion)
    if not list(answers):
        parser.error("--defaulting, --validation or --conversion=VERSION is needed")
    written = create_webhook(Path(), flags.kind, answers, program=program.name, group=flags.group)
    [operator] = (path for path in written.changed if path.parts[0] == "controllers")
    models = (path for path in written.new if path.parts[0] == "apis" and path.name != "__init__.py")
    others = "".join(f"say in {path} what that version has otherwise, and " for path in models)
    return written, f"{others}write in {operator} what the new methods do"
