"""Servers as processes of their own, and the one plain HTTP client that all of them are asked with."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.report import ROOT

START_SECONDS: Final = 120


@dataclass(slots=True)
class Client:
    """One connection, kept open. Answers are read whole; anything but success raises."""

    port: int
    token: str = ""
    _connection: http.client.HTTPConnection | None = None

    def call(self, method: str, path: str, body: bytes | None = None) -> bytes:
        """One request."""
        if self._connection is None:
            self._connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
            self._connection.connect()
            self._connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        headers = {"Accept": "application/json, text/html"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        self._connection.request(method, path, body=body, headers=headers)
        # Acknowledge at once: a server that sends head and body apart would otherwise wait for 40 ms.
        self._connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        response = self._connection.getresponse()
        data = response.read()
        if response.status >= 300:
            raise RuntimeError(f"{method} {path} answered {response.status}: {data[:600]!r}")
        return data

    def json(self, method: str, path: str, body: Any = None) -> Any:
        """One request with JSON in and out."""
        return json.loads(self.call(method, path, None if body is None else json.dumps(body).encode()))

    def seconds(self, path: str) -> float:
        """How long one GET takes, the answer read whole."""
        start = time.perf_counter()
        self.call("GET", path)
        return time.perf_counter() - start


@contextmanager
def assay(data: Path, database: str | None = None) -> Iterator[Client]:
    """Assay's server over a data directory (and a database, where it is not the embedded one)."""
    data.mkdir(parents=True, exist_ok=True)
    port = _free_port()
    command = ["env", f"ASSAY_DATA={data}", sys.executable, "-m", "app.cli", "serve", "--no-schedule"]
    command += ["--port", str(port), *(["--database", database] if database else [])]
    with _process(command, port, "/readyz", data / "server.log"):
        yield Client(port=port, token=(data / "token").read_text(encoding="utf-8").strip())


@contextmanager
def mlflow(python: Path, data: Path, database: str | None, workers: int) -> Iterator[Client]:
    """An MLflow tracking server, run by the Python of an environment that has it."""
    data.mkdir(parents=True, exist_ok=True)
    port = _free_port()
    store = database or f"sqlite:///{data / 'mlflow.db'}"
    # Without telemetry and without its job queue, which would take processor time from it.
    quiet = ["MLFLOW_DISABLE_TELEMETRY=true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION=false"]
    command = ["env", *quiet, str(python), "-m", "mlflow", "server"]
    command += ["--host", "127.0.0.1", "--port", str(port), "--workers", str(workers)]
    command += ["--uvicorn-opts", "--log-level warning"]
    command += ["--backend-store-uri", store, "--default-artifact-root", str(data / "artifacts")]
    with _process(command, port, "/health", data / "server.log"):
        yield Client(port=port)


@contextmanager
def _process(command: Sequence[str], port: int, ready: str, log: Path) -> Iterator[None]:
    with log.open("wb") as out:
        process = subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=out, start_new_session=True)
        try:
            _wait(process, port, ready, log)
            yield
        finally:
            _stop(process)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End a server, and whatever it started and left."""
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(20)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(20)


def _wait(process: subprocess.Popen[bytes], port: int, ready: str, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            Client(port=port).call("GET", ready)
            return
        except (OSError, RuntimeError, http.client.HTTPException):
            if process.poll() is not None or time.monotonic() > deadline:
                words = log.read_text(encoding="utf-8", errors="replace")[-2000:]
                raise RuntimeError(f"{command_name(process)} did not start:\n{words}") from None
            time.sleep(0.1)


def command_name(process: subprocess.Popen[bytes]) -> str:
    """The command of a process, for a message."""
    return " ".join(process.args) if isinstance(process.args, list) else str(process.args)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
