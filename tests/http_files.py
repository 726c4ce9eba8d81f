"""Files over HTTP, by ranges where they are asked for."""

from __future__ import annotations

import http.server
import re
from abc import abstractmethod


class FilesHandler(http.server.BaseHTTPRequestHandler):
    """A GET and a HEAD, which differ in the body alone; nothing is logged."""

    @abstractmethod
    def answer(self, body: bool) -> None:
        """Find the content, and send it or an error."""

    def send_content(
        self, content: bytes, body: bool, ranges: bool = True, sized: bool = True
    ) -> None:
        found = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if found and ranges:
            first, last = int(found[1]), min(int(found[2] or 1 << 60), len(content) - 1)
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {first}-{last}/{len(content)}")
            content = content[first : last + 1]
        else:
            self.send_response(200)
        if ranges:
            self.send_header("Accept-Ranges", "bytes")
        if sized:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if body:
            self.wfile.write(content)

    def do_GET(self) -> None:
        self.answer(True)

    def do_HEAD(self) -> None:
        self.answer(False)

    def log_message(self, *_: object) -> None:
        pass
