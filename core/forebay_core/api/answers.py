"""How answers are written."""

from __future__ import annotations

import json
import math
from typing import Any

from fastapi.responses import JSONResponse


class AsciiJSONResponse(JSONResponse):
    r"""JSON in ASCII, with null for numbers that JSON cannot say.

    Arguments of a command are bytes to the operating system.
    Those that are no Unicode text are lone surrogates in Python (PEP 383),
    which cannot be written in UTF-8, and can be escaped: ``\udcff``.
    """

    def render(self, content: Any) -> bytes:  # noqa: ANN401 - as in the base class
        """Return the body."""
        try:
            text = json.dumps(content, allow_nan=False, separators=(",", ":"))
        except ValueError:
            text = json.dumps(_finite(content), allow_nan=False, separators=(",", ":"))
        return text.encode("ascii")


def _finite(value: Any) -> Any:  # noqa: ANN401 - whatever JSON says
    """Return a value with null for the numbers that are not finite, such as a policy's terms."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
