"""Certificates for tests: a CA, a server's, and those of clients."""

from __future__ import annotations

import subprocess
from pathlib import Path


def make_certificates(directory: Path) -> Path:
    """Put a CA, and a server's and clients' certificates signed by it, into a directory; return it."""

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=directory, check=True, capture_output=True)

    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    # Python from 3.13 on asks a CA for its usages, as gRPC does not.
    usages = ["-addext", "keyUsage=critical,keyCertSign,cRLSign"]
    openssl("req", "-x509", *key, *usages, "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=test ca")
    names = {"server": "DNS:localhost,IP:127.0.0.1", "ann": "DNS:ann", "local": "DNS:local"}
    for name, alternatives in names.items():
        openssl("req", *key, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        (directory / "ext").write_text(f"subjectAltName={alternatives}")
        signing = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "ext"]
        openssl("x509", "-req", "-in", f"{name}.csr", *signing, "-out", f"{name}.pem")
    openssl("req", *key, "-keyout", "nobody.key", "-out", "nobody.csr", "-subj", "/O=nobody in particular")
    signing = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2"]
    openssl("x509", "-req", "-in", "nobody.csr", *signing, "-out", "nobody.pem")
    return directory
