"""A grpcio server for our client. Usage: server.py DESCRIPTORS; prints its port, then what handlers notice."""

import sys
import threading
from concurrent import futures

import grpc
from contracts import Contracts

MIB = 1 << 20


def keys(c):
    def get_data_key(request, context):
        if not request.key_id:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "key_id is empty: „ü“ (100%)")
        return c.GetDataKeyResponse(data_key=b"k" * request.length, version=1)

    return {"GetDataKey": get_data_key}


def init(c):
    def init(request, context):
        count, _, end = request.cluster_name.partition(" ")
        gone = threading.Event()
        if end == "hangs":
            # Before the first event: a caller who leaves with it in hand ends the call while we still send, and then
            # grpcio never comes back to this function.
            context.add_callback(lambda: (print("dropped", flush=True), gone.set()))
        for elapsed_ms in range(int(count)):
            yield c.InitEvent(progress=c.Progress(step="step", elapsed_ms=elapsed_ms))
        if end == "fails":
            context.abort(grpc.StatusCode.ABORTED, "the disk went away")
        if end == "hangs":
            assert gone.wait(60)

    def attach(request, context):
        # Answers before it has looked at the request.
        yield c.InitEvent(succeeded=c.Succeeded(cluster_id=request.cluster_id, admin_config=request.init_secret))

    return {"Init": init, "Attach": attach}


def handlers(c, service, implementations):
    found = {}
    for name, request, reply, streams in c.methods(service):
        if name in implementations:
            make = grpc.unary_stream_rpc_method_handler if streams else grpc.unary_unary_rpc_method_handler
            found[name] = make(implementations[name], request.FromString, reply.SerializeToString)
    return grpc.method_handlers_generic_handler(f"latchkey.v1.{service}", found)


def main(descriptors):
    c = Contracts(descriptors)
    options = [("grpc.max_receive_message_length", 8 * MIB), ("grpc.max_send_message_length", 8 * MIB)]
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=8), options=options)
    server.add_generic_rpc_handlers((handlers(c, "Keys", keys(c)), handlers(c, "Init", init(c))))
    print(server.add_insecure_port("127.0.0.1:0"), flush=True)
    server.start()
    # The test closes our standard input when it is done.
    sys.stdin.read()
    server.stop(0)


if __name__ == "__main__":
    main(sys.argv[1])
