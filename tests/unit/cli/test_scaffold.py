"""`init` and `create api`: what they write works, and what cannot be written is told in one line."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from manager.cli import main
from manager.scaffold import Names
from manager.scaffold.names import plural_of
from manager.scaffold.writing import with_operator
from tests.support.dockerfile import ROOT
from tests.unit.cli.conftest import Command

CREATE = ("create", "api", "--group=store", "--version=v1beta1", "--kind=Company")


@pytest.fixture(scope="session")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project as `init` makes it; not to be changed."""
    folder = tmp_path_factory.mktemp("scaffold") / "shop"
    argv = ("init", str(folder), "--domain=acme.test")
    assert main(argv, (), name="operator-manager", version="1") == 0
    return folder


@pytest.fixture
def project(begun: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, in which the command runs."""
    folder = tmp_path / "shop"
    shutil.copytree(begun, folder, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.chdir(folder)
    return folder


def files(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in folder.rglob("*")
        if path.is_file() and not {"__pycache__", ".git"}.intersection(path.parts)
    }


def done(folder: Path, *command: str) -> str:
    """What a command in the project prints, with the library of this repository."""
    environ = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}", "NO_COLOR": "1"}
    environ = {name: value for name, value in environ.items() if not name.startswith("PYTEST_")}
    ran = subprocess.run(
        command, cwd=folder, env=environ, capture_output=True, text=True, timeout=240, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def python(folder: Path, *module: str) -> str:
    return done(folder, sys.executable, "-m", *module)


def test_a_project_with_kinds_added_passes_its_style_types_tests_and_demo(command: Command, project: Path):
    assert command(*CREATE, "--owns=Deployment", "--cluster-scoped").code == 0
    assert command("create", "api", "--group=hello", "--version=v2", "--kind=Box").code == 0
    python(project, "ruff", "check", ".")
    python(project, "ruff", "format", "--check", ".")
    python(project, "mypy")
    python(project, "controllers.main", "generate", "--check")
    assert "3 passed" in python(project, "pytest", "-q", "-p", "no:randomly", "-p", "no:cacheprovider")
    shown = done(project, sys.executable, "demo.py")
    assert "Company company-sample: Ready=True AsWanted: 2 of 2 pods are ready\n" in shown
    assert "Greeting greeting-sample: Ready=True AsWanted: 2 of 2 are there\n" in shown


def test_what_is_written_is_listed_and_git_takes_it_back(command: Command, project: Path):
    before = files(project)
    git = ("git", "-c", "user.name=me", "-c", "user.email=me@example.com")
    done(project, *git, "init", "-q")
    done(project, *git, "add", ".")
    done(project, *git, "commit", "-qm", "begun")
    told = command(*CREATE).out.splitlines()
    after = files(project)
    changed = {name for name, text in after.items() if before.get(name) != text}
    listed = [line.split(" ", 1)[1] for line in told if line.startswith(("wrote ", "changed ", "generated "))]
    assert sorted(listed) == sorted(changed)
    assert "    CompanyOperator,\n" in after["controllers/main.py"]
    assert "store.acme.test/v1beta1" in after["config/samples/store_v1beta1_company.yaml"]
    assert "config/crd/bases/store.acme.test_companies.yaml" in changed
    assert told[-1].startswith("Next: ")
    done(project, *git, "checkout", "-q", ".")
    done(project, *git, "clean", "-fdq", "apis", "controllers", "config", "tests")
    assert files(project) == before


def test_an_api_can_be_created_in_this_repository(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for name in ("apis", "controllers", "config"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    monkeypatch.chdir(tmp_path)
    outcome = command(*CREATE, "--owns=Deployment")
    assert outcome.code == 0, outcome.err
    assert "changed pyproject.toml\n" in outcome.out  # the layers of import-linter
    python(tmp_path, "controllers.main", "generate", "--check")
    python(tmp_path, "ruff", "check", "apis", "controllers", "tests")
    python(tmp_path, "ruff", "format", "--check", "apis", "controllers", "tests")


def test_nothing_that_is_there_is_overwritten(command: Command, project: Path):
    (project / "tests" / "test_company.py").write_text("# mine\n")
    before = files(project)
    for argv, there in (
        (CREATE, "tests/test_company.py is there already, and is not overwritten"),
        (
            ("create", "api", "--group=a", "--version=v1", "--kind=Greeting"),
            "controllers/main.py has an operator GreetingOperator already",
        ),
        (("init", ".", "--domain=acme.test"), " is there already, and is not overwritten"),
    ):
        outcome = command(*argv)
        assert (outcome.code, outcome.out, outcome.err.count("\n")) == (2, "", 1)
        assert there in outcome.err
    assert files(project) == before


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (("init",), "init: the folder and the domain are needed, as in init DIR --domain=example.com"),
        (("init", "new"), "init: the folder and the domain are needed"),
        (("init", "new", "other", "--domain=a.b"), "init: unexpected argument 'other'"),
        (("init", "new", "--domian=a.b"), "init: unknown flag '--domian'; did you mean --domain?"),
        (("init", "new", "--domain"), "init: --domain needs a value, as in --domain=VALUE"),
        (("init", "new", "--domain=Acme"), "init: invalid value 'Acme' for --domain: "),
        (("init", "My Shop", "--domain=a.b"), "init: 'My Shop' cannot name a program"),
        (("init", "pyproject.toml/new", "--domain=a.b"), "init: pyproject.toml/new"),
        (("create",), "create: create api is what there is"),
        (("create", "thing"), "create: 'thing' cannot be created; create api is what there is"),
        (("create", "api", "--version=v1", "--kind=A"), "create api: --group is needed"),
        ((*CREATE, "--group=a.b"), "create api: invalid value 'a.b' for --group: "),
        ((*CREATE, "--group=import"), "create api: invalid value for --group: 'import' is a word of Python"),
        ((*CREATE, "--version=1"), "create api: invalid value '1' for --version: "),
        ((*CREATE, "--kind=company"), "create api: invalid value 'company' for --kind: "),
        ((*CREATE, "--kind=Class"), "create api: invalid value for --kind: 'class' is a word of Python"),
        ((*CREATE, "--plural=A B"), "create api: invalid value 'A B' for --plural: "),
        ((*CREATE, "--owns=Widget"), "create api: --owns Widget: there is a beginning for Deployment; "),
        ((*CREATE, "--cluster"), "create api: unknown flag '--cluster'; did you mean --cluster-scoped?"),
    ],
)
def test_what_cannot_be_is_told_in_one_line(
    command: Command, project: Path, argv: tuple[str, ...], expected: str
):
    before = files(project)
    outcome = command(*argv)
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert outcome.err.startswith(f"operator-manager: {expected}")
    assert files(project) == before


def test_a_folder_that_is_no_project_is_told_in_one_line(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    outcome = command(*CREATE)
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)
    assert "this folder is no project: controllers/main.py is expected" in outcome.err


@pytest.mark.parametrize(
    ("there", "then"),
    [
        (
            "OPERATORS = (GreetingOperator,)",
            "OPERATORS = (\n    GreetingOperator,\n    CompanyOperator,\n)\n",
        ),
        (
            "OPERATORS = (\n    GreetingOperator,\n)",
            "OPERATORS = (\n    GreetingOperator,\n    CompanyOperator,\n)\n",
        ),
        (
            "OPERATORS: tuple[object, ...] = ()",
            "OPERATORS: tuple[object, ...] = (\n    CompanyOperator,\n)\n",
        ),
    ],
)
def test_the_list_may_be_written_in_each_way_that_a_formatter_leaves(project: Path, there: str, then: str):
    path = project / "controllers" / "main.py"
    main_module = path.read_text()
    assert "OPERATORS = (GreetingOperator,)\n" in main_module
    names = Names(program="shop", domain="acme.test", group="store", version="v1", kind="Company")
    written = with_operator(main_module.replace("OPERATORS = (GreetingOperator,)", there), names)
    assert then in written
    assert "from controllers.store.company import CompanyOperator\nfrom manager.cli" in written


@pytest.mark.parametrize("code", ["OPERATORS = [*MINE]\n", "import sys\nOPERATORS = tuple(found())\n"])
def test_a_list_that_nothing_can_be_added_to_is_told_in_one_line(command: Command, project: Path, code: str):
    (project / "controllers" / "main.py").write_text(code)
    before = files(project)
    outcome = command(*CREATE)
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)
    assert "controllers/main.py has no list to add to" in outcome.err
    assert files(project) == before


def test_a_program_that_fails_to_generate_is_told_with_its_reason(command: Command, project: Path):
    (project / "controllers" / "hello" / "greeting.py").write_text("raise ValueError('broken')\n")
    outcome = command(*CREATE)
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)
    assert "generate` fails: ValueError: broken" in outcome.err


def test_names_that_are_those_of_the_template_are_not_taken_for_them():
    names = Names(program="hello", domain="greeting.v1", group="greeting", version="v2", kind="Hello")
    text = "hello greeter hello.example.com/v1 Greeting GreetingSpec greetings test_greeting apps_v1"
    assert names.in_place(text) == (
        "greeting hello greeting.greeting.v1/v2 Hello HelloSpec greetings test_hello apps_v1"
    )


@pytest.mark.parametrize(
    ("kind", "plural"),
    [
        ("Greeting", "greetings"),
        ("Company", "companies"),
        ("Key", "keys"),
        ("Box", "boxes"),
        ("Ingress", "ingresses"),
        ("Patch", "patches"),
        ("Y", "ys"),
    ],
)
def test_plurals_are_those_of_english(kind: str, plural: str):
    assert plural_of(kind) == plural
