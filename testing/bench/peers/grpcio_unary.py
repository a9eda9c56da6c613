"""grpcio's unary call over a Unix socket, both ends in this process: SOCKET ID WHAT."""

import concurrent.futures
import sys

import figure
import grpc

socket, name, what = sys.argv[1:4]
REQUEST, ANSWER = bytes(22), bytes(36)  # as long as those of our own benchmark


def answer(request, context):
    return ANSWER


server = grpc.server(concurrent.futures.ThreadPoolExecutor(max_workers=1))
method = grpc.unary_unary_rpc_method_handler(answer)
server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("bench.Keys", {"GetDataKey": method}),))
server.add_insecure_port(f"unix:{socket}")
server.start()
with grpc.insecure_channel(f"unix:{socket}") as channel:
    call = channel.unary_unary("/bench.Keys/GetDataKey")
    figure.measure(name, what, lambda: call(REQUEST))
server.stop(None)
