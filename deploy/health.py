"""Exit with 0 if the server of this machine is well: `health.py 9124`. For a container's health check."""

from __future__ import annotations

import ssl
import sys
import urllib.error
import urllib.request


def healthy(port: int) -> bool:
    """Ask `/health`, with TLS and without; who it is needs no proof, as it is this machine."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    for scheme in ("https", "http"):
        try:
            with urllib.request.urlopen(f"{scheme}://127.0.0.1:{port}/health", timeout=4, context=context) as reply:
                return bool(reply.status == 200)
        except urllib.error.HTTPError:
            return False
        except OSError:
            continue
    return False


if __name__ == "__main__":
    sys.exit(0 if healthy(int(sys.argv[1])) else 1)
