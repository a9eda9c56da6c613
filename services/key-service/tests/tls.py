"""Handshakes with OpenSSL: python3 tls.py HOST PORT CA CERTIFICATE KEY VERSION

VERSION is TLSv1_2 or TLSv1_3, the only one offered. Prints one JSON line.
"""

import json
import socket
import ssl
import sys

host, port, ca, certificate, key, version = sys.argv[1:]
context = ssl.create_default_context(cafile=ca)
context.load_cert_chain(certificate, key)
context.minimum_version = context.maximum_version = ssl.TLSVersion[version]
context.set_alpn_protocols(["h2"])
try:
    with socket.create_connection((host, int(port)), timeout=60) as plain:
        with context.wrap_socket(plain, server_hostname=host) as tls:
            # The server speaks first in HTTP/2, so tickets, if there were any, have come before this byte.
            first = tls.recv(1)
            ticket = tls.session is not None and tls.session.has_ticket
            print(json.dumps({"version": tls.version(), "first": first.hex(), "ticket": ticket}))
except ssl.SSLError as error:
    print(json.dumps({"refused": error.reason}))
