from __future__ import annotations

import datetime
import http.client
import ssl
from pathlib import Path

import pytest

from mrs.errors import UsageError
from mrs.server.configuration import ServeConfiguration
from mrs.server.configured import check_tls
from mrs.server.http_server import HttpOptions
from tests.server.fake_engine import TIMEOUT, FakeEngine, say, served
from tests.server.live_server import LiveServer


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate of its own for 127.0.0.1, and its key."""
    x509 = pytest.importorskip("cryptography.x509")
    import ipaddress

    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .sign(key, hashes.SHA256())
    )
    folder = tmp_path_factory.mktemp("tls")
    (folder / "cert.pem").write_bytes(built.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return folder / "cert.pem", folder / "key.pem"


def test_the_server_speaks_https(certificate: tuple[Path, Path]) -> None:
    options = HttpOptions(certificate=certificate)
    with LiveServer(served(FakeEngine(say("x"))), options=options) as server:
        context = ssl.create_default_context(cafile=str(certificate[0]))
        client = http.client.HTTPSConnection(
            "127.0.0.1", server.port, timeout=TIMEOUT, context=context
        )
        client.request("GET", "/health/live")
        assert client.getresponse().status == 200
        client.close()


def test_a_certificate_and_its_key_are_taken(certificate: tuple[Path, Path]) -> None:
    check_tls(ServeConfiguration(tls_cert=certificate[0], tls_key=certificate[1]))


def test_a_certificate_without_its_key_is_not(certificate: tuple[Path, Path]) -> None:
    with pytest.raises(UsageError, match="no certificate and its key"):
        check_tls(ServeConfiguration(tls_cert=certificate[0], tls_key=certificate[0]))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    nothing = tmp_path / "nothing.pem"
    with pytest.raises(UsageError, match=r"nothing\.pem.* cannot be read"):
        check_tls(ServeConfiguration(tls_cert=nothing, tls_key=nothing))
