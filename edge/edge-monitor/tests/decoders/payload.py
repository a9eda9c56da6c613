"""Decodes a birth and a death of Sparkplug B, given in hexadecimal, and encodes a command for a rebirth: PyPI's pysparkplug,
unmodified."""

import json
import sys

from pysparkplug import DataType, Metric, NBirth, NCmd, NDeath


def told(metric):
    return {
        "name": metric.name,
        "type": metric.datatype.name,
        "value": metric.value,
        "alias": metric.alias,
        "timestamp": metric.timestamp,
        "is_null": metric.is_null,
    }


birth = NBirth.decode(bytes.fromhex(sys.argv[1]))
death = NDeath.decode(bytes.fromhex(sys.argv[2]))
rebirth = Metric(timestamp=1000, name="Node Control/Rebirth", datatype=DataType.BOOLEAN, value=True)
print(
    json.dumps(
        {
            "birth": {"timestamp": birth.timestamp, "seq": birth.seq, "metrics": [told(m) for m in birth.metrics]},
            # Version 0.6.1 loses the time of a death that has one.
            "death": told(death.bd_seq_metric),
            # As its sender writes them: without datatypes, since a birth has said them.
            "command": NCmd(timestamp=1000, metrics=(rebirth,)).encode().hex(),
            "typed": NCmd(timestamp=1000, metrics=(rebirth,)).encode(include_dtypes=True).hex(),
        }
    )
)
