#!/usr/bin/env python3
# Serves a mount's metrics to Prometheus: exporter.py MOUNTPOINT PORT
# Any user may run it. Scrapes come from this machine alone; put "" for ADDRESS to
# have others scrape, too: the file names all users and what they hold.
import http.server
import sys

ADDRESS = "127.0.0.1"


class Exporter(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path != "/metrics":
            return self.send_error(404)
        try:
            with open(f"{sys.argv[1]}/metrics", "rb") as metrics:
                text = metrics.read()
        except OSError as error:
            return self.send_error(503, str(error))
        self.send_response(200)
        self.send_header("Content-Type", "application/openmetrics-text; version=1.0.0; charset=utf-8")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *words):
        pass


server = http.server.ThreadingHTTPServer((ADDRESS, int(sys.argv[2])), Exporter)
print(f"http://{ADDRESS}:{server.server_port}/metrics", flush=True)
server.serve_forever()
