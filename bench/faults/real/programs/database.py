"""Runs PostgreSQL with an empty database in --folder. PostgreSQL refuses to run as root, so it runs in a user
namespace in which root has another number."""

import argparse
import pathlib
import subprocess

import control
import pgserver

_NOT_ROOT = ("unshare", "--user", "--map-user=1000", "--map-group=1000")
_PROGRAMS = pathlib.Path(pgserver.__file__).parent / "pginstall" / "bin"


def main() -> None:
    """Serves until it is killed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", required=True)
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    chosen = parser.parse_args()
    data = chosen.folder / "database"
    make = (_PROGRAMS / "initdb", "-D", data, "-A", "trust", "-U", "features", "--no-sync")
    subprocess.run((*_NOT_ROOT, *make), check=True, stdout=subprocess.DEVNULL)
    settings = (
        "listen_addresses=127.0.0.1",
        f"port={chosen.port}",
        f"unix_socket_directories={chosen.folder}",
    )
    options = [word for setting in settings for word in ("-c", setting)]
    server = subprocess.Popen((*_NOT_ROOT, _PROGRAMS / "postgres", "-D", data, *options))
    while subprocess.run((_PROGRAMS / "pg_isready", "-q", "-h", "127.0.0.1", "-p", chosen.port)).returncode:
        pass
    control.ready()
    server.wait()


main()
