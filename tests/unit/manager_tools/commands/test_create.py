"""`init` and `create`: the generated files work, and a failure is one line."""

from __future__ import annotations

import importlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from manager.api import ObjectMeta
from manager.cli import main
from manager.util.program import Program
from manager.util.yaml_text import yaml_documents, yaml_stream
from manager_tools.codegen import namespaces
from manager_tools.scaffold import Names
from manager_tools.scaffold.project.apis.hello.v1.greeting import Greeting
from manager_tools.scaffold.project.demo import is_ready
from manager_tools.scaffold.writing import beginnings, plural_of, with_import, with_members, with_operator
from manager_tools.testing import operated
from tests.support import ROOT
from tests.support.settings import parse_flags
from tests.support.tilt import Tilt, TiltfileFailed
from tests.unit.cli.conftest import Command

CREATE = ("create", "api", "--group=store", "--version=v1beta1", "--kind=Company")
WEBHOOK = ("create", "webhook", "--kind=Greeting")
EVERY = ("--defaulting", "--validation", "--conversion=v2")
OURS = frozenset({"apis", "controllers", "manager"})


@pytest.fixture(scope="session")
def new_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a project with `init`; tests must not change it."""
    folder = tmp_path_factory.mktemp("scaffold") / "shop"
    argv = ("init", str(folder), "--domain=acme.test")
    assert main(argv, (), name="operator-manager", version="1") == 0
    return folder


@pytest.fixture
def project(new_project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Copy the project, and enter the copy."""
    folder = tmp_path / "shop"
    shutil.copytree(new_project, folder, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.chdir(folder)
    return folder


def files(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_bytes().decode(errors="replace")
        for path in folder.rglob("*")
        if path.is_file() and not {"__pycache__", ".git"}.intersection(path.parts)
    }


def done(folder: Path, *command: str) -> str:
    """Run a command in the project with this repository's library; return its output."""
    environ = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}", "NO_COLOR": "1"}
    environ = {name: value for name, value in environ.items() if not name.startswith("PYTEST_")}
    ran = subprocess.run(
        command, cwd=folder, env=environ, capture_output=True, text=True, timeout=600, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def python(folder: Path, *module: str) -> str:
    return done(folder, sys.executable, "-m", *module)


@pytest.mark.whole
@pytest.mark.timeout(900)  # 30 s of CPU in child processes, which a busy machine slows down
def test_project_with_added_kinds_passes_its_style_types_tests_and_demo(command: Command, project: Path):
    assert command(*CREATE, "--owns=Deployment", "--cluster-scoped").code == 0
    assert command("create", "api", "--group=hello", "--version=v2", "--kind=Box", "--owns=Secret").code == 0
    tenant = ("--group=store", "--version=v1", "--kind=Tenant", "--owns=Namespace", "--cluster-scoped")
    assert command("create", "api", *tenant).code == 0
    assert command(*WEBHOOK, *EVERY).code == 0
    # Both kinds in turn, the stored version later than the other one.
    for more in ("--validation", "--conversion=v1", "--conversion=v1alpha1"):
        assert command("create", "webhook", "--kind=Company", more).code == 0
    [path] = (project / "config/crd/bases").glob("*_companies.yaml")
    definition = yaml.safe_load(path.read_text())
    schemas = [each["schema"]["openAPIV3Schema"] for each in definition["spec"]["versions"]]
    rules = [schema["x-kubernetes-validations"] for schema in schemas]
    assert len(rules) == 3
    assert all(each == rules[0] for each in rules), "the limit of the names"
    vendor = str(ROOT / "tests/unit/manager_tools/codegen/installation.yaml")
    assert command("model", "--from", vendor, "--output=apis/hello/v2/installation.py").code == 0
    python(project, "ruff", "check", ".")
    python(project, "ruff", "format", "--check", ".")
    python(project, "mypy")
    python(project, "controllers.main", "generate", "--check")
    assert "14 passed" in python(project, "pytest", "-q", "-p", "no:randomly", "-p", "no:cacheprovider")
    samples = project / "config/samples"
    sample = (samples / "hello_v1_greeting.yaml").read_text()
    sample = sample.replace("hello.acme.test/v1", "hello.acme.test/v2").replace("greeting-sample", "newer")
    (samples / "hello_v2_greeting.yaml").write_text(sample)
    shown = done(project, sys.executable, "demo.py")
    assert "Greeting newer: Ready=True AsWanted: 2 of 2 are there\n" in shown
    assert "Greeting newer: deleted\n" in shown
    assert "Company company-sample: Ready=True AsWanted: 2 of 2 pods are ready\n" in shown
    assert "Greeting greeting-sample: Ready=True AsWanted: 2 of 2 are there\n" in shown


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (
            CREATE,
            {
                "controllers/main.py": "    CompanyOperator,\n",
                "config/samples/store_v1beta1_company.yaml": "store.acme.test/v1beta1",
                "config/crd/bases/store.acme.test_companies.yaml": "kind: Company",
            },
        ),
        (
            (*WEBHOOK, *EVERY),
            {
                "apis/hello/v2/greeting.py": "storage=False",
                "config/crd/bases/hello.acme.test_greetings.yaml": "strategy: Webhook",
                "config/default/kustomization.yaml": "\n- ../webhook\n",
                "config/webhook/manifests.yaml": "/validate-hello-acme-test-v1-greeting",
            },
        ),
    ],
    ids=["api", "webhook"],
)
def test_create_lists_every_file_it_writes_and_git_reverts_them(
    command: Command, project: Path, argv: tuple[str, ...], expected: dict[str, str]
):
    before = files(project)
    git = ("git", "-c", "user.name=me", "-c", "user.email=me@example.com")
    done(project, *git, "init", "-q")
    done(project, *git, "add", ".")
    done(project, *git, "commit", "-qm", "new_project")
    told = command(*argv).out.splitlines()
    after = files(project)
    changed = {name for name, text in after.items() if before.get(name) != text}
    listed = [line.split(" ", 1)[1] for line in told if line.startswith(("wrote ", "changed ", "generated "))]
    assert sorted(listed) == sorted(changed)
    assert {name for name, text in expected.items() if text not in after[name]} == set()
    assert changed >= set(expected)
    assert told[-1].startswith("Next: ")
    done(project, *git, "checkout", "-q", ".")
    done(project, *git, "clean", "-fdq", "apis", "controllers", "config", "tests")
    assert files(project) == before


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Copy this repository's own files, and enter the copy."""
    for name in ("apis", "controllers", "config", "petstore"):
        shutil.copytree(ROOT / name, tmp_path / name)  # with what is compiled
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.whole
def test_create_adds_an_api_and_webhooks_to_this_repository(command: Command, repository: Path):
    outcome = command(*CREATE, "--owns=Deployment")
    assert outcome.code == 0, outcome.err
    assert "changed pyproject.toml\n" in outcome.out  # the layers of import-linter
    for kind, flags in {
        "Foo": EVERY,
        "Memcached": ("--defaulting", "--conversion=v2"),
        "Pet": ("--conversion=v2",),
    }.items():
        outcome = command("create", "webhook", f"--kind={kind}", *flags)
        assert outcome.code == 0, outcome.err
    python(repository, "controllers.main", "generate", "--check")
    python(repository, "ruff", "check", "apis", "controllers", "tests")
    python(repository, "ruff", "format", "--check", "apis", "controllers", "tests")
    tests = python(repository, "pytest", "-q", "-p", "no:cacheprovider", "--ignore=tests/test_company.py")
    assert "6 passed" in tests


