"""Reads a reference manifest, the file that is named, and judges each image's provenance by in-toto's own package."""

import json
import sys

from google.protobuf import json_format
from in_toto_attestation.predicates.provenance.v1 import provenance_pb2
from in_toto_attestation.v1 import statement_pb2
from in_toto_attestation.v1.statement import Statement

with open(sys.argv[1], encoding="utf-8") as file:
    manifest = json.load(file)
for image in manifest["images"]:
    # Both refuse fields that the published definitions do not have.
    message = json_format.ParseDict(image["provenance"], statement_pb2.Statement())
    Statement.copy_from_pb(message).validate()
    predicate = json_format.MessageToDict(message.predicate)
    provenance = json_format.ParseDict(predicate, provenance_pb2.Provenance())
    build, run = provenance.build_definition, provenance.run_details
    assert message.predicate_type == "https://slsa.dev/provenance/v1"
    assert build.build_type and run.builder.id and len(build.external_parameters.fields)
    for dependency in build.resolved_dependencies:
        assert dependency.name and len(dependency.digest["sha256"]) == 64, dependency
    print(len(build.resolved_dependencies), "dependencies, built by", dict(run.builder.version))
