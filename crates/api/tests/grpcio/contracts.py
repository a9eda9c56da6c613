"""The contracts as Python classes, from a serialized FileDescriptorSet: no protoc, no generated files."""

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory


class Contracts:
    def __init__(self, path):
        files = descriptor_pb2.FileDescriptorSet()
        with open(path, "rb") as file:
            files.ParseFromString(file.read())
        self.pool = descriptor_pool.DescriptorPool()
        for file in files.file:
            self.pool.Add(file)

    def message(self, name):
        return message_factory.GetMessageClass(self.pool.FindMessageTypeByName(f"latchkey.v1.{name}"))

    def __getattr__(self, name):
        return self.message(name)

    def methods(self, service):
        """(name, request class, reply class, whether it streams) of each method."""
        for method in self.pool.FindServiceByName(f"latchkey.v1.{service}").methods:
            request = message_factory.GetMessageClass(method.input_type)
            reply = message_factory.GetMessageClass(method.output_type)
            yield method.name, request, reply, method.server_streaming


class Stub:
    """One callable attribute for each method of a service."""

    def __init__(self, channel, contracts, service):
        for name, request, reply, streams in contracts.methods(service):
            make = channel.unary_stream if streams else channel.unary_unary
            call = make(
                f"/latchkey.v1.{service}/{name}",
                request_serializer=request.SerializeToString,
                response_deserializer=reply.FromString,
            )
            setattr(self, name, call)