def test_scaffold_overwrites_no_existing_file_or_operator(command: Command, project: Path):
    for mine in ("test_company.py", "test_greeting_validation.py"):
        (project / "tests" / mine).write_text("# mine\n")
    before = files(project)
    for argv, there in (
        (CREATE, "tests/test_company.py exists already, and is not overwritten"),
        (
            ("create", "api", "--group=a", "--version=v1", "--kind=Greeting"),
            "controllers/main.py has an operator GreetingOperator already",
        ),
        ((*WEBHOOK, "--validation"), "tests/test_greeting_validation.py exists already"),
        (("init", ".", "--domain=acme.test"), " exists already, and is not overwritten"),
    ):
        assert there in command(*argv).refusal()
    assert files(project) == before


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (("init",), "init: Missing argument 'DIR'."),
        (("init", "new"), "init: Missing option '--domain'."),
        (("init", "new", "other", "--domain=a.b"), "init: Got unexpected extra argument (other)"),
        (("init", "new", "--domian=a.b"), "init: No such option '--domian'. Did you mean '--domain'?"),
        (("init", "new", "--domain"), "init: Option '--domain' requires an argument."),
        (("init", "new", "--domain=Acme"), "init: invalid value 'Acme' for --domain: "),
        (("init", "My Shop", "--domain=a.b"), "init: 'My Shop' cannot name a program"),
        (("init", "new", "--renew"), "init: new/requirements.txt: No such file or directory"),
        (("init", ".", "--renew", "--name=a"), "init: --renew goes without --domain and --name"),
        (("init", "pyproject.toml/new", "--domain=a.b"), "init: pyproject.toml/new"),
        (("create", "thing"), "create: No such command 'thing'."),
        (("create", "api", "--version=v1", "--kind=A"), "create api: Missing option '--group'."),
        ((*CREATE, "--group=a.b"), "create api: invalid value 'a.b' for --group: "),
        ((*CREATE, "--group=import"), "create api: invalid value for --group: 'import' is a Python keyword"),
        ((*CREATE, "--version=1"), "create api: invalid value '1' for --version: "),
        ((*CREATE, "--kind=company"), "create api: invalid value 'company' for --kind: "),
        ((*CREATE, "--kind=Class"), "create api: invalid value for --kind: 'class' is a Python keyword"),
        ((*CREATE, "--kind=None"), "create api: invalid value for --kind: 'None' is a Python keyword"),
        (
            (*CREATE, "--kind=Context"),
            "create api: --kind Context: that is the name of something else in cont",
        ),
        ((*CREATE, "--kind=Secret", "--owns=Secret"), "create api: --kind Secret: that is the name of some"),
        ((*CREATE, "--kind=Operator"), "create api: --kind Operator: that is the name of something"),
        ((*CREATE, "--plural=A B"), "create api: invalid value 'A B' for --plural: "),
        ((*CREATE, "--owns=Widget"), "create api: --owns Widget: there is a beginning for ConfigMap, Deploy"),
        ((*CREATE, "--owns=Namespace"), "create api: --owns Namespace: only cluster-scoped objects can"),
        ((*CREATE, "--cluster"), "create api: No such option '--cluster'. Did you mean '--cluster-scoped'?"),
        (("create", "webhooks", "--kind=A"), "create: No such command 'webhooks'. Did you mean 'webhook'?"),
        (("create", "webhook"), "create webhook: Missing option '--kind'."),
        (("create", "webhook", "--kind=a", "--validation"), "create webhook: invalid value 'a' for --kind: "),
        (WEBHOOK, "create webhook: --defaulting, --validation or --conversion=VERSION is needed"),
        ((*WEBHOOK, "--conversion=2"), "create webhook: invalid value '2' for --conversion: v1, v2beta1"),
        ((*WEBHOOK, "--conversion=v1"), "create webhook: Greeting has the version v1, and its operator"),
        (
            (*WEBHOOK, "--validating"),
            "create webhook: No such option '--validating'. (Did you mean one of: ",
        ),
        (
            (*WEBHOOK, "--validation", "--group=store"),
            "create webhook: controllers/ has no operator of Greeting of group store: `class",
        ),
        (
            ("create", "webhook", "--kind=Order", "--validation"),
            "create webhook: controllers/ has no operator of Order: `class OrderOperator(Operator[Order])`",
        ),
    ],
)
def test_scaffold_refuses_wrong_arguments_in_one_line_and_writes_nothing(
    command: Command, project: Path, argv: tuple[str, ...], expected: str
):
    before = files(project)
    assert command(*argv).refusal().startswith(expected)
    assert files(project) == before


