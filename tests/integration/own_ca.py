"""Servers that show a certificate for their address, which those trust who have it."""

from __future__ import annotations

import asyncio
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

from tests.integration.conftest import LiveStack, ids

_FILES: Final = {"ssl_ca": "own.pem", "ssl_cert": "own.pem", "ssl_key": "own-key.pem"}
HERE: Final = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])


def make_certificates(directory: Path) -> None:
    """`own.pem` and `other.pem`, each for 127.0.0.1 and signed by its own key, which is beside it."""
    now, days = datetime.now(UTC), timedelta(days=2)
    for name in ("own", "other"):
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        called = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = x509.CertificateBuilder(
            called, called, key.public_key(), x509.random_serial_number(), now - days, now + days
        )
        made = builder.add_extension(HERE, critical=False).sign(key, hashes.SHA256())
        (directory / f"{name}.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
        text = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
        (directory / f"{name}-key.pem").write_bytes(text)


@asynccontextmanager
async def shown_by(live: LiveStack, docker_client: object, directory: Path) -> AsyncIterator[None]:
    """The source shows its own meanwhile."""
    make_certificates(directory)
    data = str(await live.value("db1", "SELECT @@datadir"))
    before = {name: await live.value("db1", f"SELECT @@GLOBAL.{name}") for name in _FILES}
    server = ids(docker_client, live.stack.name)["db1", "mysqld"]
    for file in _FILES.values():
        (directory / file).chmod(0o644)
        copy = ["docker", "cp", str(directory / file), f"{server}:{data}{file}"]
        await asyncio.to_thread(subprocess.run, copy, check=True)
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
