"""The document's form, and the check of one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic.alias_generators import to_camel

from forebay.device import (
    DeviceKind,
    FactState,
    HealthStatus,
    LinkKind,
    MemoryKind,
)
from forebay.errors import DescriptorError, Fault, UnitError
from forebay.units import Dimension, format_quantity, parse_quantity

API_VERSION = "forebay.dev/v1"
"""Version of the document's form; within ``v1`` fields are only ever added."""

KIND = "ResourceDescriptor"

SCHEMA_ID = "https://forebay.dev/schemas/resource-descriptor-v1.json"


def _quantity(dimension: Dimension, *, binary: bool = False) -> Any:  # noqa: ANN401 - an annotation
    """Return the annotation of a field that holds a quantity."""

    def read(value: object) -> object:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise ValueError(f"expected a quantity such as {_EXAMPLES[dimension]}")
        if not isinstance(value, str):
            raise ValueError(
                f"is a number without a unit; write for example {_EXAMPLES[dimension]}"
            )
        try:
            quantity = parse_quantity(value, dimension)
        except UnitError as error:
            fault = error.faults[0]
            raise ValueError(f"{fault.message} {fault.fix}") from error
        if quantity < 0:
            raise ValueError(f"found {value}, expected 0 or more")
        return quantity

    base = int if dimension.is_whole else float
    return Annotated[
        base,
        BeforeValidator(read),
        PlainSerializer(
            lambda value: format_quantity(value, dimension, binary=binary, exact=True),
            return_type=str,
        ),
        WithJsonSchema({"type": "string", "examples": [_EXAMPLES[dimension]]}),
    ]


_EXAMPLES = {
    Dimension.BYTES: "80GiB",
    Dimension.BYTES_PER_S: "3.35TB/s",
    Dimension.BITS_PER_S: "200Gbps",
    Dimension.SECONDS: "90ns",
}
if TYPE_CHECKING:
    # A type checker sees what the fields hold, pydantic how they are written.
    Bytes: TypeAlias = int
    BitsPerS: TypeAlias = int
    BytesPerS: TypeAlias = float
    Seconds: TypeAlias = float
