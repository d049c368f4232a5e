"""Private servers: PostgreSQL with Pagehop's extension, and other databases and versions.

PostgreSQL is for development and tests, the others are measured beside it.
"""

from devserver.cluster import Cluster, Setting, open_clusters
from devserver.contrib import install_contrib
from devserver.errors import DevServerError
from devserver.extension import install_extension
from devserver.servers import DEFAULT, GIVEN, VERSIONS, Server, install

__all__ = [
    "DEFAULT",
    "GIVEN",
    "VERSIONS",
    "Cluster",
    "DevServerError",
    "Server",
    "Setting",
    "install",
    "install_contrib",
    "install_extension",
    "open_clusters",
]
