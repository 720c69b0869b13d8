import typer

app = typer.Typer()


@app.command("list")
def list_() -> None: ...
