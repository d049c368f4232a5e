"""Any index over pgvector's `vector` in PostgreSQL, as a plan writes it: for other extensions.

The extension is on the server at the plan's `url`, or else on the server with pgvector. The plan
has the words of CREATE INDEX and the settings of a session. The version includes the extensions of
the database. Verdicts say whether searches use the index.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pagehop_lab.engines.engine import Description, NotInstalled, Options
from pagehop_lab.engines.postgres_server import BUILD, SEARCH, PostgresServer, connect


class PostgresAny(PostgresServer):
    """`USING` any access method, over `vector`."""

    description: ClassVar = Description(
        "postgres", "PostgreSQL", "main",
        build={"using": "ivfflat (embedding vector_l2_ops)", **BUILD},
        search={"settings": ("",), **SEARCH},
        source="the plan",
        takes_url=True,
    )  # fmt: skip
    extension = "vector"

    @classmethod
    def version(cls, url: str | None = None) -> str:
        if url is None:
            return super().version()
        with connect(url) as connection:
            server = connection.execute("SHOW server_version").fetchone()[0].split()[0]
            found = dict(connection.execute("SELECT extname, extversion FROM pg_extension ORDER BY 1").fetchall())
        if cls.extension not in found:
            raise NotInstalled(f"the database has no extension {cls.extension}: CREATE EXTENSION {cls.extension}")
        named = ", ".join(f"{name} {version}" for name, version in found.items() if name != "plpgsql")
        return f"{named} in PostgreSQL {server}"

    def using(self, operators: str, options: Options) -> str:
        return str(options["using"])

    def settings(self, options: Options, k: int) -> Mapping[str, str]:
        pairs = (one.partition("=") for one in str(options["settings"]).split(";") if one.strip())
        return {name.strip(): value.strip() for name, _, value in pairs}
