"""A key-service client that shares no code with it: Google's gRPC, and protobuf written out by hand.

    client.py TARGET CA [CERTIFICATE KEY]

Calls come as JSON lines on stdin, results go as JSON lines to stdout.
"""

import json
import sys

import grpc


def varint(number):
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def encode(call):
    """GetDataKeyRequest: 1 key_id (string), 2 length, 3 version (uint32); proto3 leaves zeros out."""
    key_id = call["key_id"].encode()
    out = b"\x0a" + varint(len(key_id)) + key_id if key_id else b""
    for tag, number in ((b"\x10", call.get("length", 0)), (b"\x18", call.get("version", 0))):
        out += tag + varint(number) if number else b""
    return out


def decode(message):
    """GetDataKeyResponse: 1 data_key (bytes), 2 version (uint32), each below 128."""
    result = {}
    while message:
        if message[0] == 0x0A:
            end = 2 + message[1]
            result["data_key"], message = message[2:end].hex(), message[end:]
        elif message[0] == 0x10:
            result["version"], message = message[1], message[2:]
        else:
            raise ValueError(f"unexpected field {message[0]:#x}")
    return result


def read(path):
    with open(path, "rb") as file:
        return file.read()


def main(target, ca, certificate=None, key=None):
    identity = (read(key), read(certificate)) if certificate else (None, None)
    # Connects once: what comes of a second try is not asked here.
    patient = [("grpc.initial_reconnect_backoff_ms", 600_000), ("grpc.max_reconnect_backoff_ms", 600_000)]
    channel = grpc.secure_channel(target, grpc.ssl_channel_credentials(read(ca), *identity), options=patient)
    for line in sys.stdin:
        call = json.loads(line)
        method = channel.unary_unary(call.get("method", "/latchkey.v1.Keys/GetDataKey"))
        try:
            result = {"code": "OK", **decode(method(encode(call), timeout=60))}
        except grpc.RpcError as error:
            result = {"code": error.code().name, "details": error.details()}
        print(json.dumps(result), flush=True)


main(*sys.argv[1:])
