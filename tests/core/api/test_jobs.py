from __future__ import annotations

import sys

from forebay import JobState
from live_service import LiveService
from polling import wait_until


def ended(service: LiveService, number: int) -> dict[str, object]:
    """Return a job's document once it has ended."""
    found: dict[str, object] = {}

    def is_final() -> bool:
        found.update(service.get(f"/v1/jobs/{number}")["job"])
        return JobState(str(found["state"])).is_final

    wait_until(is_final)
    return found


def test_a_submitted_job_runs_and_its_output_can_be_read(service: LiveService) -> None:
    number = service.submit(["sh", "-c", "echo out $WORD; echo err >&2"], environment={"WORD": "x"})

    job = ended(service, number)

    assert (job["state"], job["exit_status"]) == ("completed", 0)
    out = service.client.get(f"/v1/jobs/{number}/logs")
    assert out.content == b"out x\n"
    assert out.headers["Next-Offset"] == "6"
    assert service.client.get(f"/v1/jobs/{number}/logs", params={"offset": 4}).content == b"x\n"
    assert service.client.get(f"/v1/jobs/{number}/logs", params={"limit": 3}).content == b"out"
    err = service.client.get(f"/v1/jobs/{number}/logs", params={"stream": "stderr"})
    assert err.content == b"err\n"


def test_output_that_is_not_text_arrives_byte_for_byte(service: LiveService) -> None:
    program = "import sys; sys.stdout.buffer.write(bytes(range(256)) * 40)"
    number = service.submit([sys.executable, "-c", program])
    ended(service, number)

    assert service.client.get(f"/v1/jobs/{number}/logs").content == bytes(range(256)) * 40


def test_an_argument_that_is_no_text_reaches_the_command_as_it_is(service: LiveService) -> None:
    # Python says the byte 0xff of an argument so, and JSON can (PEP 383).
    body = b'{"command": ["printf", "%s", "\\udcff"]}'
    answer = service.client.post(
        "/v1/jobs", content=body, headers={"Content-Type": "application/json"}
    )
    number = answer.json()["id"]

    assert ended(service, number)["state"] == "completed"
    assert service.client.get(f"/v1/jobs/{number}/logs").content == b"\xff"
    assert service.get("/v1/jobs", limit=1)["jobs"][0]["spec"]["command"][2] == "\udcff"


def test_the_answer_to_a_submission_tells_where_the_job_is(service: LiveService) -> None:
    answer = service.client.post("/v1/jobs", json={"command": ["true"], "name": "first"})

    assert service.client.get(answer.headers["Location"]).json()["job"]["spec"]["name"] == "first"


def test_a_cancelled_job_ends_and_gives_its_lease_back(service: LiveService) -> None:
    number = service.submit(["sleep", "600"])
    wait_until(lambda: service.get(f"/v1/jobs/{number}")["job"]["state"] == "running")
    assert [lease["job"] for lease in service.get("/v1/leases")["leases"]] == [number]

    assert service.client.post(f"/v1/jobs/{number}/cancel").status_code == 202

    assert ended(service, number)["state"] == "cancelled"
    assert service.alive() == []
    assert service.get("/v1/leases")["leases"] == []
    again = service.client.post(f"/v1/jobs/{number}/cancel")
    assert (again.status_code, again.json()["type"]) == (409, "urn:forebay:problem:state")


def test_a_time_limit_ends_the_job(service: LiveService) -> None:
    number = service.submit(["sleep", "600"], time_limit="300ms")

    assert ended(service, number)["state"] == "timeout"


def test_a_job_that_waits_is_explained_with_what_would_let_it_run(service: LiveService) -> None:
    capacity = sum(
        device["capacity_millis"]
        for device in service.get("/v1/devices")["devices"]
        if device["kind"] == "cpu"
    )
    everything = f"cpu={capacity / 1000:g}"
    first = service.submit(["sleep", "600"], request=everything)
    wait_until(lambda: service.get(f"/v1/jobs/{first}")["job"]["state"] == "running")
    second = service.submit(["true"], request=everything)

    waits = service.get(f"/v1/jobs/{second}/explain")
    runs = service.get(f"/v1/jobs/{first}/explain")
    queue = service.get("/v1/jobs", state="pending")["jobs"]
    service.client.post(f"/v1/jobs/{first}/cancel")

    assert waits["job"]["state"] == "pending"
    assert waits["explanation"]
    assert runs["explanation"] is None
    assert runs["leases"][0]["policy"] == "best-fit"
    assert [job["id"] for job in queue] == [second]
    assert ended(service, second)["state"] == "completed"


def test_only_the_newest_jobs_are_listed_in_order_of_number(service: LiveService) -> None:
    numbers = [service.submit(["true"]) for _ in range(3)]

    assert [job["id"] for job in service.get("/v1/jobs", limit=2)["jobs"]] == numbers[1:]


def test_events_are_read_on_from_where_one_stopped(service: LiveService) -> None:
    ended(service, service.submit(["true"]))
    whole = service.get("/v1/events", limit=10_000)

    pieces: list[object] = []
    after = 0
    while piece := service.get("/v1/events", after=after, limit=7):
        if not piece["events"]:
            break
        pieces += piece["events"]
        after = piece["next_after"]

    assert pieces[: len(whole["events"])] == whole["events"]
