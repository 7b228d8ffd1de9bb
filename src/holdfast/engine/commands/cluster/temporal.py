"""Connects to the Temporal server. Only workers and the submitting helper import this: the client is large.

With TLS, `HOLDFAST_ENGINE_CA`, `HOLDFAST_ENGINE_CERT` and `HOLDFAST_ENGINE_KEY` may name files; `TEMPORAL_API_KEY`
holds the key of a hosted server.
"""

import os

from temporalio.client import Client
from temporalio.service import TLSConfig

from holdfast.engine.commands.cluster.engine_address import EngineAddress


async def connect_engine(address: EngineAddress, identity: str) -> Client:
    tls: TLSConfig | bool = False
    if address.tls:
        tls = TLSConfig(
            server_root_ca_cert=_read("HOLDFAST_ENGINE_CA"),
            client_cert=_read("HOLDFAST_ENGINE_CERT"),
            client_private_key=_read("HOLDFAST_ENGINE_KEY"),
        )
    return await Client.connect(
        address.target,
        namespace=address.namespace,
        tls=tls,
        api_key=os.environ.get("TEMPORAL_API_KEY"),
        identity=identity,
    )


def _read(variable: str) -> bytes | None:
    path = os.environ.get(variable)
    if path is None:
        return None
    with open(path, "rb") as file:
        return file.read()