def test_create_api_refuses_a_folder_that_is_not_a_project(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    assert "this folder is not a project: controllers/main.py is expected" in command(*CREATE).refusal()


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
def test_with_operator_extends_the_list_in_each_format(project: Path, there: str, then: str):
    path = project / "controllers" / "main.py"
    main_module = path.read_text()
    assert "OPERATORS = (GreetingOperator,)\n" in main_module
    names = Names(program="shop", domain="acme.test", group="store", version="v1", kind="Company")
    written = with_operator(main_module.replace("OPERATORS = (GreetingOperator,)", there), names, OURS)
    assert then in written
    assert "from controllers.store.company import CompanyOperator\n" in written


@pytest.mark.parametrize("code", ["OPERATORS = [*MINE]\n", "import sys\nOPERATORS = tuple(found())\n"])
def test_create_api_refuses_a_main_module_without_a_suitable_list(command: Command, project: Path, code: str):
    (project / "controllers" / "main.py").write_text(code)
    before = files(project)
    assert "controllers/main.py has no list to add to" in command(*CREATE).refusal()
    assert files(project) == before


@pytest.mark.parametrize(
    ("path", "there", "then", "expected"),
    [
        (
            "controllers/hello/greeting.py",
            "Operator[Greeting]):",
            "Operator[Greeting]):\n    versions = tuple(found())\n",
            "controllers/hello/greeting.py: the versions of GreetingOperator are not a tuple; write versions",
        ),
        (
            "controllers/hello/greeting.py",
            "    async def reconcile",
            "    @webhook.validate_create\n    async def mine(self): ...\n\n    async def reconcile",
            "controllers/hello/greeting.py: GreetingOperator.mine exists already",
        ),
        (
            "controllers/hello/greeting.py",
            "    async def reconcile",
            "    def fill_in(self): ...\n\n    async def reconcile",
            "controllers/hello/greeting.py: GreetingOperator.fill_in exists already",
        ),
        (
            "controllers/hello/greeting.py",
            "from apis.hello.v1.greeting import",
            "from apis.models import",
            "controllers/hello/greeting.py: Greeting is expected from apis/GROUP/VERSION/greeting.py",
        ),
        (
            "controllers/hello/greeting.py",
            "class ",
            "class class ",
            "controllers/hello/greeting.py cannot be read: invalid syntax",
        ),
        (
            "apis/hello/v1/greeting.py",
            'version="v1"',
            "version=VERSION",
            "apis/hello/v1/greeting.py: copy it to apis/hello/v2 by hand, with that version",
        ),
        (
            "config/default/kustomization.yaml",
            "[WEBHOOK]",
            "",
            "config/default/kustomization.yaml has no [WEBHOOK]: put `- ../webhook` to its resources and",
        ),
    ],
)
def test_create_webhook_refuses_an_unsuitable_file_and_says_what_to_do(
    command: Command, project: Path, path: str, there: str, then: str, expected: str
):
    text = (project / path).read_text()
    assert there in text
    (project / path).write_text(text.replace(there, then))
    before = files(project)
    assert command(*WEBHOOK, *EVERY).refusal().startswith(f"create webhook: {expected}")
    assert files(project) == before


def test_create_webhook_needs_group_when_two_groups_have_the_kind(command: Command, project: Path):
    operator = project / "controllers" / "hello" / "greeting.py"
    other = project / "controllers" / "store" / "greeting.py"
    other.parent.mkdir()
    other.write_text(operator.read_text().replace("apis.hello", "apis.store"))
    assert (
        "are about Greeting; --group is needed: hello or store" in command(*WEBHOOK, "--validation").refusal()
    )
    assert command(*WEBHOOK, "--validation", "--group=hello").code == 0


@pytest.mark.parametrize(
    ("there", "then"),
    [
        ("(Operator[Greeting]):\n    pass", "    versions = (V2,)\n\n    pass"),
        ('(Operator[Greeting]):\n    """It."""', '    """It."""\n\n    versions = (V2,)'),
        (
            '(Operator[Greeting]):\n    """It."""\n\n    owns = ()',
            '    """It."""\n\n    versions = (V2,)\n    owns = ()',
        ),
        (
            '(Operator[Greeting]):\n    """It."""\n\n    # Mine.\n    owns = ()',
            '    """It."""\n\n    versions = (V2,)\n\n    # Mine.\n    owns = ()',
        ),
        (
            '(Operator[Greeting]):\n    """It."""\n    def f(self): ...',
            '    """It."""\n\n    versions = (V2,)\n\n    def f(self): ...',
        ),
        ("(Operator[Greeting]):\n    versions = ()", "    versions = (V2,)"),
        ("(Operator[Greeting]):\n    versions = (\n        V1,\n    )", "    versions = (V1, V2)"),
    ],
)
def test_with_members_puts_versions_and_methods_in_place_in_a_class(there: str, then: str):
    changed = with_members(f"class It{there}\n\n\nX = 1\n", "It", "    def g(self): ...\n", "V2")
    assert changed == f"class It(Operator[Greeting]):\n{then}\n\n    def g(self): ...\n\n\nX = 1\n"


@pytest.mark.parametrize(
    ("there", "then"),
    [
        ("import os\n", "import os\n\nfrom manager import webhook\n"),
        ("import manager\n", "import manager\nfrom manager import webhook\n"),
        (
            "from zoo import a\n\nfrom manager.api import b\n",
            "from zoo import a\n\nfrom manager import webhook\nfrom manager.api import b\n",
        ),
        ("from manager import webhook, z\n", "from manager import webhook, z\n"),
        ("from manager import z, A, B as C\n", "from manager import A, B as C, webhook, z\n"),
        (
            "from manager import a  # noqa: X\n",
            "from manager import a  # noqa: X\nfrom manager import webhook\n",
        ),
        (
            '"""It."""\n\nfrom manager.z import a\n',
            '"""It."""\n\nfrom manager import webhook\nfrom manager.z import a\n',
        ),
        (
            f"from manager import {'a' * 70}, {'z' * 20}\n",
            f"from manager import (\n    {'a' * 70},\n    webhook,\n    {'z' * 20},\n)\n",
        ),
    ],
)
def test_with_import_puts_an_import_in_its_place(there: str, then: str):
    assert with_import(there, "manager", "webhook", ours=OURS) == then


def test_create_api_reports_why_generate_fails(command: Command, project: Path):
    (project / "controllers" / "hello" / "greeting.py").write_text("raise ValueError('broken')\n")
    before = files(project)
    assert "generate` fails: ValueError: broken" in command(*CREATE).refusal()
    assert files(project) == before


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (("--kind=Self",), "invalid value for --kind: 'Self' is `self` in methods"),
        (("--group=main",), "No module named controllers.main"),
        (("--group=hello", "--plural=greetings"), "Company: Greeting has the plural greetings already"),
    ],
)
def test_create_api_leaves_no_file_when_the_name_breaks_the_program(
    command: Command, project: Path, flags: tuple[str, ...], reason: str
):
    before, folders = files(project), [*project.rglob("*/")]
    assert reason in command(*CREATE, *flags).refusal()
    assert files(project) == before
    assert [path for path in project.rglob("*/") if "__pycache__" not in path.parts] == folders


