"""A web page that says which pods run on a node, from a cache: the server is asked nothing.

    python docs/examples/pods_on_node.py                         # the cluster of your kubeconfig
    python docs/examples/pods_on_node.py http://127.0.0.1:8001   # `pyinformer serve`

Then open http://127.0.0.1:8000/NODE. Each request has a thread of its own, and any thread may read.
"""

import sys
from contextlib import suppress
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import msgspec

import pyinformer
from pyinformer.blocking import BlockingInformer, BlockingInformerFactory


class Status(msgspec.Struct, frozen=True):
    phase: str = "Unknown"


class Pod(msgspec.Struct, frozen=True):
    status: Status = Status()


def follow(factory: BlockingInformerFactory) -> BlockingInformer[Pod]:
    pods = factory.informer("v1", "pods", model=Pod)
    pods.add_index("node", "spec.nodeName")
    factory.start()
    factory.wait_for_cache_sync(timeout_seconds=30)
    return pods


def page(pods: BlockingInformer[Pod], node: str) -> str:
    found = sorted(
        f"{pod.key}: {pod.view.status.phase}" for pod in pods.lister.by_index("node", node)
    )
    items = "".join(f"<li>{escape(line)}</li>" for line in found)
    note = pods.lister.staleness  # empty while the cache follows the server
    return f"<h1>{escape(node)}</h1><ul>{items}</ul><p>{escape(note)}</p>"


def web_server(pods: BlockingInformer[Pod], *, port: int = 8000) -> ThreadingHTTPServer:
    class Pages(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = page(pods, self.path.strip("/")).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return ThreadingHTTPServer(("127.0.0.1", port), Pages)


def main(server: str | None = None) -> None:
    with pyinformer.run_in_thread() as runner, runner.connect(server=server) as cluster:
        with cluster.informer_factory() as factory, web_server(follow(factory)) as web:
            print(f"serving http://127.0.0.1:{web.server_port}/NODE until Ctrl-C")
            with suppress(KeyboardInterrupt):
                web.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:2])
