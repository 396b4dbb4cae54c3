"""The protocol's own conformance suite, over HTTP, in both eras."""

import json
import re
from pathlib import Path

import pytest

from tests.clients.node_packages import NodePackages
from tests.clients.programs import environment, run

pytestmark = pytest.mark.long

PROVEN = {
    "2025-11-25": {
        "dns-rebinding-protection", "ping", "prompts-list", "resources-list", "server-initialize",
        "server-session-lifecycle", "server-sse-multiple-streams", "tools-list",
    },
    "2026-07-28": {
        "caching", "dns-rebinding-protection", "http-header-validation", "prompts-list", "resources-list",
        "sep-2164-resource-not-found", "server-sse-multiple-streams", "server-stateless", "tools-list",
    },
}  # fmt: skip
"""By the revision of the protocol: the scenarios that have to pass."""
LEFT_OUT = {
    "calls tools, or asks for prompts and resources, that only the suite's own server has": re.compile(
        "tools-call-.+|prompts-get-.+|resources-(read-.+|templates-read|(un)?subscribe)|json-schema-2020-12"
        "|elicitation-.+|input-required-result-.+|server-sse-polling|http-custom-header-server-validation"
    ),
    "needs an optional capability that this server does not declare": re.compile(
        "logging-set-level|completion-complete"
    ),
    "belongs to an extension that this server does not declare": re.compile("tasks-.+|sep-2640-.+"),
}
"""Every other scenario that a revision lists, with the reason."""
NEEDS_ITS_TOOLS = {"sep-2575-server-rejects-undeclared-capability", "sep-2575-missing-capability-http-400"}
"""Single checks of a proven scenario that call a tool that only the suite's own server has."""


def failed_checks(results: Path) -> dict[str, list[str]]:
    """By the scenario what failed in it."""
    return {
        re.sub(r"^server-(.+)-\d{4}-\d\d-\d\dT.*", r"\1", file.parent.name): [
            f"{check['id']}: {check.get('errorMessage')}"
            for check in json.loads(file.read_text("utf-8"))
            if check["status"] == "FAILURE" and check["id"] not in NEEDS_ITS_TOOLS
        ]
        for file in results.glob("*/checks.json")
    }


@pytest.mark.parametrize("revision", PROVEN)
def test_the_scenarios_that_need_no_fixtures_pass(
    packages: NodePackages, http_url: str, tmp_path: Path, revision: str
) -> None:
    """S6.2, S4.2."""
    command = packages.command("@modelcontextprotocol/conformance", "conformance")
    asked = ["server", "--url", http_url, "--requirements", revision, "--output-dir", str(tmp_path)]
    ran = run([*command, *asked], environment(tmp_path), tmp_path)
    failed = failed_checks(tmp_path)
    tried = {name for name in failed if not any(names.fullmatch(name) for names in LEFT_OUT.values())}
    assert tried == PROVEN[revision], ran.out + ran.err
    assert {name: failed[name] for name in tried if failed[name]} == {}