@pytest.mark.parametrize("kind", [kind for kind in beginnings() if kind != "Namespace"])
async def test_beginning_of_each_kind_becomes_ready_with_its_child(kind: str):
    module = importlib.import_module(f"manager_tools.scaffold.project.controllers.owning.{kind.lower()}")
    async with operated(module.GreetingOperator) as world:
        greeting = await world.create(Greeting(metadata=ObjectMeta(name="sample")))
        await world.until(greeting, lambda it: [each.status for each in it.status.conditions] == ["True"])
        [owned] = module.GreetingOperator.owns
        child = await world.get(owned, "sample")
        assert [each.uid for each in child.metadata.owner_references] == [greeting.metadata.uid]


def test_tilt_runs_the_project_on_a_cluster_of_this_machine_or_on_devcluster(project: Path):
    program, makefile = Program("shop", "0"), (project / "Makefile").read_text()
    cluster = Tilt(project / "Tiltfile").evaluate()
    manager = yaml.safe_load_all((project / "config/manager/manager.yaml").read_text())
    [image] = (
        each["spec"]["template"]["spec"]["containers"][0]["image"] for each in manager if "spec" in each
    )
    assert [*cluster.called("docker_build")] == [image]
    assert [*cluster.called("k8s_resource")] == ["shop-controller-manager"]
    with pytest.raises(TiltfileFailed, match=r"current context .production. is no cluster of this machine"):
        Tilt(project / "Tiltfile", context="production").evaluate()
    alone = Tilt(project / "Tiltfile", arguments={"devcluster": True}).evaluate()
    command = alone.called("local_resource")["manager"]["serve_cmd"]
    assert parse_flags(shlex.split(command)[3:], program=program)["webhook-local-path"].startswith(".local/")
    for tilt in (cluster, alone):
        local = tilt.called("local_resource")
        for resource in (*local.values(), *tilt.called("k8s_resource").values()):
            assert set(resource.get("resource_deps", ())) <= {*local, "manager"}
            assert all((project / name).is_dir() for name in resource.get("deps", ()))
            for target in re.findall(r"\bmake ([\w-]+)", resource.get("cmd", "")):
                assert f"\n{target}:" in makefile


