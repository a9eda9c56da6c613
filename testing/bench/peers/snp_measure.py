"""sev-snp-measure's launch digest: FIRMWARE VCPUS ID WHAT."""

import sys

import figure
from sevsnpmeasure import guest, vcpu_types
from sevsnpmeasure.sev_mode import SevMode

firmware, vcpus, name, what = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]


def digest():
    signature = vcpu_types.CPU_SIGS["EPYC-Milan"]
    return guest.calc_launch_digest(SevMode.SEV_SNP, vcpus, signature, firmware, None, None, None, 1)


assert len(digest()) == 48
figure.measure(name, what, digest)
