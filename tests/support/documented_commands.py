"""Commands of the documentation that tests run.

A test follows each `console` block of a page as a whole, and compares the output.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

WALKED = ("README.md", "docs/operators.md")
"""Pages whose consoles are followed with a control plane and a manager."""

WALKED_ALONE = ("docs/petstore.md", "docs/devcluster.md")
"""Pages whose consoles need neither."""

ELSEWHERE: Mapping[str, str] = {
    "docs/writing-an-operator.md": (
        "tests/integration/test_documentation.py::test_writing_an_operator_page_yields_a_running_operator"
    ),
    "docs/webhooks.md": (
        "tests/integration/test_documentation.py::test_webhooks_page_yields_answering_webhooks"
    ),
    "docs/operations.md": (
        "tests/integration/test_documentation.py::"
        "test_petstore_serves_from_the_backup_that_operations_page_makes"
    ),
    "examples/workloads/README.md": (
        "tests/integration/test_workloads.py::test_workloads_runs_from_start_to_end"
    ),
}
"""Other pages with consoles, and the test that follows each of them."""

_SYSTEM = "kubectl -n operator-manager-system"

DEPLOYED: Sequence[str] = (
    f"{_SYSTEM} rollout status deployment/operator-manager-controller-manager",
    "kubectl apply -k config/samples",
    "kubectl get memcacheds,foos,pets,wordpresses,mysrvs",
    f"{_SYSTEM} get pods,leases",
    f"{_SYSTEM} get deployments,pods,leases",
    f"{_SYSTEM} get events --sort-by=.lastTimestamp",
    f"{_SYSTEM} describe deployment/operator-manager-petstore",
    f"{_SYSTEM} rollout restart deployment/operator-manager-controller-manager",
    "kubectl apply -k config/grafana",
    "kubectl get clusterrole operator-manager-manager-role -o yaml",
    (
        "kubectl auth can-i --list "
        "--as=system:serviceaccount:operator-manager-system:operator-manager-controller-manager"
    ),
    (
        "kubectl create clusterrolebinding operator-manager-prometheus "
        "--clusterrole=operator-manager-metrics-reader --serviceaccount=monitoring:prometheus-k8s"
    ),
    (
        "kubectl create clusterrolebinding metrics-reader "
        "--clusterrole=operator-manager-metrics-reader --serviceaccount=monitoring:prometheus-k8s"
    ),
    "token=$(kubectl -n monitoring create token prometheus-k8s)",
    "TOKEN=$(kubectl create token prometheus-k8s --namespace monitoring)",
)
"""What is done with a manager that is deployed, in this order."""
