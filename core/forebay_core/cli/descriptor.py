"""``forebay descriptor``: the schema of Resource Descriptors, and a check of files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from forebay_core.cli.output import print_json

app = typer.Typer(no_args_is_help=True)


@app.command()
def schema() -> None:
    """Print the JSON Schema of Resource Descriptors."""
    from forebay.descriptor import descriptor_schema

    print_json(descriptor_schema())


@app.command()
def validate(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="YAML or JSON files.")],
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check files and tell every fault with its line; exit status 2 when there is one."""
    from forebay import DescriptorError
    from forebay_core.descriptors import read_descriptor

    results = []
    for file in files:
        try:
            descriptor = read_descriptor(file)
        except DescriptorError as error:
            results.append({"file": str(file), "valid": False, "faults": error.faults})
            if not json:
                for fault in error.faults:
                    print(fault, file=sys.stderr)
        else:
            results.append({"file": str(file), "valid": True, "faults": ()})
            if not json:
                kinds = ", ".join(sorted({part.type.value for part in descriptor.devices}))
                print(
                    f"{file}: valid, {len(descriptor.devices)} device(s) ({kinds}), "
                    f"{len(descriptor.links)} link(s)"
                )
    if json:
        print_json(results)
    if not all(result["valid"] for result in results):
        raise typer.Exit(2)
