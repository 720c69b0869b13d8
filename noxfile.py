"""Every check of the project: ``nox`` runs them all, ``nox -s lint`` one.

With ``nox --no-venv`` they run in the current environment, which has ``.[dev]`` installed.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import nox

nox.needs_version = ">=2024.4.15"
nox.options.reuse_existing_virtualenvs = True


def install(session: nox.Session, extra: str) -> None:
    """Install the checkout with an extra, unless the current environment is used."""
    if session.virtualenv.venv_backend != "none":
        session.install("--editable", f".[{extra}]")


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, format and news fragments; ``nox -s lint -- --fix`` repairs what it can."""
    install(session, "dev")
    if "--fix" in session.posargs:
        session.run("ruff", "check", "--fix", ".")
        session.run("ruff", "format", ".")
        return
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("towncrier", "build", "--draft", "--version", "next", silent=True)


@nox.session
def types(session: nox.Session) -> None:
    """Check types with mypy and imports with pyright."""
    install(session, "dev")
    session.run("mypy")
    session.run("pyright")


@nox.session
def layers(session: nox.Session) -> None:
    """Check that imports point down."""
    install(session, "dev")
    session.run("lint-imports")


@nox.session
def tests(session: nox.Session) -> None:
    """Run the tests; ``nox -s tests -- tests/core -x`` passes arguments to pytest."""
    install(session, "test")
    session.run("pytest", *session.posargs)


@nox.session
def docs(session: nox.Session) -> None:
    """Build the documentation; a warning is an error."""
    install(session, "docs")
    session.run(
        "sphinx-build", "--quiet", "-W", "--keep-going", "-b", "html", "docs", "docs/_build/html"
    )


@nox.session
def build(session: nox.Session) -> None:
    """Build the distributions, then use the wheel in an environment of its own."""
    install(session, "test")
    # Away from the checkout, so that nothing but the wheel can be imported.
    with TemporaryDirectory() as elsewhere:
        session.run("python", "-m", "build", "--outdir", elsewhere)
        session.chdir(elsewhere)
        (wheel,) = Path(elsewhere).glob("*.whl")
        session.run("python", "-m", "venv", "venv")
        session.run("venv/bin/pip", "install", "--quiet", str(wheel), external=True)
        forebay = f"{elsewhere}/venv/bin/forebay"
        session.run(forebay, "--help", external=True, silent=True)
        session.run(forebay, "devices", external=True)
        session.run(forebay, "devices", "--json", external=True, silent=True)
        session.run(forebay, "run", "--", "echo", "hello from the wheel", external=True)
