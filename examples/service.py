#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An HTTP service for one package with any number of buckets, with nothing but Python and ditc.

    examples/service.py model.dita --device cuda:0 --port 8000

    GET  /      buckets, inputs, outputs as JSON
    POST /run   inputs as a safetensors file -> outputs as a safetensors file; the bucket is that of the shapes

A request that the package cannot take is answered with 400 and the reason. Each connection has its thread, and each
thread a context of its own; weights are shared.
"""

from __future__ import annotations

import argparse
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import ditc
from ditc import safetensors
from ditc.structure import flatten

MAX_BYTES = 1 << 30  # of a request


def description(model: ditc.Model) -> dict:
    """What a client needs to know to call the service."""
    return {"buckets": {name: {"inputs": bucket.inputs, "outputs": bucket.outputs} for name, bucket in model.buckets.items()},
            "constants": model.constants}


def run(model: ditc.Model, body: bytes) -> bytes:
    """One call. Raises ditc.Error when the body is no safetensors file, or nothing that the package takes."""
    results = model.run(safetensors.loads(body, "the request"))
    return safetensors.dumps(flatten(results if isinstance(results, dict) else {"output": results}))


class Handler(BaseHTTPRequestHandler):
    model: ditc.Model
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path == "/":
            self.answer(200, json.dumps(description(self.model)).encode(), "application/json")
        else:
            self.answer(404, b"there are GET / and POST /run\n")

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        if self.path != "/run" or length > MAX_BYTES:
            self.close_connection = True
            self.answer(*((404, b"there are GET / and POST /run\n") if self.path != "/run" else (413, b"the request is too large\n")))
            return
        body = self.rfile.read(length)
        try:
            self.answer(200, run(self.model, body), "application/octet-stream")
        except ditc.Error as error:
            self.answer(500 if error.status == 3 else 400, f"{error}\n".encode())

    def answer(self, status: int, body: bytes, kind: str = "text/plain; charset=utf-8") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package")
    parser.add_argument("--device", help="host or cuda:N (default: what the package has code for)")
    parser.add_argument("--address", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000, help="0: any that is free")
    options = parser.parse_args()

    try:
        model = ditc.load(options.package, options.device)
        model.prepare()  # all buckets now, not in their first request
    except ditc.Error as error:
        parser.exit(error.status, f"{parser.prog}: {error}\n")
    server = ThreadingHTTPServer((options.address, options.port), type("ModelHandler", (Handler,), {"model": model}))
    print(f"{model} at http://{options.address}:{server.server_address[1]}/", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        server.server_close()


if __name__ == "__main__":
    main()
