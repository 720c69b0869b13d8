"""NVML through NVIDIA's own ``nvidia-ml-py``, and what its errors mean here.

NVML API reference, chapter *Device Queries*; error codes are those of ``nvmlReturn_t``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from forebay import DeviceError, FactState, MissingFact


class NvmlUnavailableError(DeviceError):
    """NVML cannot be used at all.

    Parameters
    ----------
    message : str
    state : FactState
        DRIVER_ABSENT where there is no driver or library, else UNKNOWN.
    """

    def __init__(self, message: str, state: FactState, fix: str) -> None:
        super().__init__(message, fix=fix)
        self.state = state


@contextmanager
def session() -> Iterator[ModuleType]:
    """Load and initialise NVML for the length of a block; a new session sees a new driver.

    Raises
    ------
    NvmlUnavailableError
        Says which of the ways to be unavailable it is, and what to do.
    """
    try:
        import pynvml
    except ImportError as error:
        raise NvmlUnavailableError(
            "the Python package nvidia-ml-py is not installed.",
            FactState.DRIVER_ABSENT,
            "Install it with: pip install 'forebay[nvidia]'",
        ) from error
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise _unavailable(pynvml, error) from error
    try:
        yield pynvml
    finally:
        pynvml.nvmlShutdown()


def _unavailable(pynvml: ModuleType, error: Exception) -> NvmlUnavailableError:
    code = getattr(error, "value", None)
    if code == pynvml.NVML_ERROR_LIBRARY_NOT_FOUND:
        return NvmlUnavailableError(
            "the library libnvidia-ml.so.1 is not installed.",
            FactState.DRIVER_ABSENT,
            "Install the NVIDIA driver.",
        )
    if code == pynvml.NVML_ERROR_DRIVER_NOT_LOADED:
        return NvmlUnavailableError(
            "the NVIDIA driver is not loaded.",
            FactState.DRIVER_ABSENT,
            "Load it with: modprobe nvidia",
        )
    if code == pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH:
        return NvmlUnavailableError(
            "library and kernel module of the NVIDIA driver are of different versions.",
            FactState.UNKNOWN,
            "Reboot, or unload and load the module, so that the new version is used.",
        )
    return NvmlUnavailableError(
        f"NVML cannot be initialised: {error}.", FactState.UNKNOWN, "See the kernel's log: dmesg"
    )


def state_of(pynvml: ModuleType, error: Exception) -> FactState:
    """Return what an NVML error says of a value."""
    return {
        pynvml.NVML_ERROR_NOT_SUPPORTED: FactState.NOT_SUPPORTED,
        pynvml.NVML_ERROR_FUNCTION_NOT_FOUND: FactState.NOT_SUPPORTED,
        pynvml.NVML_ERROR_NO_PERMISSION: FactState.NOT_PERMITTED,
        pynvml.NVML_ERROR_GPU_IS_LOST: FactState.LOST,
        pynvml.NVML_ERROR_TIMEOUT: FactState.TIMEOUT,
    }.get(getattr(error, "value", None), FactState.UNKNOWN)


class Facts:
    """Asks NVML for facts of one device, and notes those it cannot have.

    Parameters
    ----------
    pynvml : module
    handle : object
        NVML's handle of the device.
    """

    def __init__(self, pynvml: ModuleType, handle: object) -> None:
        self._pynvml = pynvml
        self._handle = handle
        self.missing: list[MissingFact] = []

    def ask(self, name: str, function: str, *arguments: object) -> Any:  # noqa: ANN401 - as NVML
        """Return NVML's answer, or None with the reason noted under ``name``.

        Raises
        ------
        NVMLError
            The device is lost: then nothing else of it can be known either.
        """
        call: Callable[..., Any] = getattr(self._pynvml, function)
        try:
            return call(self._handle, *arguments)
        except self._pynvml.NVMLError as error:
            state = state_of(self._pynvml, error)
            if state is FactState.LOST:
                raise
            self.missing.append(MissingFact(name, state, function, str(error)))
            return None
