// The definitions of Flux's sources, which lie in the module of its source-controller. Nothing of it is built.
module latchkey.invalid/source-controller

go 1.26.0

require github.com/fluxcd/source-controller v1.9.0
