#!/bin/sh
# Joins the Kubernetes cluster that kubectl reaches from here to the site, as an edge cluster. It can be run again.
set -eu
umask 077

join() {
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
    cd "$work"
{{files}}
    . ./bootstrap.sh
}

# Called in the last line: a script that broke off on its way here does nothing.
join
