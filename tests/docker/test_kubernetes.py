"""The template of a Kubernetes work pool: what Prefect makes of it, and that every shard gets a GPU and no rights."""

from __future__ import annotations

import copy
import json
import shlex
from typing import Any

import jsonschema
import pytest
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.utilities.templating import apply_values, find_placeholders

from drsr.settings import Settings
from scripts.code_map import ROOT
from tests.docker.test_images import FOLDER, of

TEMPLATE: dict[str, Any] = json.loads((FOLDER / "kubernetes.json").read_text())
VARIABLES: dict[str, Any] = TEMPLATE["variables"]["properties"]
GIVEN = {"name": "label-3-of-9", "command": "prefect flow-run execute", "env": {"PREFECT_API_URL": "http://server/api"}}
"""What the worker gives every flow run."""
BY_PREFECT = {"apiVersion": "batch/v1", "kind": "Job"}, {"parallelism": 1, "completions": 1, "restartPolicy": "Never"}
"""Of the job and of its pod: prefect-kubernetes 0.8.0 refuses a manifest that says anything else."""
MEMORY = {"type": "string", "pattern": r"^[1-9]\d*Gi$"}
CONTAINER = {
    "properties": {
        "name": {"const": "prefect-job"},
        "image": {"type": "string", "minLength": 1},
        "args": {"const": GIVEN["command"]},
        "envFrom": {"const": [{"secretRef": {"name": "drsr"}}]},
        "securityContext": {"const": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}},
        "volumeMounts": {"const": [{"name": "models", "mountPath": "/cache"}]},
        "resources": {
            "properties": {
                "limits": {
                    "properties": {"nvidia.com/gpu": {"type": "integer", "minimum": 1}, "memory": MEMORY},
                    "required": ["nvidia.com/gpu", "memory"],
                    "additionalProperties": False,
                },
                "requests": {"properties": {"memory": MEMORY}, "required": ["cpu", "memory"]},
            },
            "required": ["limits", "requests"],
        },
    },
    "required": ["name", "image", "args", "envFrom", "securityContext", "volumeMounts", "resources"],
}
POD = {
    "properties": {
        **{name: {"const": value} for name, value in BY_PREFECT[1].items()},
        "automountServiceAccountToken": {"const": False},
        "securityContext": {
            "properties": {"runAsNonRoot": {"const": True}, "runAsUser": {"const": 10001}},
            "required": ["runAsNonRoot", "runAsUser", "fsGroup"],
        },
        "containers": {"type": "array", "items": CONTAINER, "minItems": 1, "maxItems": 1},
    },
    "required": [*BY_PREFECT[1], "automountServiceAccountToken", "securityContext", "volumes", "containers"],
}
JOB = {
    "properties": {
        **{name: {"const": value} for name, value in BY_PREFECT[0].items()},
        "spec": {
            "properties": {
                "backoffLimit": {"const": 0},
                "ttlSecondsAfterFinished": {"type": "integer", "minimum": 60},
                "template": {"properties": {"spec": POD}, "required": ["spec"]},
            },
            "required": ["backoffLimit", "ttlSecondsAfterFinished", "template"],
        },
    },
    "required": [*BY_PREFECT[0], "metadata", "spec"],
}
"""Of a job's schema what is promised."""


def manifest(template: dict[str, Any] = TEMPLATE, **chosen: Any) -> dict[str, Any]:
    """The job that a worker makes of the template, with some variables chosen by a deployment."""
    defaults = {name: one["default"] for name, one in template["variables"]["properties"].items() if "default" in one}
    made: dict[str, Any] = apply_values(template["job_configuration"], defaults | GIVEN | chosen)
    return dict(made["job_manifest"])


def complaints(job: dict[str, Any]) -> list[str]:
    return [error.message for error in jsonschema.Draft202012Validator(JOB).iter_errors(job)]


def as_sent(job: dict[str, Any]) -> dict[str, Any]:
    """What the cluster is given of a manifest: Prefect's worker takes the command apart.

    Without `parallelism` and `completions`, which Prefect wants beside the containers, where Kubernetes knows no such
    fields and leaves them out.
    """
    sent = copy.deepcopy(job)
    pod = sent["spec"]["template"]["spec"]
    pod["containers"][0]["args"] = shlex.split(pod["containers"][0]["args"])
    for name in ("parallelism", "completions"):
        del pod[name]
    return sent


