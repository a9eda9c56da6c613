"""keylime's check of a quote: DIRECTORY ID WHAT, where DIRECTORY has ak.pem, nonce, signature, quote and pcrs."""

import pathlib
import sys

import figure
from keylime.tpm import tpm_util

directory, name, what = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
key, nonce, signature, quote, pcrs = (
    (directory / file).read_bytes() for file in ("ak.pem", "nonce", "signature", "quote", "pcrs")
)


def check():
    assert tpm_util.checkquote(key, nonce, signature, quote, pcrs, "sha256")


figure.measure(name, what, check)