def test_names_in_place_never_replaces_its_own_replacements():
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
def test_plural_of_follows_english(kind: str, plural: str):
    assert plural_of(kind) == plural


@pytest.mark.parametrize(
    ("status", "ready"),
    [
        ({}, False),
        ({"observedGeneration": 1}, True),
        ({"observedGeneration": 0, "conditions": [("Ready", "True")]}, False),
        ({"observedGeneration": 1, "conditions": [("Ready", "True")]}, True),
        ({"observedGeneration": 1, "conditions": [("Ready", "False")]}, False),
        ({"conditions": [("Available", "True"), ("Progressing", "True")]}, True),
        ({"conditions": [("Happy", "True"), ("Degraded", "False")]}, True),
        ({"conditions": [("Happy", "True"), ("Degraded", "True")]}, False),
        ({"conditions": [("Happy", "Unknown")]}, False),
    ],
)
def test_demo_of_a_project_needs_no_condition_called_ready(status: dict[str, Any], ready: bool):
    given = {"reason": "Set", "message": "", "lastTransitionTime": None}
    listed = [{"type": name, "status": holds, **given} for name, holds in status.get("conditions", ())]
    metadata, spec = {"name": "a", "generation": 1}, {"text": "Hello"}
    wire = {"metadata": metadata, "spec": spec, "status": status | {"conditions": listed}}
    obj = Greeting.model_validate(wire)
    assert is_ready(obj) is ready


