"""Fetches Debian's kernels into a folder. Uses a private state of apt, so that the system's apt is not
changed.

    python -m tests.kernels.fetch [NAME …]

Names are those of `DEBIAN`; without names, all are fetched. A kernel in the folder is not fetched again:
remove its subfolder to get a newer one. Environment variables: STALLTOP_KERNEL_CACHE (the folder, default
/var/cache/stalltop-tests/kernels) and STALLTOP_DEBIAN_MIRROR (default: the mirror that apt uses).
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

CACHE_VARIABLE = "STALLTOP_KERNEL_CACHE"
MIRROR_VARIABLE = "STALLTOP_DEBIAN_MIRROR"
FOLDER_VARIABLE = "STALLTOP_KERNELS"

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_SECONDS = 180
"""Longest time for one run of apt, in seconds."""
_PACKAGE = re.compile(r"linux-(?:image|binary)-((\d+\.\d+)\S*)-cloud-(?:amd64|arm64)$")
"""Matches packages with the image of a cloud kernel. Cloud kernels have few drivers and so a third of the
size of other kernels, but everything that tracing needs. From 7.0 on the image is in the package
linux-binary-…."""


class FetchError(Exception):
    """A kernel or package cannot be fetched; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class DebianKernel:
    """A kernel of Debian."""

    name: str
    release: str
    """Name of a Debian release, or of its backports, such as trixie-backports."""
    series: str = ""
    """The first two numbers of the kernel's version; '' for the newest series of the release."""
    in_ci: bool = False
    architecture: str = "amd64"
    """Debian's name of the architecture."""


DEBIAN = (
    DebianKernel("debian-12", "bookworm", "6.1", in_ci=True),
    DebianKernel("debian-13", "trixie", "6.12", in_ci=True),
    DebianKernel("debian-12-backports", "bookworm-backports"),
    DebianKernel("debian-13-backports-6.16", "trixie-backports", "6.16"),
    DebianKernel("debian-13-backports-6.18", "trixie-backports", "6.18"),
    DebianKernel("debian-13-backports-7.0", "trixie-backports", "7.0"),
    DebianKernel("debian-13-backports", "trixie-backports"),
    DebianKernel("debian-sid", "sid"),
    DebianKernel("debian-12-arm64", "bookworm", "6.1", architecture="arm64"),
    DebianKernel("debian-13-arm64", "trixie", "6.12", architecture="arm64"),
)


def cache_folder() -> Path:
    """Return the folder of fetched kernels."""
    return Path(os.environ.get(CACHE_VARIABLE) or "/var/cache/stalltop-tests/kernels")


def other_kernels() -> list[Path]:
    """Return every file ``vmlinuz*`` in the folder that STALLTOP_KERNELS names; [] if the variable is not
    set."""
    folder = os.environ.get(FOLDER_VARIABLE)
    return sorted(Path(folder).glob("vmlinuz*")) if folder else []


def fetched(wanted: DebianKernel) -> Path:
    """Return the kernel's image; fetch it unless it is in the folder. Raises FetchError."""
    place = kept(wanted.name, lambda work: _fetch(wanted, work))
    return next(place.glob("vmlinuz-*"))


def kept(name: str, make: Callable[[Path], Path]) -> Path:
    """Return the folder ``name`` of the cache; if it is missing, ``make`` makes it in a temporary folder.

    Raises FetchError.
    """
    place = cache_folder() / name
    if place.exists():
        return place
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        raise FetchError(f"{name}: apt-get or dpkg-deb is not installed; make {place} elsewhere and copy it")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".fetching-", dir=place.parent) as work:
            os.chmod(work, 0o755)
            make(Path(work)).rename(place)  # atomic: the folder is complete or missing
    except OSError as error:
        raise FetchError(f"{name}: {place}: {error.strerror}") from error
    return place


