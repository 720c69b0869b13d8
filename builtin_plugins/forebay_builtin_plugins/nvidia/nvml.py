"""NVML through NVIDIA's own ``nvidia-ml-py``, and what its errors mean here.

NVML API reference, chapter *Device Queries*; error codes are those of ``nvmlReturn_t``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from forebay import DeviceError, FactState, MissingFact


class NvmlUnavailableError(DeviceError):
    """NVML cannot be used at all.

    Parameters
    ----------
    message : str
    state : FactState
        DRIVER_ABSENT where there is no driver or library.
    fix : str
    """

    def __init__(self, message: str, state: FactState, fix: str) -> None:
        super().__init__(message, fix=fix)
        self.state = state


@contextmanager
def session(root: Path) -> Iterator[ModuleType]:
    """Load and initialise NVML for the length of a block; a new session sees a new driver.

    Parameters
    ----------
    root : Path
        Where the file system begins.

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
        raise _unavailable(pynvml, error, root) from error
    try:
        yield pynvml
    finally:
        pynvml.nvmlShutdown()


def _unavailable(pynvml: ModuleType, error: Exception, root: Path) -> NvmlUnavailableError:
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
            "library and kernel module of the NVIDIA driver are of different versions: "
            f"the library is {_library_version(pynvml)}, "
            f"the module {module_version(root) or 'unknown'}.",
            FactState.UNKNOWN,
            "Reboot, or unload and load the module, so that the new version is used.",
        )
    return NvmlUnavailableError(
        f"NVML cannot be initialised: {error}.",
        state_of(pynvml, error),
        "See the kernel's log: dmesg",
    )


def module_version(root: Path) -> str:
    """Return the version of the kernel module that is loaded, empty where none is."""
    try:
        found = (root / "proc/driver/nvidia/version").read_text()
    except OSError:
        return ""
    match = re.search(r"Kernel Module(?: for \S+)?\s+([\d.]+)", found)
    return match[1] if match else ""


def _library_version(pynvml: ModuleType) -> str:
    """Return NVML's version, which it tells uninitialised too: CUDA's major, then the driver's."""
    try:
        return text(pynvml.nvmlSystemGetNVMLVersion())
    except pynvml.NVMLError:
        return "unknown"


def text(value: str | bytes) -> str:
    """Return NVML's text; older releases of nvidia-ml-py return bytes."""
    return value.decode() if isinstance(value, bytes) else value


def state_of(pynvml: ModuleType, error: Exception) -> FactState:
    """Return what an NVML error says of a value."""
    return {
        pynvml.NVML_ERROR_NOT_SUPPORTED: FactState.NOT_SUPPORTED,
        pynvml.NVML_ERROR_FUNCTION_NOT_FOUND: FactState.NOT_SUPPORTED,
        pynvml.NVML_ERROR_NO_PERMISSION: FactState.NOT_PERMITTED,
        pynvml.NVML_ERROR_GPU_IS_LOST: FactState.LOST,
        pynvml.NVML_ERROR_TIMEOUT: FactState.TIMEOUT,
    }.get(getattr(error, "value", None), FactState.UNKNOWN)


def state_by_uuid(pynvml: ModuleType, error: Exception) -> FactState:
    """Return the same of a device that was known before: without its UUID it is lost."""
    if getattr(error, "value", None) == pynvml.NVML_ERROR_NOT_FOUND:
        return FactState.LOST
    return state_of(pynvml, error)


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

    def ask(self, name: str | None, function: str, *arguments: object) -> Any:  # noqa: ANN401 - as NVML
        """Return NVML's answer, or None with the reason noted.

        Parameters
        ----------
        name : str or None
            Fact that is missing without an answer; None where its lack is nothing to note.
        function : str
        *arguments : object
            Of the function, after the handle.

        Raises
        ------
        NVMLError
            The device is lost: then nothing else of it can be known either.
        """
        call: Callable[..., Any] | None = getattr(self._pynvml, function, None)
        if call is None:
            self._miss(name, FactState.NOT_SUPPORTED, function, "nvidia-ml-py is too old.")
            return None
        try:
            return call(self._handle, *arguments)
        except self._pynvml.NVMLError as error:
            state = state_of(self._pynvml, error)
            if state is FactState.LOST:
                raise
            self._miss(name, state, function, str(error))
            return None

    def _miss(self, name: str | None, state: FactState, source: str, detail: str) -> None:
        if name is not None:
            self.missing.append(MissingFact(name, state, source, detail))
