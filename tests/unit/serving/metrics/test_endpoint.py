"""Tests the endpoint for Prometheus: who may read it, and what clients cannot do to it."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from stalltop.formats.metrics.catalogue import HostMetric
from stalltop.formats.metrics.exposition import Exposition
from stalltop.serving.access import Access, known_hosts
from stalltop.serving.metrics import endpoint as module
from stalltop.serving.metrics.endpoint import EndpointOptions, MetricsEndpoint

TOKEN = "t" * 43
OPENMETRICS = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
"""What Prometheus 2.42 accepts."""
Answer = tuple[int, dict[str, str], bytes]


class OneGauge:
    """Fills expositions with one gauge. ``hold`` delays scrapes until it is set."""

    def __init__(self) -> None:
        self.hold = threading.Event()
        self.hold.set()
        self.scrapes = threading.Semaphore(0)

    def fill(self, made: Exposition) -> None:
        self.scrapes.release()
        self.hold.wait()
        made.add(HostMetric("answer", "gauge", "The answer"), {}, 42)


@pytest.fixture
def collector() -> OneGauge:
    return OneGauge()


@contextlib.contextmanager
def serving(
    collector: OneGauge, *, address: str = "127.0.0.1", token: bool = False, tls: ssl.SSLContext | None = None
) -> Iterator[int]:
    access = Access(known_hosts(("gpu7",)), TOKEN)
    endpoint = MetricsEndpoint(collector.fill, EndpointOptions(address, 0, access, token, tls))
    endpoint.start()
    try:
        yield endpoint.port
    finally:
        endpoint.stop()


def get(port: int, path: str = "/metrics", *, address: str = "127.0.0.1", **headers: str) -> Answer:
    connection = http.client.HTTPConnection(address, port)
    return answer_of(connection, path, {name.replace("_", "-"): value for name, value in headers.items()})


def answer_of(connection: http.client.HTTPConnection, path: str, headers: dict[str, str]) -> Answer:
    with contextlib.closing(connection):
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()


def test_prometheus_gets_openmetrics_compressed(collector: OneGauge) -> None:
    with serving(collector) as port:
        status, headers, body = get(port, Accept=OPENMETRICS, Accept_Encoding="gzip")
    assert status == 200
    assert headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
    assert headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(body).endswith(b"answer 42\n# EOF\n")


def test_other_clients_get_the_text_format(collector: OneGauge) -> None:
    with serving(collector) as port:
        status, headers, body = get(port)
    assert (status, headers["Content-Type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert body == b"# HELP answer The answer.\n# TYPE answer gauge\nanswer 42\n"


def test_there_is_one_path(collector: OneGauge) -> None:
    with serving(collector) as port:
        status, _, body = get(port, "/")
    assert (status, body) == (404, b"the metrics are at /metrics\n")


@pytest.mark.parametrize("host", ["gpu7:9470", "localhost", "127.0.0.1:1", "[::1]:9470"])
def test_names_of_this_host_are_accepted(collector: OneGauge, host: str) -> None:
    with serving(collector) as port:
        assert get(port, Host=host)[0] == 200


@pytest.mark.parametrize("host", ["evil.example", "gpu7.evil.example:9470", ""])
def test_without_a_token_a_page_under_another_name_is_refused(collector: OneGauge, host: str) -> None:
    with serving(collector) as port:
        status, _, body = get(port, Host=host)
    assert status == 421
    assert b"answer" not in body


@pytest.mark.parametrize(
    "given", ["", "Bearer", f"Basic {TOKEN}", "Bearer wrong", f"Bearer {TOKEN[:-1]}", TOKEN]
)
def test_with_a_token_no_request_without_it_is_answered(collector: OneGauge, given: str) -> None:
    with serving(collector, token=True) as port:
        status, headers, body = get(port, Authorization=given)
        assert get(port, Authorization=f"Bearer {TOKEN}", Host="any.name")[0] == 200
    assert (status, headers["WWW-Authenticate"]) == (401, "Bearer")
    assert b"answer" not in body
    assert TOKEN.encode() not in body


def test_it_listens_on_ipv6(collector: OneGauge) -> None:
    with serving(collector, address="::1") as port:
        assert get(port, address="::1")[0] == 200


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("certificate")
    cert, key = folder / "cert.pem", folder / "key.pem"
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    made += [
        "-keyout",
        str(key),
        "-out",
        str(cert),
        "-subj",
        "/CN=localhost",
        "-addext",
        "subjectAltName=DNS:localhost",
    ]
    subprocess.run(made, check=True, capture_output=True)
    return cert, key


def test_tls_serves_others_while_a_client_never_begins_its_handshake(
    collector: OneGauge, certificate: tuple[Path, Path]
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    trust = ssl.create_default_context(cafile=str(certificate[0]))
    with (
        serving(collector, token=True, tls=context) as port,
        socket.create_connection(("127.0.0.1", port)),
    ):
        connection = http.client.HTTPSConnection("localhost", port, context=trust)
        status, _, body = answer_of(connection, "/metrics", {"Authorization": f"Bearer {TOKEN}"})
        assert status == 200
        assert b"answer 42" in body
        with pytest.raises((OSError, http.client.HTTPException)):
            get(port)  # no TLS


def test_a_silent_client_is_dropped(collector: OneGauge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE_SECONDS", 0.2)
    monkeypatch.setattr(module._Handler, "timeout", 0.2)
    with serving(collector) as port, socket.create_connection(("127.0.0.1", port)) as silent:
        silent.settimeout(60)
        silent.sendall(b"GET /metrics HTTP/1.1\r\nHost: loc")
        assert silent.recv(1) == b""


def test_connections_are_bounded_and_served_again_when_some_end(collector: OneGauge) -> None:
    collector.hold.clear()
    with serving(collector) as port:
        waiting = [threading.Thread(target=get, args=(port,)) for _ in range(module.MOST_CONNECTIONS)]
        for one in waiting:
            one.start()
        for _ in waiting:
            collector.scrapes.acquire()
        with pytest.raises((OSError, http.client.HTTPException)):
            get(port)
        collector.hold.set()
        for one in waiting:
            one.join()
        while True:  # places become free just after the answers
            with contextlib.suppress(OSError, http.client.HTTPException):
                assert get(port)[0] == 200
                break


def test_a_taken_port_is_an_error(collector: OneGauge) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="in use"):
        MetricsEndpoint(
            collector.fill,
            EndpointOptions("127.0.0.1", taken.getsockname()[1], Access(known_hosts(())), False),
        )
