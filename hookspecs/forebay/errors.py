"""Errors that cross the contract.

::

    ForebayError
    ├── InputError (ValueError)          a person or a file gave something wrong
    │   ├── UnitError                    a quantity could not be read
    │   ├── DescriptorError              a Resource Descriptor has faults
    │   ├── ManifestError                a plugin manifest has faults
    │   ├── ConfigError                  a configuration file or value has faults
    │   └── RequestError                 a request for resources has faults
    ├── NotFoundError (LookupError)      a job, device, pool or plugin of that name is unknown
    ├── CapacityError                    more was asked for than exists
    ├── StateError                       the operation does not fit the present state
    ├── UnsupportedError                 the plugin does not offer this operation
    ├── DeviceError                      a device or its driver failed
    │   ├── DeviceLostError              the device was there and has gone
    │   ├── PermissionDeniedError        the device exists, access is not permitted
    │   └── DeviceTimeoutError           the device or its library did not answer in time
    ├── EngineError                      an engine could not start, find or stop work
    └── PluginError                      a plugin broke the contract
        ├── IncompatiblePluginError      plugin and host speak different API versions
        ├── PluginCrashedError           the plugin's process ended without an answer
        ├── PluginTimeoutError           the plugin did not answer before its deadline
        └── PluginQuarantinedError       the host no longer calls this plugin

Messages say who, where, what was found, what was expected and what to do.
The same facts are attributes, so that programs need not parse text.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "CapacityError",
    "ConfigError",
    "DescriptorError",
    "DeviceError",
    "DeviceLostError",
    "DeviceTimeoutError",
    "EngineError",
    "Fault",
    "ForebayError",
    "IncompatiblePluginError",
    "InputError",
    "ManifestError",
    "NotFoundError",
    "PermissionDeniedError",
    "PluginCrashedError",
    "PluginError",
    "PluginQuarantinedError",
    "PluginTimeoutError",
    "RequestError",
    "StateError",
    "UnitError",
    "UnsupportedError",
]


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong with an input.

    Parameters
    ----------
    message : str
        What was found and what was expected, one sentence.
    source : str, optional
        File or command-line option; empty when unknown.
    line : int, optional
        Line in the file, counted from 1.
    field : str, optional
        Path of the field inside the document, for example ``memory[0].capacity``.
    fix : str, optional
        What to do about it, one sentence.
    """

    message: str
    source: str = ""
    line: int | None = None
    field: str = ""
    fix: str = ""

    def __str__(self) -> str:
        """Return ``source:line: field: message fix``, leaving out what is unknown."""
        place = self.source + (f":{self.line}" if self.line is not None else "")
        parts = [part for part in (place, self.field, self.message) if part]
        return ": ".join(parts) + (f" {self.fix}" if self.fix else "")


class ForebayError(Exception):
    """Base of every error that Forebay or a plugin raises on purpose."""

    fix: str = ""
    """What the reader can do, one sentence; empty when nothing helps."""

    def __init__(self, message: str, *, fix: str = "") -> None:
        super().__init__(message)
        if fix:
            self.fix = fix


class InputError(ForebayError, ValueError):
    """A person or a file gave something wrong; carries every fault found.

    Parameters
    ----------
    faults : tuple of Fault
        At least one.
    """

    def __init__(self, faults: tuple[Fault, ...] | Fault | str) -> None:
        if isinstance(faults, str):
            faults = (Fault(faults),)
        elif isinstance(faults, Fault):
            faults = (faults,)
        self.faults: tuple[Fault, ...] = faults
        super().__init__("\n".join(str(fault) for fault in faults))


class UnitError(InputError):
    """A quantity could not be read: unknown unit, wrong dimension or ambiguous prefix."""


class DescriptorError(InputError):
    """A Resource Descriptor has faults."""


class ManifestError(InputError):
    """A plugin manifest has faults."""


class ConfigError(InputError):
    """A configuration file or value has faults."""


class RequestError(InputError):
    """A request for resources has faults."""


class NotFoundError(ForebayError, LookupError):
    """A job, device, pool or plugin of that name is unknown."""


class CapacityError(ForebayError):
    """More was asked for than exists, even with nothing running."""


class StateError(ForebayError):
    """The operation does not fit the present state of the job, lease or device."""


class UnsupportedError(ForebayError):
    """The plugin does not offer this operation; the capability is not declared."""


class DeviceError(ForebayError):
    """A device or its driver failed."""


class DeviceLostError(DeviceError):
    """The device was there and has gone."""


class PermissionDeniedError(DeviceError):
    """The device exists, but this user may not use it."""


class DeviceTimeoutError(DeviceError):
    """The device or its library did not answer in time."""


class EngineError(ForebayError):
    """An engine could not start, find or stop work."""


class PluginError(ForebayError):
    """A plugin broke the contract; the message names the plugin.

    Parameters
    ----------
    plugin : str
        Id of the plugin.
    message : str
        What happened, without the plugin's name.
    """

    def __init__(self, plugin: str, message: str, *, fix: str = "") -> None:
        self.plugin = plugin
        super().__init__(f"plugin {plugin}: {message}", fix=fix)


class IncompatiblePluginError(PluginError):
    """Plugin and host speak different versions of the contract."""


class PluginCrashedError(PluginError):
    """The plugin's process ended without an answer."""


class PluginTimeoutError(PluginError):
    """The plugin did not answer before its deadline."""


class PluginQuarantinedError(PluginError):
    """The host no longer calls this plugin."""