def container(job: dict[str, Any]) -> dict[str, Any]:
    (only,) = job["spec"]["template"]["spec"]["containers"]
    return dict(only)


def test_prefect_takes_it_for_a_work_pool() -> None:
    pool = WorkPoolCreate(name="gpu", type="kubernetes", base_job_template=TEMPLATE)
    assert pool.base_job_template == TEMPLATE


def test_every_placeholder_is_a_variable_and_every_variable_is_used() -> None:
    used = {found.name for found in find_placeholders(TEMPLATE["job_configuration"])}
    assert used == set(VARIABLES)


def test_every_default_is_of_its_variable_s_type() -> None:
    jsonschema.Draft202012Validator.check_schema(TEMPLATE["variables"])
    defaults = {name: one["default"] for name, one in VARIABLES.items() if "default" in one}
    jsonschema.validate(defaults, TEMPLATE["variables"])
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(defaults | {"gpus": "one"}, TEMPLATE["variables"])


def test_a_shard_is_a_job_with_a_gpu_and_without_rights() -> None:
    jsonschema.Draft202012Validator.check_schema(JOB)
    assert complaints(manifest()) == []
    assert container(manifest(gpus=2))["resources"]["limits"]["nvidia.com/gpu"] == 2, "a number, not a text"


@pytest.mark.parametrize("version", ["1.30", "1.37"])
def test_kubernetes_own_schema_takes_it_field_by_field(version: str) -> None:
    """The published schema, with every unknown field an error; `make schemas` installs it."""
    reason = "no kubernetes-validate here: make schemas"
    kubernetes = pytest.importorskip("kubernetes_validate", reason=reason)
    jobs = [manifest(), manifest(gpus=2, labels={"team": "agents"}, node_selector={"gpu": "a10"})]
    for job in jobs:
        kubernetes.validate(as_sent(job), version, strict=True)
    job = as_sent(jobs[0])
    job["spec"]["template"]["spec"]["containers"][0]["imagePullPolcy"] = "Always"
    with pytest.raises(kubernetes.ValidationError, match="imagePullPolcy"):
        kubernetes.validate(job, version, strict=True)


@pytest.mark.parametrize(
    ("place", "wrong"),
    [
        (("resources", "limits"), {"memory": "24Gi"}),
        (("args",), "sh -c true"),
        (("envFrom",), []),
        (("securityContext",), {"privileged": True}),
    ],
    ids=str,
)
def test_what_would_be_seen(place: tuple[str, ...], wrong: Any) -> None:
    job = copy.deepcopy(manifest())
    *above, last = place
    found = job["spec"]["template"]["spec"]["containers"][0]
    for name in above:
        found = found[name]
    found[last] = wrong
    assert complaints(job)


def test_no_secret_is_in_the_template() -> None:
    """They come from a secret of the cluster, which holds what the guide's table names."""
    names = {f"DRSR_{name.upper()}" for name in Settings.__dataclass_fields__}
    said = [variable["name"] for variable in container(manifest())["env"]]
    assert not names & {*said, *VARIABLES}
    guide = (ROOT / "docs" / "guides" / "nightly.md").read_text()
    assert "docker/kubernetes.json" in guide
    assert "--from-env-file" in guide


def test_it_runs_the_image_s_user_where_the_image_keeps_the_model() -> None:
    """And leaves Prefect's own files in the pod: the volume is shared by all of them."""
    worker = FOLDER / "worker.Dockerfile"
    pod = manifest()["spec"]["template"]["spec"]
    context = pod["securityContext"]
    assert of(worker, "USER") == [f"{context['runAsUser']}:{context['runAsGroup']}"]
    (mounted,) = container(manifest())["volumeMounts"]
    assert f"DRSR_CACHE={mounted['mountPath']}" in " ".join(of(worker, "ENV"))
    assert container(manifest())["env"] == [{"name": "PREFECT_HOME", "value": "/tmp/prefect"}]
