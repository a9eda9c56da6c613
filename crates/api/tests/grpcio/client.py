"""grpcio calls every method of our server. Usage: client.py PORT DESCRIPTORS; exits 0 when all is as promised."""

import sys

import grpc
from contracts import Contracts, Stub

MIB = 1 << 20


def fails(code, call):
    try:
        call()
    except grpc.RpcError as error:
        assert error.code() == code, error
        return error.details()
    raise AssertionError(f"{code} expected")


def main(port, descriptors):
    c = Contracts(descriptors)
    options = [("grpc.max_receive_message_length", 8 * MIB), ("grpc.max_send_message_length", 8 * MIB)]
    with grpc.insecure_channel(f"127.0.0.1:{port}", options=options) as channel:
        stubs = {service: Stub(channel, c, service) for service in ("Keys", "Join", "Init", "Recovery")}
        keys(c, stubs["Keys"])
        join(c, stubs["Join"])
        init(c, stubs["Init"])
        recovery(c, stubs["Recovery"])
        unknown(c, channel)


def keys(c, stub):
    reply = stub.GetDataKey(c.GetDataKeyRequest(key_id="measurement-secret", length=32), timeout=60)
    assert len(reply.data_key) == 32 and reply.version == 1
    details = fails(grpc.StatusCode.INVALID_ARGUMENT, lambda: stub.GetDataKey(c.GetDataKeyRequest(), timeout=60))
    assert details == "key_id is empty: name the key, e.g. „measurement-secret“ (100%)", details
    details = fails(
        grpc.StatusCode.PERMISSION_DENIED, lambda: stub.GetDataKey(c.GetDataKeyRequest(key_id="not mine"), timeout=60)
    )
    assert details == "not for test", details
    fails(grpc.StatusCode.INTERNAL, lambda: stub.GetDataKey(c.GetDataKeyRequest(key_id="panic"), timeout=60))
    # A compressed request is refused with words, not garbage.
    details = fails(
        grpc.StatusCode.UNIMPLEMENTED,
        lambda: stub.GetDataKey(
            c.GetDataKeyRequest(key_id="x" * 2000), timeout=60, compression=grpc.Compression.Gzip
        ),
    )
    assert "gzip" in details, details
    calls = [stub.GetDataKey.future(c.GetDataKeyRequest(key_id="x" * 20_000, length=20_000), timeout=60) for _ in range(200)]
    assert all(len(call.result().data_key) == 20_000 for call in calls)


def join(c, stub):
    ticket = stub.IssueJoinTicket(c.JoinRequest(node_name="node-1", role=2, certificate_request=b"csr"), timeout=60)
    assert (ticket.node_name, ticket.role, ticket.epoch) == ("node-1", 2, 1)
    assert ticket.state_disk_key == b"\x01" * 32 and ticket.cluster.kubelet_certificate == b"csr"
    assert [file.name for file in ticket.cluster.control_plane_files] == ["ca.key"]
    assert stub.IssueRejoinTicket(c.RejoinRequest(disk_uuid="known"), timeout=60).epoch == 3
    fails(grpc.StatusCode.NOT_FOUND, lambda: stub.IssueRejoinTicket(c.RejoinRequest(disk_uuid="other"), timeout=60))
    assert stub.Report(c.ReportRequest(succeeded=True), timeout=60) == c.ReportResponse()
    fails(grpc.StatusCode.FAILED_PRECONDITION, lambda: stub.Report(c.ReportRequest(), timeout=60))


def init(c, stub):
    assert stub.Describe(c.DescribeRequest(), timeout=60).node_name == "node-0"
    events = list(stub.Init(c.InitRequest(cluster_name="1000"), timeout=60))
    assert [event.progress.elapsed_ms for event in events] == list(range(1000))
    assert list(stub.Init(c.InitRequest(cluster_name="0"), timeout=60)) == []
    details = fails(
        grpc.StatusCode.ABORTED, lambda: list(stub.Init(c.InitRequest(cluster_name="3 fails"), timeout=60))
    )
    assert details == "the disk went away", details
    fails(grpc.StatusCode.INVALID_ARGUMENT, lambda: list(stub.Init(c.InitRequest(cluster_name="x"), timeout=60)))
    # 3 MiB both ways: flow control.
    request = c.AttachRequest(init_secret=b"\x03" * (3 * MIB), cluster_id=b"c" * 32)
    (event,) = stub.Attach(request, timeout=60)
    assert event.succeeded.admin_config == b"k" * (3 * MIB) and event.succeeded.cluster_id == b"c" * 32
    # Out of time, and cancelled, in the middle: the first event proves that the handler runs. The test that started us hears the handler being dropped.
    hanging = stub.Init(c.InitRequest(cluster_name="1 hangs"), timeout=5)
    next(hanging)
    fails(grpc.StatusCode.DEADLINE_EXCEEDED, lambda: next(hanging))
    hanging = stub.Init(c.InitRequest(cluster_name="1 hangs"))
    next(hanging)
    hanging.cancel()
    fails(grpc.StatusCode.CANCELLED, lambda: list(hanging))


def recovery(c, stub):
    assert stub.Describe(c.DescribeRequest(), timeout=60).disk_uuid == "known"
    reply = stub.Recover(c.RecoverRequest(disk_uuid="known", state_disk_key=b"\x01" * 32), timeout=60)
    assert reply.cluster_id == b"\x09" * 32
    details = fails(
        grpc.StatusCode.INVALID_ARGUMENT, lambda: stub.Recover(c.RecoverRequest(state_disk_key=b"x"), timeout=60)
    )
    assert details == "this key does not open the disk", details


def unknown(c, channel):
    for path in ("/latchkey.v1.Keys/Nothing", "/latchkey.v1.Nothing/GetDataKey"):
        call = channel.unary_unary(path, request_serializer=bytes, response_deserializer=bytes)
        fails(grpc.StatusCode.UNIMPLEMENTED, lambda: call(b"", timeout=60))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
    print("all methods answered as promised")
