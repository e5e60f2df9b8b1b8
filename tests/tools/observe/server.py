#!/usr/bin/env python3
"""server.py - an HTTP server for tests of zt-train --observe.

    server.py PORTFILE RECORD [STATUS [SECONDS]]

It listens on a free port of 127.0.0.1, which it writes to PORTFILE. Bodies of POST go to RECORD, a line before each with its length
and Content-Type to RECORD.head. The answer is STATUS (200), after SECONDS (0).
"""
import http.server, os, sys, time

port_file, record = sys.argv[1:3]
status = int(sys.argv[3]) if len(sys.argv) > 3 else 200
seconds = float(sys.argv[4]) if len(sys.argv) > 4 else 0


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with open(record, "ab") as f:
            f.write(body)
        with open(f"{record}.head", "a") as f:
            f.write(f"{len(body)} {self.headers['Content-Type']} {self.path}\n")
        time.sleep(seconds)
        self.send_response(status)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *args):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
with open(f"{port_file}.new", "w") as f:
    f.write(f"{server.server_address[1]}\n")
os.rename(f"{port_file}.new", port_file)
server.serve_forever()
