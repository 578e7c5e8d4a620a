"""A certificate authority of one's own, and servers that show a certificate of it."""

from __future__ import annotations

import ipaddress
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from tests.integration.conftest import LiveStack

_FILES: Final = {"ssl_ca": "own-ca.pem", "ssl_cert": "own-cert.pem", "ssl_key": "own-key.pem"}


def make_certificates(directory: Path) -> None:
    """`own-ca.pem`, a certificate of it for 127.0.0.1 with its key, and `other-ca.pem`, which signed none."""
    ours, others, server = (rsa.generate_private_key(public_exponent=65537, key_size=2048) for _ in range(3))
    (directory / "own-ca.pem").write_bytes(_certificate("our own", ours, "our own", ours))
    (directory / "other-ca.pem").write_bytes(_certificate("another", others, "another", others))
    (directory / "own-cert.pem").write_bytes(_certificate("db", server, "our own", ours, "127.0.0.1"))
    key = server.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    (directory / "own-key.pem").write_bytes(key)


def _certificate(
    name: str, key: rsa.RSAPrivateKey, issuer: str, by: rsa.RSAPrivateKey, address: str | None = None
) -> bytes:
    """One for this address, or of an authority."""
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=2))
        .add_extension(x509.BasicConstraints(ca=address is None, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(by.public_key()), critical=False)
    )
    if address is None:
        usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
        made = made.add_extension(usage, critical=True)
    else:
        names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))])
        made = made.add_extension(names, critical=False)
    return made.sign(by, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


@asynccontextmanager
async def shown_by(live: LiveStack, directory: Path) -> AsyncIterator[None]:
    """The source shows that certificate meanwhile."""
    make_certificates(directory)
    data = str(await live.value("db1", "SELECT @@datadir"))
    before = {name: await live.value("db1", f"SELECT @@GLOBAL.{name}") for name in _FILES}
    label = f"label=dev.replexplorer.stack={live.stack.name}"
    listed = ["docker", "ps", "-q", "--filter", label, "--filter", "label=dev.replexplorer.node=db1"]
    server = _run([*listed, "--filter", "label=dev.replexplorer.role=mysqld"]).strip()
    for file in _FILES.values():
        (directory / file).chmod(0o644)
        _run(["docker", "cp", str(directory / file), f"{server}:{data}{file}"])
    await _show(live, _FILES)
    try:
        yield
    finally:
        await _show(live, before)


async def _show(live: LiveStack, files: dict[str, str]) -> None:
    async with live.session("db1") as cursor:
        for name, file in files.items():
            await cursor.execute(f"SET GLOBAL {name} = '{file}'")
        await cursor.execute("ALTER INSTANCE RELOAD TLS")


def _run(command: list[str]) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
