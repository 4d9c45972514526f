"""Tests that a recording contains every call, and that the systemd service in deploy/ records."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

from stalltop.demo.caller import Caller
from tests.systems.guest import (
    PATIENCE_SECONDS,
    PROGRAM,
    Guest,
    StepError,
    ended,
    need,
    output,
    stalltop,
    told,
    wait_until,
)

CALLS = 20_000
"""Number of calls that each of three threads makes."""


def queried(file: Path, sql: str) -> list[dict[str, object]]:
    """Return the rows that `stalltop query` finds; [] if it fails, for instance since the file does not exist
    yet."""
    done = subprocess.run(
        [PROGRAM, "query", file, "--format", "json", sql], capture_output=True, text=True, check=False
    )
    rows: list[dict[str, object]] = json.loads(done.stdout) if done.returncode == 0 else []
    return rows


class RecordCommand:
    """Runs `stalltop record` into a file of the step, in the background."""

    def __init__(self, guest: Guest) -> None:
        self.file = guest.folder / "calls.stalltop"
        self._said = guest.folder / "said"
        with self._said.open("w") as said:
            self._process = subprocess.Popen(
                [PROGRAM, "record", "--no-state", "--to", self.file],
                stdout=said,
                stderr=said,
                stdin=subprocess.DEVNULL,
            )
        guest.later(self._process.wait)
        guest.later(self._process.kill)

    def until_traced(self, caller: Caller) -> None:
        """Let ``caller`` make calls until the recording contains some."""

        def is_traced() -> object:
            need(self._process.poll() is None, f"record ended: {self._said.read_text()}")
            caller.run("cudaStreamSynchronize")
            return queried(self.file, "SELECT 1 FROM cuda_events WHERE op = 'cudaStreamSynchronize' LIMIT 1")

        wait_until(is_traced, "a call in the recording")

    def until_complete(self) -> None:
        """Wait until all BPF programs are loaded. Those for the events of the host load after tracing has
        begun."""
        wait_until(
            lambda: (
                not any(
                    "being loaded" in line for line in told("explain", str(self.file), "--json")["unknown"]
                )
            ),
            "events of the host",
        )

    def end(self) -> None:
        """End the recorder, as Ctrl-C does."""
        self._process.send_signal(signal.SIGINT)
        need(self._process.wait(PATIENCE_SECONDS) == 0, f"record ended: {self._said.read_text()}")


def counted(guest: Guest) -> str:
    """Check that `record` counts a known number of calls, and that `query`, `explain` and `open` can read
    them."""
    caller = guest.unit("training-run.service", caller_name="train.py")
    caller.do("load cudaStreamWaitEvent")
    recorder = RecordCommand(guest)
    recorder.until_traced(caller)
    file = recorder.file
    caller.run("cudaStreamWaitEvent", threads=3, cycles=CALLS)
    made = caller.report()["cudaStreamWaitEvent"]
    recorder.end()
    rows = queried(file, "SELECT count(*) AS n FROM cuda_events WHERE op = 'cudaStreamWaitEvent'")
    need(rows and rows[0]["n"] == made.calls == 3 * CALLS, f"recorded {rows}, made {made.calls}")
    explained = told("explain", str(file), "--json")
    need(
        "training-run" in [one["name"] for one in explained["tenants"]], f"tenants are {explained['tenants']}"
    )
    need(explained["looked_at"]["calls"] > 3 * CALLS, f"explain looked at {explained['looked_at']}")
    opened = told("open", str(file), "--json")
    need(opened["schema"] == "stalltop.window/1", "open printed no window")
    windows = queried(file, "SELECT count(*) AS n FROM windows")[0]["n"]
    return (
        f"{rows[0]['n']} of {made.calls} calls of 3 threads counted, in {windows} windows, "
        f"{file.stat().st_size / 1e6:.1f} MB; explain looked at {explained['looked_at']['calls']} calls"
    )


def service(guest: Guest) -> str:
    """Check that the systemd unit of deploy/ records under all its restrictions and ends with exit code 0."""
    unit, opt, state = (
        Path("/etc/systemd/system/stalltop-record.service"),
        Path("/opt/stalltop"),
        Path("/var/lib/stalltop"),
    )
    unit.write_text((PROGRAM.parent / "deploy" / unit.name).read_text())
    opt.symlink_to(PROGRAM.parent)
    guest.later(output, "systemctl", "daemon-reload")
    guest.later(unit.unlink)
    guest.later(opt.unlink)
    guest.later(ended, "rm", "-rf", str(state))
    guest.later(ended, "systemctl", "stop", unit.name)
    caller = guest.unit("inference.service", caller_name="serve.py")
    output("systemctl", "daemon-reload")
    output("systemctl", "start", unit.name)
    file = state / "recording.stalltop"
    sql = "SELECT count(*) AS n FROM cuda_events WHERE process = 'serve.py'"

    def is_recorded() -> object:
        active = subprocess.run(
            ["systemctl", "is-active", unit.name], capture_output=True, text=True, check=False
        )
        if active.stdout.strip() != "active":
            raise StepError(output("journalctl", "-u", unit.name, "-n", "40", "-o", "cat"))
        caller.run("cudaStreamSynchronize:10")
        rows = queried(file, sql)
        return rows and rows[0]["n"]

    calls = wait_until(is_recorded, "calls in the service's recording")
    output("systemctl", "stop", unit.name)
    shown = output("systemctl", "show", "-p", "Result,ExecMainStatus,MemoryPeak", unit.name)
    figures = dict(line.split("=", 1) for line in shown.splitlines())
    need(figures["Result"] == "success" and figures["ExecMainStatus"] == "0", f"systemd says {figures}")
    stalltop("explain", str(file))
    peak = figures.get("MemoryPeak", "")
    memory = f", {int(peak) / 1e6:.0f} MB at most" if peak.isdigit() else ""
    return f"deploy/{unit.name} recorded {calls} calls, ended with 0{memory}"
