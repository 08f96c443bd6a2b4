import http.server
import threading

import pytest


@pytest.fixture
def served():
    """What a web server on this machine gives: path -> (claimed length, bytes)."""
    pages = {}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            if self.path not in pages:
                self.send_error(404)
                return
            length, body = pages[self.path]
            self.send_response(200)
            self.send_header("Content-Length", str(length))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield pages, f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()
