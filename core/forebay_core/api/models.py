"""Bodies of requests and responses, where a value of the contract alone does not do."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from forebay import Device, DiscoveryFailure, Event, Job, Lease, Link, Node
from forebay_core.plugins import PluginRecord
from forebay_core.runtime.amounts import PoolAmounts
from forebay_core.scheduling import Explanation


def _for_the_system(text: str) -> str:
    """Check that the operating system can be handed a text, for example as an argument."""
    if "\0" in text:
        raise ValueError("found a NUL, which no operating system passes to a program")
    try:
        os.fsencode(text)
    except UnicodeEncodeError as error:
        raise ValueError("found half a character") from error
    return text


Text = Annotated[str, AfterValidator(_for_the_system)]
VariableName = Annotated[Text, Field(pattern="^[^=]+$")]


class JobSubmission(BaseModel):
    """What to run; the texts are those of the command line."""

    model_config = ConfigDict(extra="forbid")

    command: list[Text] = Field(
        min_length=1,
        description="Program and arguments; never passed through a shell.",
        examples=[["python3", "train.py"]],
    )
    request: Text = Field(
        "", description="Amounts; one core if empty.", examples=["cpu=2,gpu=0.5,gpu.memory=20GiB"]
    )
    device: list[Text] = Field(
        default_factory=list, description="Conditions on devices.", examples=[["vendor==nvidia"]]
    )
    node: list[Text] = Field(default_factory=list, description="Conditions on the node's labels.")
    linked: bool = Field(False, description="Devices must be joined by links.")
    pool: Text = Field("default", description="Pool to draw from.")
    name: Text = ""
    environment: dict[VariableName, Text] = Field(default_factory=dict)
    directory: Text = Field(
        "", description="Working directory, absolute; empty means the engine's default."
    )
    time_limit: Text | None = Field(
        None, description="End the work after this long.", examples=["10min"]
    )
    priority: int = Field(0, ge=-(2**31), lt=2**31, description="Higher is placed first.")
    accelerate: bool = Field(True, description="Apply accelerators, such as process-tuning.")


class FoundFailure(BaseModel):
    """Something that is there and could not be read."""

    plugin: str
    failure: DiscoveryFailure


class Absence(BaseModel):
    """A plugin that found nothing of its own, with the reason."""

    plugin: str
    reason: str


class DevicesAnswer(BaseModel):
    """What the adapters found when they last looked."""

    nodes: list[Node]
    devices: list[Device]
    links: list[Link]
    failures: list[FoundFailure]
    absent: list[Absence]


class PoolsAnswer(BaseModel):
    """What may be lent, and is."""

    pools: list[PoolAmounts]


class PluginsAnswer(BaseModel):
    """Every plugin installed, and how it fares in the service."""

    plugins: list[PluginRecord]


class JobsAnswer(BaseModel):
    """Jobs in order of number."""

    jobs: list[Job]


class LeaseOfJob(BaseModel):
    """A lease and why it was chosen."""

    lease: Lease
    engine: str
    policy: str
    terms: Mapping[str, float] = Field(description="Terms of the policy's score.")


class JobAnswer(BaseModel):
    """A job and the leases it ever had."""

    job: Job
    leases: list[LeaseOfJob]


class ExplanationAnswer(JobAnswer):
    """Why a job waits, or where and why there it ran."""

    explanation: Explanation | None = Field(description="Of a job that waits; otherwise null.")


class LeasesAnswer(BaseModel):
    """The leases in force, in order of number."""

    leases: list[Lease]


class EventsAnswer(BaseModel):
    """Events in order of sequence."""

    events: list[Event]
    next_after: int = Field(description="The value of 'after' that continues from here.")


class Health(BaseModel):
    """Whether the service works."""

    status: str
    silent_s: float = Field(description="Seconds since the last step of the cycle was done.")