def test_manifests_of_a_project_are_limited_to_namespaces(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    role = {"kind": "ClusterRole", "metadata": {"name": "shop-manager-role"}}
    webhook = {
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "shop"},
        "webhooks": [{"name": "a", "namespaceSelector": {"matchLabels": {"team": "blue"}}}],
    }
    monkeypatch.setattr("sys.stdin", io.StringIO(yaml_stream([role, webhook])))
    assert namespaces.main("team-a,team-b") == 0
    first, second, scoped = yaml_documents(capsys.readouterr().out)
    assert [(each["kind"], each["metadata"]["namespace"]) for each in (first, second)] == [
        ("Role", "team-a"),
        ("Role", "team-b"),
    ]
    [only] = scoped["webhooks"]
    assert only["namespaceSelector"]["matchLabels"] == {"team": "blue"}
    assert only["namespaceSelector"]["matchExpressions"][0]["values"] == ["team-a", "team-b"]
    assert namespaces.main("Team A") == 2
    assert (
        capsys.readouterr().err
        == "NAMESPACES=Team A: names of namespaces, separated by commas, are expected\n"
    )
    makefile = Path("manager_tools/scaffold/project/Makefile").read_text()
    assert "python -m manager_tools.codegen.namespaces $(NAMESPACES)" in makefile
