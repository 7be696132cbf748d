"""Each DatabaseUser becomes a user of a database outside of the cluster, and a Secret."""

import base64
import os
import secrets

import aiohttp
import msgspec

import pyinformer
from pyinformer import Cluster, Request
from pyinformer.children import Children, Status


class DatabaseUserSpec(msgspec.Struct):
    database: str


@pyinformer.operator.custom_resource("acme.io/v1", "databaseusers")
class DatabaseUser(msgspec.Struct):
    spec: DatabaseUserSpec
    status: Status = Status()


app = pyinformer.Operator("database-users", leader_election=pyinformer.LeaderElection())
OWNS = [("v1", "secrets")]


async def drop(request: Request, _user: DatabaseUser, _cluster: Cluster) -> None:
    await send("DELETE", request)


@app.reconcile("acme.io/v1", "databaseusers", model=DatabaseUser, owns=OWNS, cleanup=drop)
async def reconcile(request: Request, user: DatabaseUser, children: Children) -> None:
    name, database = f"{request.name}-credentials", user.spec.database
    secret = app.lister("v1", "secrets").get(f"{request.namespace}/{name}")
    known = "" if secret is None else secret.at("data.password", str, default="")
    password = base64.b64decode(known).decode() or secrets.token_urlsafe(24)
    fields = {"user": user_id(request), "password": password, "database": database}
    metadata = {"name": name}
    await children.apply(
        [{"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": fields}]
    )
    await send("PUT", request, {"password": password, "database": database})


def user_id(request: Request) -> str:
    return f"{request.namespace}.{request.name}"


async def send(method: str, request: Request, body: dict[str, str] | None = None) -> None:
    url = f"{os.environ['DATABASE_URL']}/users/{user_id(request)}"
    timeout = aiohttp.ClientTimeout(total=10)
    async with aiohttp.request(method, url, json=body, timeout=timeout) as response:
        response.raise_for_status()


if __name__ == "__main__":
    app.run(health_port=None)
