"""Every file of deploy/ against the schema, or the linter, of what reads it."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml
from prefect.settings import Settings
from prefect.settings.legacy import _get_settings_fields
from prefect.utilities.templating import apply_values
from prefect_service import ROOT

DEPLOY = ROOT / "deploy"
KUBERNETES = "1.33"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())


def manifests() -> list[dict[str, Any]]:
    files = sorted((DEPLOY / "k8s").glob("*.yaml"))
    return [found for file in files for found in yaml.safe_load_all(file.read_text())]


def compose_errors(file: Path) -> str:
    check = ("-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(file))
    done = subprocess.run([sys.executable, *check], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def test_compose_file(tmp_path: Path) -> None:
    assert compose_errors(DEPLOY / "compose.yaml") == ""
    broken = tmp_path / "compose.yaml"
    broken.write_text((DEPLOY / "compose.yaml").read_text().replace("depends_on", "depend_on"))
    assert "depend_on" in compose_errors(broken)


def test_compose_refers_to_what_is_there() -> None:
    services = COMPOSE["services"]
    for service in services.values():
        assert set(service.get("depends_on", {})) <= set(services)
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert source in COMPOSE["volumes"] or (DEPLOY / source).exists()
    text = (DEPLOY / "compose.yaml").read_text()
    for name in re.findall(r"/opt/deploy/([\w.]+)", text):
        assert (DEPLOY / name).exists()


def test_nothing_is_published_in_the_clear() -> None:
    for name, service in COMPOSE["services"].items():
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:") or name == "proxy"
    assert COMPOSE["services"]["proxy"]["profiles"] == ["public"]
    for name in ("dask-scheduler", "dask-worker", "prefect-worker"):
        environment = COMPOSE["services"][name]["environment"]
        assert environment["DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION"] == "true"
    assert ":?" in COMPOSE["services"]["postgres"]["environment"]["POSTGRES_PASSWORD"]


def test_prefect_takes_the_settings_named() -> None:
    """Prefect ignores what it does not know."""
    text = (DEPLOY / "compose.yaml").read_text() + (ROOT / "docs/use/operations.md").read_text()
    named = set(re.findall(r"\bPREFECT_SERVER_\w+", text))
    assert named
    assert named <= set(_get_settings_fields(Settings))


def test_dockerfile() -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    command = [str(hadolint) if hadolint.exists() else "hadolint", str(DEPLOY / "Dockerfile")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    text = (DEPLOY / "Dockerfile").read_text()
    assert re.search(r"^USER 10001", text, re.MULTILINE)
    assert "--constraint constraints.txt" in text
    sent = (ROOT / ".dockerignore").read_text().splitlines()  # to the daemon, but for the rest
    for source in re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE):
        assert all((ROOT / name).exists() and f"!{name}" in sent for name in source.split())


def test_no_process_of_the_image_imports_from_its_folder_of_data() -> None:
    assert "PYTHONSAFEPATH=1" in (DEPLOY / "Dockerfile").read_text()


def test_scripts() -> None:
    shell = shutil.which("sh")
    assert shell is not None
    subprocess.run([shell, "-n", DEPLOY / "deploy.sh"], check=True)


@pytest.mark.parametrize("found", manifests(), ids=lambda found: found["kind"])
def test_kubernetes_manifest(found: dict[str, Any]) -> None:
    if found["apiVersion"] == "kubernetes.dask.org/v1":
        jsonschema.validate(found, dask_cluster_schema())
        for part in ("scheduler", "worker"):
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": part}}
            valid({**pod, "spec": found["spec"][part]["spec"]})
    else:
        valid(found)


def valid(found: dict[str, Any]) -> None:
    """Raise where Kubernetes would refuse it, or does not know a field."""
    kubernetes_validate.validate(found, KUBERNETES, strict=True)


def dask_cluster_schema() -> dict[str, Any]:
    """What the Dask operator takes."""
    spec = importlib.util.find_spec("dask_kubernetes")
    assert spec is not None
    assert spec.origin is not None
    chart = Path(spec.origin).parent / "operator/deployment/helm/dask-kubernetes-operator"
    crd = yaml.safe_load((chart / "crds" / "daskcluster.yaml").read_text())
    (version,) = crd["spec"]["versions"]
    return dict(version["schema"]["openAPIV3Schema"])


def test_broken_manifest_would_be_refused() -> None:
    found = next(found for found in manifests() if found["kind"] == "Deployment")
    found["spec"]["template"]["spec"]["containers"][0]["imagge"] = "x"
    with pytest.raises(kubernetes_validate.ValidationError):
        valid(found)
    cluster = next(found for found in manifests() if found["kind"] == "DaskCluster")
    del cluster["spec"]["worker"]["spec"]["containers"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(cluster, dask_cluster_schema())


def test_job_of_a_flow_run() -> None:
    template = json.loads((DEPLOY / "k8s" / "job-template.json").read_text())
    config = yaml.safe_load((DEPLOY / "prefect.yaml").read_text())
    (pool,) = (d["work_pool"] for d in config["deployments"] if d["name"] == "weekly-kubernetes")
    known = template["variables"]["properties"]
    assert set(pool["job_variables"]) <= set(known)
    defaults = {name: found.get("default") for name, found in known.items()}
    environment = [{"name": n, "value": v} for n, v in pool["job_variables"]["env"].items()]
    values = {**defaults, **pool["job_variables"], "env": environment, "name": "run", "labels": {}}
    manifest = apply_values(template["job_configuration"]["job_manifest"], values)
    container = manifest["spec"]["template"]["spec"]["containers"][0]
    container["args"], container["resources"] = ["prefect", "flow-run", "execute"], {}
    valid(_without_none(manifest))


def _without_none(found: Any) -> Any:
    if isinstance(found, dict):
        return {name: _without_none(value) for name, value in found.items() if value is not None}
    return [_without_none(value) for value in found] if isinstance(found, list) else found
