// CoreDNS, which tests build from source. Not part of what ships.
module latchkey.invalid/coredns

go 1.24.0

require github.com/coredns/coredns v1.12.1
