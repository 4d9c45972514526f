"""Tests tenants that are users: a login session, and a unit of a user's systemd manager."""

from __future__ import annotations

from pathlib import Path

from tests.systems.guest import Guest, ended, need, output, splits_add_up, told, wait_until

USER = "anna"
CALLS = "cudaLaunchKernel:4 cudaStreamSynchronize ~20000"


def _user(guest: Guest) -> int:
    """Make a user, who is removed at the end of the step, and return the UID."""
    output("useradd", "--create-home", "--shell", "/bin/sh", USER)

    def leave() -> None:
        ended("loginctl", "terminate-user", USER)
        output("loginctl", "disable-linger", USER)
        wait_until(
            lambda: not Path(f"/sys/fs/cgroup/user.slice/user-{uid}.slice").exists(), "the end of the slice"
        )
        output("userdel", "--remove", USER)

    uid = int(output("id", "-u", USER))
    guest.later(leave)
    return uid


def login(guest: Guest) -> str:
    """Check that a login session is a tenant with the name of its user."""
    uid = _user(guest)
    command = ("su", "--login", "--command", 'exec "$0" "$@"', "--", USER)
    guest.caller(command, name="ipykernel").start(CALLS)
    return _told(uid, "session", "/session-")


def unit_of_user(guest: Guest) -> str:
    """Check that a unit of a user's systemd manager is a tenant with the name of the user."""
    uid = _user(guest)
    output("loginctl", "enable-linger", USER)
    wait_until(lambda: Path(f"/run/user/{uid}/bus").exists(), "the user's manager")
    command = (
        *("setpriv", f"--reuid={uid}", f"--regid={uid}", "--init-groups"),
        *("env", f"XDG_RUNTIME_DIR=/run/user/{uid}", "systemd-run", "--user", "--quiet", "--pipe", "--wait"),
        *("--collect", "--unit=notebook.service"),
    )
    guest.caller(command, name="ipykernel").start(CALLS)
    return _told(uid, "unit", "/notebook.service")


def _told(uid: int, kind: str, part: str) -> str:
    window = told("once", "--no-state", "--json", "--seconds", "5")
    own = [one for one in window["tenants"] if one["user"] == USER]
    need(len(own) == 1, f"tenants are {window['tenants']}")
    need(own[0]["kind"] == kind and part in own[0]["cgroup_path"], f"{USER}'s is {own[0]}")
    need(f"/user-{uid}.slice/" in own[0]["cgroup_path"], f"{USER}'s is {own[0]}")
    splits_add_up(window)
    return f"{own[0]['name']!r}, {kind} of {USER}, {own[0]['cgroup_path']}"
