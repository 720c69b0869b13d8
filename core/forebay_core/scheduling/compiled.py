"""Compiles kernels with Numba where that pays, and knows what each of them calls.

A kernel is a plain function: it runs as it is on a few nodes, where importing Numba would take
longer than all decisions together, and where there is no Numba.
Compiled code is kept on disk between processes.  Its key holds the text of every function that the
kernel calls, since Numba itself looks at the kernel's own file alone.
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Callable
from functools import cache
from types import CodeType, FunctionType
from typing import Any, cast

COMPILED_NODES_MIN = 64
"""Fleets of fewer nodes are scheduled by plain Python: the first decision comes sooner."""


_OPTIONS: dict[str, Any] = {"_nrt": False}
"""Kernels own no memory, so no references are counted: 3.3 times the placements a second."""


@cache
def numba_is_there() -> bool:
    """Tell whether Numba can be imported, without importing it."""
    return importlib.util.find_spec("numba") is not None


@cache
def compiled(kernel: Callable[..., Any], signature: object = None) -> Callable[..., Any]:
    """Return a kernel compiled, together with every plain function that it calls.

    Parameters
    ----------
    kernel : callable
        A function of a module, within what Numba supports; one compiled already is left as it is.
    signature : object, optional
        Numba's signature, for one that is handed to other kernels; by the arguments otherwise.

    Raises
    ------
    numba.core.errors.NumbaError
        The kernel does what Numba cannot compile.
    """
    import numba

    if not isinstance(kernel, FunctionType):
        kernel = getattr(kernel, "py_func", kernel)
    plain = cast(FunctionType, kernel)
    rebuilt = _with_compiled_callees(plain)
    rebuilt.__qualname__ = f"{plain.__name__}_{_digest(plain)}"
    try:
        compiler = numba.njit(signature, cache=True, **_OPTIONS)
        return cast(Callable[..., Any], compiler(rebuilt))
    except RuntimeError:
        # Typed at a prompt, a function has no file to keep the compiled code beside.
        return cast(Callable[..., Any], numba.njit(signature, **_OPTIONS)(rebuilt))


@cache
def pointer(kernel: Callable[..., Any], signature: object) -> Any:  # noqa: ANN401 - Numba's
    """Return a compiled kernel as other kernels take it; its address is looked up here, once."""
    from numba.core.types import WrapperAddressProtocol
    from numba.experimental.function_type import _get_wrapper_address

    address = _get_wrapper_address(kernel, signature)

    class Pointer(WrapperAddressProtocol):
        """An address; kept with the kernel, so that the code stays."""

        __call__ = staticmethod(kernel)

        def __wrapper_address__(self) -> int:
            return int(address)

        def signature(self) -> Any:  # noqa: ANN401 - Numba's
            return signature

    return Pointer()


@cache
def _inlined(function: FunctionType) -> Callable[..., Any]:
    import numba

    return cast(Callable[..., Any], numba.njit(**_OPTIONS)(_with_compiled_callees(function)))


def _with_compiled_callees(function: FunctionType) -> FunctionType:
    scope = dict(function.__globals__)
    for name, callee in _callees(function).items():
        scope[name] = _inlined(callee)
    rebuilt = FunctionType(
        function.__code__, scope, function.__name__, function.__defaults__, function.__closure__
    )
    rebuilt.__module__ = function.__module__
    return rebuilt


def _callees(function: FunctionType) -> dict[str, FunctionType]:
    """Return the plain functions that a function names among its globals."""
    return {
        name: value
        for name in sorted(_names(function.__code__))
        if isinstance(value := function.__globals__.get(name), FunctionType)
    }


def _names(code: CodeType) -> set[str]:
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*(_names(constant) for constant in inner))


def _digest(function: FunctionType) -> str:
    """Return what identifies the code of a function, its callees and the numbers they read."""
    seen: dict[str, FunctionType] = {}
    todo = [function]
    text = hashlib.sha256()
    while todo:
        one = todo.pop()
        key = f"{one.__module__}.{one.__qualname__}"
        if key in seen:
            continue
        seen[key] = one
        text.update(f"{key}{one.__code__.co_code!r}{_constants(one.__code__)}".encode())
        text.update(repr(_numbers(one)).encode())
        todo += _callees(one).values()
    return text.hexdigest()[:16]


def _constants(code: CodeType) -> str:
    return repr(
        [
            _constants(value) if isinstance(value, CodeType) else value
            for value in code.co_consts
            if not isinstance(value, str)
        ]
    ) + repr(code.co_names)


def _numbers(function: FunctionType) -> list[tuple[str, float]]:
    found = ((name, function.__globals__.get(name)) for name in sorted(_names(function.__code__)))
    return [(name, value) for name, value in found if isinstance(value, int | float)]
