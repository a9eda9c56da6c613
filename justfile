# Lists the recipes
default:
    @just --list

# The life of a cluster of two machines and an impostor, live
demo *arguments:
    ./dev demo {{ arguments }}

# All tests, the ones with real machines too
test *arguments:
    ./dev test {{ arguments }}

# All benchmarks
bench *arguments:
    ./dev bench {{ arguments }}

# The authenticated state disk made ready, beside cryptsetup's ways, in a real machine
bench-disk:
    cargo bench --package latchkey-qemu-tests --bench disk

# Bytes and crates of what ships
size:
    ./dev size

# Formatting, lints and all tests
presubmit:
    ./dev presubmit

# What this machine lacks, and how to get it
doctor:
    ./dev doctor

# The tests of one file with real machines, for example `just e2e measured_boot`
e2e name *arguments:
    cargo test --package latchkey-qemu-tests --test {{ name }} -- {{ arguments }}

# Real machines boot and are measured
e2e-boot:
    just e2e measured_boot

# The built image on real machines: predicted and reported, born and upgraded, attacked, its emergency paths tried
e2e-image:
    cargo test --package latchkey-qemu-tests --test predicted --test measured_image --test image_upgrade --test tampered_image --test emergency

# The same with another Debian suite's kernel, boot stub and firmware, fetched once: `just e2e-suite trixie`
e2e-suite suite:
    eval "$(qemu-tests/suites/fetch {{ suite }})" && cargo test --package latchkey-qemu-tests --test addons -- --include-ignored && cargo test --package latchkey-qemu-tests --test prediction --test predicted --test measured_image --test image_upgrade --test tampered_image --test emergency --test life

# A real Debian behind the agent: born, joined, rejoined, with an authenticated disk too; made with mmdebstrap, once
e2e-debian:
    cargo test --package latchkey-qemu-tests --test debian -- --ignored --test-threads=1

# Power-on to the ticket, beside the same kernel and firmware with a process 1 that does nothing
bench-boot:
    cargo bench --package latchkey-qemu-tests --bench boot

# The real kubeadm judges what the agent writes for it; built with Go, once
e2e-kubeadm:
    qemu-tests/kubernetes/build kubeadm
    cargo test --package latchkey-agent --test cluster_real_kubeadm -- --include-ignored

# Regenerates the checked-in protobuf types, without protoc
codegen:
    cargo run --package latchkey-api-codegen

# Every fuzz target for a while
fuzz seconds="60":
    ./dev fuzz {{ seconds }}
