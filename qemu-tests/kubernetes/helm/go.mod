// Helm, which tests build from source. Not part of what ships.
module latchkey.invalid/helm

go 1.26.0

require helm.sh/helm/v3 v3.22.0
