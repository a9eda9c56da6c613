NAME={{name}}
NAMESPACE={{namespace}}
# How long each step may take.
POD_TIMEOUT=300s
LINK_TIMEOUT=900s

say() { printf '%s\n' "$*"; }
fail() {
    printf 'This cluster has not joined: %s\n' "$*" >&2
    exit 1
}

check_cluster() {
    command -v kubectl >/dev/null || fail "kubectl is missing; install it, or run this on a host of the cluster."
    nodes=$(kubectl get nodes --request-timeout=15s) ||
        fail "kubectl reaches no cluster; set KUBECONFIG to the file that leads to it."
    say "These hosts become the edge cluster $NAME:"
    say "$nodes"
    [ -r /dev/tty ] || fail "there is no terminal to ask for a password on; run this in one."
    printf 'Return goes on, Ctrl-C ends this. ' >/dev/tty
    read -r _ </dev/tty
}

secret_version() {
    kubectl -n "$NAMESPACE" get secret flux-secrets --ignore-not-found -o 'jsonpath={.metadata.resourceVersion}'
}

# Asks for an administrator's password in a pod, which makes the keys of this cluster.
make_keys() {
    kubectl get namespace "$NAMESPACE" >/dev/null 2>&1 || kubectl create namespace "$NAMESPACE"
    before=$(secret_version)
    kubectl delete --ignore-not-found --wait=true -n "$NAMESPACE" pod/edge-bootstrap
    kubectl apply -f edge-bootstrap.yaml
    trap 'kubectl delete --ignore-not-found --wait=false -f edge-bootstrap.yaml; rm -rf "$work"' EXIT
    kubectl wait -n "$NAMESPACE" --for=condition=Ready --timeout="$POD_TIMEOUT" pod/edge-bootstrap ||
        fail "the pod edge-bootstrap did not start within $POD_TIMEOUT; kubectl -n $NAMESPACE describe pod edge-bootstrap says why."
    kubectl attach -ti -n "$NAMESPACE" -c bootstrap pod/edge-bootstrap </dev/tty || say "The pod has ended."
    after=$(secret_version)
    # A secret of an earlier run shows nothing about this one.
    [ -n "$after" ] && [ "$after" != "$before" ] || fail "no keys were made; was the password right?"
}

install_flux() {
    [ -e flux-system.yaml ] || return 0
    if kubectl -n flux-system get deployment helm-controller >/dev/null 2>&1; then
        say "Flux is installed already; its version stays as it is."
        return 0
    fi
    kubectl apply --server-side -f flux-system.yaml
    kubectl -n flux-system wait --for=condition=Available --timeout="$POD_TIMEOUT" deployment --all ||
        fail "Flux did not start within $POD_TIMEOUT; kubectl -n flux-system get pods says more."
}

link() {
    kubectl apply -f self-link.yaml
    kubectl -n "$NAMESPACE" wait --for=condition=Ready --timeout="$LINK_TIMEOUT" kustomization/self-link ||
        fail "Flux does not follow the cluster's repository; kubectl -n $NAMESPACE describe kustomization self-link says why."
}

check_cluster
make_keys
install_flux
link
say "The edge cluster $NAME has joined."