def _fetch(wanted: DebianKernel, work: Path) -> Path:
    apt = private_apt(wanted.release, wanted.architecture, work)
    package = _newest(apt("apt-cache", "pkgnames", "linux-").split(), wanted.series)
    if package is None:
        raise FetchError(f"{wanted.name}: {wanted.release} has no cloud kernel {wanted.series}")
    apt("apt-get", "download", package)
    (archive,) = work.glob("*.deb")
    tree, made = work / "tree", work / "made"
    made.mkdir()
    run("dpkg-deb", "-x", str(archive), str(tree))
    images = [path for path in tree.rglob("vmlinuz*") if path.is_file() and not path.is_symlink()]
    if not images:
        raise FetchError(f"{wanted.name}: no kernel image in {package}")
    version = _PACKAGE.match(package)
    assert version
    images[0].rename(made / f"vmlinuz-{version[1]}-cloud-{wanted.architecture}")
    return made


def _newest(names: Iterable[str], series: str) -> str | None:
    """Return the package of ``series`` (of any series if it is '') with the highest version.

    Returns None if ``names`` contains no such package.
    """
    found = [name for name in names if (match := _PACKAGE.match(name)) and series in ("", match[2])]

    def version(name: str) -> tuple[list[int], bool]:
        return [int(number) for number in re.findall(r"\d+", name)], name.startswith("linux-binary-")

    return max(found, key=version, default=None)


def private_apt(release: str, architecture: str, work: Path) -> Callable[..., str]:
    """Return a function that runs apt's programs with a state in ``work`` and ``release`` as the only source.

    Both this function and the returned one raise FetchError.
    """
    if not KEYRING.exists():
        raise FetchError(f"{KEYRING} is missing: apt-get install debian-archive-keyring")
    (work / "lists/partial").mkdir(parents=True)
    (work / "cache/archives/partial").mkdir(parents=True)
    (work / "status").touch()
    lines = [f"deb [arch={architecture} signed-by={KEYRING}] {mirror()} {release} main\n"]
    security = _mirrors().get("debian-security")
    if security and release in ("bookworm", "trixie"):
        lines.append(f"deb [arch={architecture} signed-by={KEYRING}] {security} {release}-security main\n")
    (work / "sources.list").write_text("".join(lines))
    options = {
        "Dir::State": work,
        "Dir::State::lists": work / "lists",
        "Dir::State::status": work / "status",
        "Dir::Cache": work / "cache",
        "Dir::Etc::sourcelist": work / "sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::Etc::preferences": "/dev/null",
        "Dir::Etc::preferencesparts": "/dev/null",
        "APT::Architecture": architecture,
        "APT::Architectures": architecture,
        "Debug::NoLocking": "1",
        "APT::Sandbox::User": "root",
        "Acquire::Languages": "none",
        "Acquire::Retries": "3",
    }
    words = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]

    def apt(program: str, *arguments: str) -> str:
        return run(program, *words, "-q", *arguments, folder=work)

    apt("apt-get", "update")
    return apt


def mirror() -> str:
    """Return the mirror of Debian's archive: STALLTOP_DEBIAN_MIRROR, else the one of this system's apt."""
    found = os.environ.get(MIRROR_VARIABLE) or _mirrors().get("debian")
    if not found:
        raise FetchError(f"this system's apt has no mirror of Debian: name one in {MIRROR_VARIABLE}")
    return found


@functools.cache
def _mirrors() -> dict[str, str]:
    """Return this system's mirrors by the last part of their path, ``debian`` or ``debian-security``."""
    targets = run("apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages")
    return {Path(urlsplit(uri).path).name: uri for uri in reversed(targets.split())}


def run(*command: str, folder: Path | None = None) -> str:
    """Run ``command`` and return its output. Raises FetchError if it fails."""
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise FetchError(f"{command[0]}: {error}") from error
    if done.returncode:
        raise FetchError(f"{' '.join([command[0], command[-1]])}: {done.stderr.strip() or done.returncode}")
    return done.stdout


def main(names: list[str]) -> int:
    """Fetch ``names`` and print each path; return 1 if a kernel cannot be fetched, 2 for an unknown name."""
    known = {wanted.name: wanted for wanted in DEBIAN}
    if unknown := [name for name in names if name not in known]:
        print(f"unknown kernels: {' '.join(unknown)}; known: {' '.join(known)}", file=sys.stderr)
        return 2
    failed = 0
    for name in names or known:
        try:
            print(f"{name}\t{fetched(known[name])}")
        except FetchError as error:
            print(error, file=sys.stderr)
            failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
