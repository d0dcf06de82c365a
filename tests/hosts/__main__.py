"""The host by hand: `python -m tests.hosts --port 9999`."""

from __future__ import annotations

import argparse
import signal
import sys

from tests.hosts import Host
from tests.hosts.server import DIALECTS


def main() -> int:
    """Serve until a signal ends it."""
    parser = argparse.ArgumentParser(prog="python -m tests.hosts", description="A scripted provider on loopback.")
    parser.add_argument("--port", type=int, default=0, help="0, the default, takes a free one")
    port = parser.parse_args().port
    # Blocked before the host's thread starts, which inherits it: so only the wait below sees the signal.
    signals = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        with Host(port) as host:
            sys.stdout.write(f"{_usage(host.url)}\n")
            sys.stdout.flush()
            signal.sigwait(signals)
    except OSError as error:
        sys.stderr.write(f"cannot listen on port {port}: {error.strerror}; name another with --port\n")
        return 1
    return 0


def _usage(url: str) -> str:
    bases = "\n".join(f"{dialect.name}: {url}/BEHAVIOUR{dialect.suffix}" for dialect in DIALECTS)
    return f"{bases}\nsuch as {url}/status:500,ok/v1; log: {url}/calls; behaviours: pydoc tests.hosts"


if __name__ == "__main__":
    sys.exit(main())
