"""Looks at the page of `fulmar web` as a browser does, without being one: asks what the page's script asks, at its pace.

    viewer.py ADDRESS PORT CERTIFICATE TOKEN

A line `on` on standard input begins to look, as soon as the page is there; `off` ends it, and is answered by a line with the
questions and bytes of the look. While it looks it keeps one connection, as browsers do, and makes another one where that has ended.
"""

import http.client
import json
import select
import ssl
import sys

# app.js: LEAST_PAUSE_MS, RETRY_MS, ANSWER_WITHIN_MS, ROWS_AT_A_TIME.
PAUSE_S, RETRY_S, ANSWER_WITHIN_S, ROWS = 0.25, 1.0, 9.0, 40
PARTS = ("/", "/style.css", "/app.js", "/pairing.js", "/icon.svg")


class Viewer:
    def __init__(self, address, port, certificate, token):
        self.at = (address, int(port))
        self.tls = ssl.create_default_context(cafile=certificate)
        self.tls.check_hostname = False
        self.headers = {"Authorization": f"Bearer {token}", "Accept-Encoding": "gzip, deflate, br"}
        self.connection, self.questions, self.bytes = None, 0, 0

    def ask(self, path):
        if self.connection is None:
            self.connection = http.client.HTTPSConnection(*self.at, timeout=ANSWER_WITHIN_S, context=self.tls)
        try:
            self.connection.request("GET", path, headers=self.headers)
            answer = self.connection.getresponse()
            body = answer.read()
        except (OSError, http.client.HTTPException):
            self.connection = None
            raise
        if answer.status != 200:
            raise SystemExit(f"viewer: {path}: {answer.status} {body[:200]!r}")
        self.questions += 1
        self.bytes += len(body)
        return body

    def look(self):
        """Looks until it is told something; a question that waits for news is waited for."""
        self.questions = self.bytes = 0
        revision, pause, parts = "", 0.02, list(PARTS)
        while not told(pause):
            try:
                while parts:
                    self.ask(parts[0])
                    del parts[0]
            except OSError:
                continue
            try:
                view = json.loads(self.ask(f"/api/view?rows={ROWS}{revision}"))
                revision, pause = f"&revision={view['revision']}", PAUSE_S
            except (OSError, http.client.HTTPException):
                pause = RETRY_S
        if self.connection is not None:
            self.connection.close()
            self.connection = None


def told(within):
    return bool(select.select([sys.stdin], [], [], within)[0])


def main():
    viewer = Viewer(*sys.argv[1:])
    while line := sys.stdin.readline():
        if line.strip() == "on":
            viewer.look()
        else:
            print(f"off {viewer.questions} {viewer.bytes}", flush=True)


if __name__ == "__main__":
    main()
