"""The files of deploy/, as far as a parser can check them: nothing is built, and no cluster is asked."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from mcp_memory.entrypoints.http.request_checks import HEALTH_PATH
from mcp_memory.settings import Settings

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "chart"
PLACE = re.compile(r"\{\{ \.(Values|Release)\.(\w+)( \| quote)? \}\}")


def rendered(template: Path, values: dict[str, Any]) -> dict[str, Any]:
    """The template with its values, of which each is one word: no other expression is in it."""

    def value_of(place: re.Match[str]) -> str:
        value = "memory" if place[1] == "Release" else values[place[2]]
        return f'"{value}"' if place[3] else str(value)

    text = PLACE.sub(value_of, template.read_text("utf-8"))
    assert "{{" not in text
    return yaml.safe_load(text)


@pytest.fixture
def chart() -> dict[str, dict[str, Any]]:
    values = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
    return {each["kind"]: each for each in (rendered(file, values) for file in (CHART / "templates").iterdir())}


def test_the_chart_names_what_there_is(chart: dict[str, dict[str, Any]]) -> None:
    assert chart.keys() == {"Deployment", "Service", "HorizontalPodAutoscaler", "PodDisruptionBudget"}
    deployment = chart["Deployment"]
    pod = deployment["spec"]["template"]
    (server,) = pod["spec"]["containers"]
    assert server["readinessProbe"]["httpGet"]["path"] == HEALTH_PATH
    assert {each["name"].removeprefix("MCP_MEMORY_").lower() for each in server["env"]} <= Settings.model_fields.keys()
    assert server["securityContext"]["readOnlyRootFilesystem"]
    assert pod["spec"]["securityContext"]["runAsNonRoot"]
    assert {each["name"] for each in server["volumeMounts"]} == {each["name"] for each in pod["spec"]["volumes"]}
    labels = pod["metadata"]["labels"].items()
    assert chart["Service"]["spec"]["selector"].items() <= labels
    for each in (deployment, chart["PodDisruptionBudget"]):
        assert each["spec"]["selector"]["matchLabels"].items() <= labels
    assert chart["HorizontalPodAutoscaler"]["spec"]["scaleTargetRef"]["name"] == deployment["metadata"]["name"]
    values = set(yaml.safe_load((CHART / "values.yaml").read_text("utf-8")))
    used = {place[2] for file in (CHART / "templates").iterdir() for place in PLACE.finditer(file.read_text("utf-8"))}
    assert used - {"Name"} == values


def test_compose_names_what_there_is() -> None:
    """Two servers that may write nothing but their folders, and wait for the database."""
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))
    services = compose["services"]
    servers = [each for name, each in services.items() if name.startswith("server-")]
    assert len(servers) == 2
    for each in servers:
        assert {
            name.removeprefix("MCP_MEMORY_").lower() for name in each["environment"]
        } <= Settings.model_fields.keys()
        assert each["read_only"]
        assert each["user"] == "10001:10001"
        assert each["depends_on"] == {"postgres": {"condition": "service_healthy"}}
    volumes = {volume.split(":")[0] for each in services.values() for volume in each.get("volumes", ())}
    assert volumes == set(compose["volumes"])


def test_the_image_runs_a_server_that_is_asked_for_its_health() -> None:
    image = (DEPLOY / "Dockerfile").read_text("utf-8")
    assert f"8765{HEALTH_PATH}'" in image
    assert "USER 10001" in image
    stages = re.split(r"^FROM .*$", image, flags=re.MULTILINE)[1:]
    assert len(stages) == 2
    described = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    project, wheel = described["project"], described["tool"]["hatch"]["build"]["targets"]["wheel"]
    extras = re.findall(r"^ARG EXTRAS=(\S+)$", stages[0], re.MULTILINE)[0].split(",")
    assert set(extras) <= project["optional-dependencies"].keys()
    copied = {name for line in re.findall(r"^COPY (.+)$", stages[0], re.MULTILINE) for name in line.split()[:-1]}
    parts = {path.partition("/")[0] for path in (*wheel["packages"], *wheel["force-include"])}
    assert copied == {"pyproject.toml", "README.md", "LICENSE", *parts}, "what a wheel is made of"
    assert "/data" in re.findall(r"^VOLUME (\S+)$", stages[1], re.MULTILINE)
    assert "MCP_MEMORY_DATA_DIR=/data" in stages[1]
    [entry] = re.findall(r"^ENTRYPOINT (.+)$", stages[1], re.MULTILINE)
    assert json.loads(entry) == ["mcp-memory"]
    assert (CHART / "templates" / "deployment.yaml").read_text("utf-8").count("runAsUser: 10001") == 1
