from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from prometheus_client.parser import text_string_to_metric_families

from forebay import DeviceKind, JobState
from live_service import LiveService
from polling import wait_until

PAGE = Path(__file__).parents[3] / "docs" / "control-api.md"


def references(value: object) -> Iterator[str]:
    """Yield every reference inside a document."""
    if isinstance(value, dict):
        if isinstance(target := value.get("$ref"), str):
            yield target
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from references(item)


def test_the_description_is_sound(service: LiveService) -> None:
    document = service.get("/openapi.json")

    assert document["openapi"].startswith("3.1")
    schemas = document["components"]["schemas"]
    for schema in schemas.values():
        Draft202012Validator.check_schema(schema)
    for target in references(document):
        assert target.removeprefix("#/components/schemas/") in schemas
    operations = [operation for path in document["paths"].values() for operation in path.values()]
    names = [operation["operationId"] for operation in operations]
    assert len(set(names)) == len(names)
    for operation in operations:
        assert operation["summary"]
        assert "application/problem+json" in operation["responses"]["default"]["content"]


def test_the_description_tells_what_needs_the_token(service: LiveService) -> None:
    for path, operations in service.get("/openapi.json")["paths"].items():
        for operation in operations.values():
            assert bool(operation.get("security")) is path.startswith("/v1")


@pytest.mark.parametrize("path", ["devices", "pools", "plugins", "leases", "jobs", "events"])
def test_answers_are_as_described(service: LiveService, path: str) -> None:
    document = service.get("/openapi.json")
    described = document["paths"][f"/v1/{path}"]["get"]["responses"]["200"]["content"]
    schema = {**described["application/json"]["schema"], "components": document["components"]}

    Draft202012Validator(schema).validate(service.get(f"/v1/{path}"))


def test_every_path_is_documented(service: LiveService) -> None:
    page = PAGE.read_text()

    for path in service.get("/openapi.json")["paths"]:
        assert f"`{path}`" in page or f" {path}`" in page, path


def test_this_machine_s_cores_are_found_and_pooled(service: LiveService) -> None:
    found = service.get("/v1/devices")
    (pool,) = [entry for entry in service.get("/v1/pools")["pools"] if entry["kind"] == "cpu"]

    cores = [device for device in found["devices"] if device["kind"] == "cpu"]
    assert cores
    assert {device["node"] for device in cores} == {node["id"] for node in found["nodes"]}
    assert pool["capacity_millis"] == sum(device["capacity_millis"] for device in cores)


def test_plugins_tell_how_they_fare(service: LiveService) -> None:
    plugins = {plugin["id"]: plugin for plugin in service.get("/v1/plugins")["plugins"]}

    assert plugins["cpu"]["state"] == "loaded"
    assert plugins["cpu"]["calls"] > 0


def test_metrics_agree_with_what_the_api_lists(service: LiveService) -> None:
    number = service.submit(["sleep", "600"])
    wait_until(lambda: service.get(f"/v1/jobs/{number}")["job"]["state"] == "running")
    text = service.client.get("/metrics").text
    service.client.post(f"/v1/jobs/{number}/cancel")
    wait_until(lambda: not service.get("/v1/leases")["leases"])

    samples = {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }

    devices = service.get("/v1/devices")["devices"]
    for kind in DeviceKind:
        counted = sum(
            value for key, value in samples.items() if key[0] == "forebay_devices" and kind in key
        )
        assert counted == sum(device["kind"] == kind for device in devices)
    (pool,) = [entry for entry in service.get("/v1/pools")["pools"] if entry["kind"] == "cpu"]
    assert samples["forebay_pool_capacity_millis", "cpu", "default"] == pool["capacity_millis"]
    assert samples["forebay_pool_lent_millis", "cpu", "default"] == 1000
    assert samples["forebay_leases",] == 1
    assert samples["forebay_jobs", "running"] == 1
    for state in JobState:
        assert ("forebay_jobs", state) in samples
    assert samples["forebay_plugin_calls_total", "local"] > 0
    assert samples["forebay_plugin_call_seconds_total", "local"] > 0
    assert samples["forebay_plugin_failures_total", "local"] == 0
    assert samples["forebay_plugin_state", "loaded", "local"] == 1


def test_the_service_is_healthy_while_it_works(service: LiveService) -> None:
    health = service.get("/healthz")

    assert health["status"] == "ok"
    assert 0 <= health["silent_s"] < 60
