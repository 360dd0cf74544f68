"""An origin for claims: GET /N answers with N bytes that may be kept for a day. usage: origin.py PORT"""

import http.server
import random
import sys


class Origin(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        size = int(self.path.split("?")[0].split("/")[1])
        body = random.Random(self.path).randbytes(size)
        self.send_response(200)
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("Content-Length", str(size))
        self.send_header("Cache-Control", "public, max-age=86400")
        self.send_header("ETag", f'"{abs(hash(self.path)):x}"')
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Origin).serve_forever()
