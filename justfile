# Everything is in ./dev; this only forwards.

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

# Bytes and crates of what ships
size:
    ./dev size

# Formatting, scripts, clippy, and what may be linked
lint:
    ./dev lint

# The same and all tests
presubmit:
    ./dev presubmit

# What this machine lacks, and how to get it
doctor:
    ./dev doctor

# Writes what documents have from the code
docs:
    ./dev docs

# Recipes with real machines; without a name, the list of them
e2e *arguments:
    ./dev e2e {{ arguments }}

# Regenerates the checked-in protobuf types, without protoc
codegen:
    ./dev codegen

# Every fuzz target for a while
fuzz seconds="60":
    ./dev fuzz {{ seconds }}

# A centre on this machine: just centre DIR
centre *arguments:
    ./dev centre {{ arguments }}
