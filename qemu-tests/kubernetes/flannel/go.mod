// flannel's daemon, which tests build from source. Not part of what ships.
module latchkey.invalid/flannel

go 1.24.0

require github.com/flannel-io/flannel v0.26.7