else:
    Bytes = _quantity(Dimension.BYTES, binary=True)
    BitsPerS = _quantity(Dimension.BITS_PER_S)
    BytesPerS = _quantity(Dimension.BYTES_PER_S)
    Seconds = _quantity(Dimension.SECONDS)

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,31}")
_DOMAIN = re.compile(r"(?=.{1,63}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
ATTRIBUTE_TEXT_MAX = 64


def _check_attribute_name(name: str) -> str:
    """Check a name by the rules of Kubernetes DRA's ``QualifiedName``.

    ``[domain/]identifier``: a DNS subdomain of at most 63 characters, a C identifier of at most 32.
    """
    domain, slash, identifier = name.rpartition("/")
    if not _IDENTIFIER.fullmatch(identifier):
        raise ValueError(f"{identifier!r} is no C identifier of at most 32 characters")
    if slash and not _DOMAIN.fullmatch(domain):
        raise ValueError(f"{domain!r} is no DNS subdomain of at most 63 characters")
    return name


class _Part(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        alias_generator=to_camel,
        validate_by_name=False,
        validate_by_alias=True,
        serialize_by_alias=True,
    )


_Kind = Annotated[DeviceKind, Field(strict=False)]
_LinkKind = Annotated[LinkKind, Field(strict=False)]
AttributeName = Annotated[str, AfterValidator(_check_attribute_name)]


class MemoryPart(_Part):
    """A memory region."""

    kind: Annotated[MemoryKind, Field(strict=False)] = MemoryKind.UNKNOWN
    capacity: Bytes
    bandwidth: BytesPerS | None = None
    latency: Seconds | None = None
    numa_node: int | None = Field(default=None, ge=0)
    shared_with: list[str] = []


class PortPart(_Part):
    """A network port."""

    name: str
    link_layer: _LinkKind
    rate: BitsPerS | None = None
    rdma: list[_LinkKind] = []
    state: str = ""


class OffloadEnginePart(_Part):
    """A fixed-function engine of a DPU."""

    name: str
    evidence: str = ""


class InterconnectPart(_Part):
    """What a device can be joined by."""

    kinds: list[_LinkKind] = []
    bandwidth: BytesPerS | None = None


class AliasPart(_Part):
    """An index or name some tool uses."""

    kind: str
    value: str


class HealthPart(_Part):
    """A health condition."""

    type: str
    status: Annotated[HealthStatus, Field(strict=False)]
    reason: str = ""
    message: str = ""


class MissingPart(_Part):
    """A fact that was asked for in vain."""

    name: str
    state: Annotated[FactState, Field(strict=False)]
    source: str = ""
    detail: str = ""


class DevicePart(_Part):
    """A device; :class:`forebay.Device` tells what each field means."""

    id: str = Field(min_length=1)
    type: _Kind
    node: str = ""
    vendor: str = ""
    model: str = ""
    capacity_millis: int = Field(default=1000, ge=0)
    architecture: str = ""
    compute_capability: str = ""
    driver_version: str = ""
    memory: list[MemoryPart] = []
    numa_node: int | None = Field(default=None, ge=0)
    pci_address: str = Field(
        default="", pattern=r"^([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])?$"
    )
    pcie_root: str = Field(default="", pattern=r"^(pci[0-9a-f]{4,8}:[0-9a-f]{2})?$")
    interconnect: InterconnectPart = InterconnectPart()
    offload_engines: list[OffloadEnginePart] = []
    ports: list[PortPart] = []
    aliases: list[AliasPart] = []
    attributes: dict[AttributeName, bool | int | str] = {}
    health: list[HealthPart] = []
    missing: list[MissingPart] = []

    @model_validator(mode="after")
    def _check(self) -> DevicePart:
        if self.type in {DeviceKind.RDMA_NIC} and not any(port.rdma for port in self.ports):
            raise ValueError("an rdma_nic needs at least one port with an RDMA protocol")
        if self.type is DeviceKind.CXL_MEMORY and not self.memory:
            raise ValueError("cxl_memory needs at least one memory region")
        for name, value in self.attributes.items():
            if isinstance(value, str) and len(value) > ATTRIBUTE_TEXT_MAX:
                raise ValueError(f"attribute {name} is longer than {ATTRIBUTE_TEXT_MAX} characters")
        return self


class LinkPart(_Part):
    """A link between two of the document's devices."""

    source: str
    target: str
    kind: _LinkKind
    bandwidth: BytesPerS | None = None
    latency: Seconds | None = None
    hops: int = Field(default=1, ge=1)
    evidence: str = ""


class Descriptor(_Part):
    """A Resource Descriptor."""

    api_version: Literal["forebay.dev/v1"]
    kind: Literal["ResourceDescriptor"]
    node: str = ""
    devices: list[DevicePart]
    links: list[LinkPart] = []


def descriptor_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of the document."""
    schema = Descriptor.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": SCHEMA_ID, **schema}


def load_descriptor(document: object) -> Descriptor:
    """Read a document that has been parsed into plain data.

    Raises
    ------
    DescriptorError
        With every fault found; each names its field, none its line, which the parser knows.
    """
    faults: list[Fault] = []
    descriptor = None
    try:
        descriptor = Descriptor.model_validate(document)
    except ValidationError as error:
        faults += [
            _fault(detail["loc"], detail["type"], detail["msg"]) for detail in error.errors()
        ]
    if isinstance(document, Mapping):
        faults += _check_references(document)
    if faults or descriptor is None:
        raise DescriptorError(tuple(faults))
    return descriptor


def field_path(location: Sequence[int | str]) -> str:
    """Return the path of a field as people write it: ``devices[0].memory[1].capacity``."""
    path = ""
    for part in location:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else part
    return path


def _fault(location: tuple[int | str, ...], kind: str, message: str) -> Fault:
    parts = [part for part in location if part not in {"[key]", "bool", "int", "str"}]
    text = message.removeprefix("Value error, ")
    if kind == "extra_forbidden":
        text = "unknown field"
    elif kind == "missing":
        text = "is missing"
    return Fault(text[0].lower() + text[1:].rstrip(".") + ".", field=field_path(parts))


def _check_references(document: Mapping[str, Any]) -> list[Fault]:
    """Check what spans devices and links, even where other faults stand in the way."""
    faults: list[Fault] = []
    first: dict[str, int] = {}
    devices = document.get("devices")
    for index, device in enumerate(devices if isinstance(devices, list) else ()):
        name = device.get("id") if isinstance(device, Mapping) else None
        if not isinstance(name, str):
            continue
        if name in first:
            faults.append(
                Fault(
                    f"the id {name!r} is that of devices[{first[name]}] already.",
                    field=f"devices[{index}].id",
                    fix="Give each device an id of its own.",
                )
            )
        first.setdefault(name, index)
    links = document.get("links")
    for index, link in enumerate(links if isinstance(links, list) else ()):
        if not isinstance(link, Mapping):
            continue
        faults += [
            Fault(
                f"found {link[end]!r}, which is no device of this document.",
                field=f"links[{index}].{end}",
            )
            for end in ("source", "target")
            if isinstance(link.get(end), str) and link[end] not in first
        ]
        if link.get("source") is not None and link.get("source") == link.get("target"):
            faults.append(Fault("joins a device to itself.", field=f"links[{index}]"))
    return faults
