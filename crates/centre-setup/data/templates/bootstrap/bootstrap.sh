NAME={{name}}
UUID={{uuid}}
NAMESPACE={{namespace}}
# Seconds that each wait may take.
LIMIT=${LATCHKEY_LIMIT:-600}
# Who made what: cleaning up deletes nothing else, and nothing else is written over.
OURS=app.kubernetes.io/managed-by=latchkey-bootstrap
OTHERS=app.kubernetes.io/managed-by!=latchkey-bootstrap
NO_KEYS=app.kubernetes.io/managed-by!=krbkeys.factoryplus.app.amrc.co.uk
MARK=latchkey.dev/edge-cluster

say() { printf '%s\n' "$*"; }
fail() {
    printf 'This cluster has not joined: %s\n' "$*" >&2
    exit 1
}

# kubectl, which waits for no answer for ever, and never reads what this shell reads.
k() { kubectl --request-timeout=30s "$@" </dev/null; }
ours() { k -n "$NAMESPACE" "$@"; }

# wait_for NAMESPACE CONDITION OBJECT...: whether it came true within the limit.
wait_for() {
    waits_in=$1 waits_for=$2
    shift 2
    waits_until=$(($(date +%s) + LIMIT))
    until k -n "$waits_in" wait --for="$waits_for" --timeout=5s "$@" >/dev/null 2>&1; do
        [ "$(date +%s)" -lt "$waits_until" ] || return 1
        ! given_up || return 1
        sleep 1
    done
}
# Whether waiting is of no use; a step that knows says so.
given_up() { return 1; }

check_cluster() {
    command -v kubectl >/dev/null || fail "kubectl is missing; install it, or run this on a host of the cluster."
    nodes=$(k get nodes) || fail "kubectl reaches no cluster; set KUBECONFIG to the file that leads to it."
    k auth can-i --quiet '*' '*' --all-namespaces ||
        fail "kubectl's user may not do everything in this cluster; set KUBECONFIG to an administrator's file."
    say "These hosts become the edge cluster $NAME:"
    say "$nodes"
}

# Nobody else's namespace, Secrets or Flux are taken over.
check_namespace() {
    there=$(k get namespace "$NAMESPACE" --ignore-not-found -o name) || fail "kubectl cannot read namespaces."
    [ -n "$there" ] || return 0
    of=$(k get namespace "$NAMESPACE" -o 'jsonpath={.metadata.annotations.latchkey\.dev/edge-cluster}') ||
        fail "kubectl cannot read the namespace $NAMESPACE."
    [ -z "$of" ] || [ "$of" = "$UUID" ] ||
        fail "the namespace $NAMESPACE is the one of edge cluster $of. If that one is gone: kubectl annotate namespace $NAMESPACE $MARK-"
    for secret in krb-keys-keytabs flux-secrets krb-keys-claim; do
        foreign=$(ours get secret --field-selector metadata.name="$secret" -l "$NO_KEYS" -o name) ||
            fail "kubectl cannot read Secrets in $NAMESPACE."
        [ -z "$foreign" ] ||
            fail "the namespace $NAMESPACE has a Secret $secret that somebody else made; move it away, or use another namespace."
    done
    foreign=$(ours get pod,secret,configmap,serviceaccount,role,rolebinding -l "$OTHERS" \
        --field-selector metadata.name=edge-bootstrap -o name) || fail "kubectl cannot read what is in $NAMESPACE."
    [ -z "$foreign" ] || fail "the namespace $NAMESPACE has what somebody else made under a name that is needed: $foreign"
}

# serves DEFINITION VERSION
serves() {
    versions=$(k get crd "$1" --ignore-not-found -o 'jsonpath={.spec.versions[?(@.served==true)].name}') ||
        fail "kubectl cannot read custom resource definitions."
    case " $versions " in *" $2 "*) ;; *) return 1 ;; esac
}
flux_kinds() {
    while read -r definition version; do
        "$@" "$definition" "$version" || return 1
    done <<'KINDS'
gitrepositories.source.toolkit.fluxcd.io v1
kustomizations.kustomize.toolkit.fluxcd.io v1
helmreleases.helm.toolkit.fluxcd.io v2
KINDS
}

# Before the link is redeemed, so that it still serves where this fails. A Flux of which a part is missing is installed anew.
check_flux() {
    flux_in=
    missing=
    for controller in source-controller kustomize-controller helm-controller; do
        found=$(k get deployment --all-namespaces --field-selector metadata.name="$controller" \
            -o 'jsonpath={.items[*].metadata.namespace}') || fail "kubectl cannot read Deployments."
        if [ -n "$found" ]; then flux_in=$found; else missing=$controller; fi
    done
    if [ -z "$missing" ]; then
        flux_kinds serves ||
            fail "the Flux in $flux_in does not serve $definition $version; update it to 2.3 or newer, and run this again."
        say "Flux is installed in $flux_in already; its version stays as it is."
    else
        [ -e flux-system.yaml ] || fail "there is no $missing of Flux here, and no Flux in this script; install it, or have the operator \
of the centre import it."
        flux_in=
    fi
}

clean_up() {
    # Not to be interrupted itself: it ends soon.
    trap '' HUP INT TERM
    cd /
    rm -rf "$work"
    ours delete pod,secret,configmap,serviceaccount,role,rolebinding -l "$OURS" --ignore-not-found --wait=false \
        >/dev/null 2>&1 ||
        printf 'What the bootstrap made could not be deleted: kubectl -n %s delete pod,secret edge-bootstrap\n' "$NAMESPACE" >&2
}
# What the pod would wait for without end.
pod_has_failed() {
    [ "$(ours get pod edge-bootstrap -o 'jsonpath={.status.phase}' 2>/dev/null)" = Failed ]
}

# A pod redeems the link and makes the keys of this cluster. Only its own end counts: Secrets may be of an earlier run.
make_keys() {
    [ -n "$there" ] || k create namespace "$NAMESPACE" >/dev/null || fail "the namespace $NAMESPACE cannot be made."
    k annotate --overwrite namespace "$NAMESPACE" "$MARK=$UUID" >/dev/null ||
        fail "the namespace $NAMESPACE cannot be marked as this cluster's."
    trap clean_up EXIT
    # One of an earlier run.
    ours delete pod edge-bootstrap --ignore-not-found --wait=false >/dev/null || fail "an earlier pod cannot be deleted."
    wait_for "$NAMESPACE" delete pod/edge-bootstrap ||
        fail "the pod edge-bootstrap of an earlier run does not end; kubectl -n $NAMESPACE describe pod edge-bootstrap says why."
    k apply --server-side --field-manager=latchkey-bootstrap -f edge-bootstrap.yaml >/dev/null ||
        fail "the manifests of the pod edge-bootstrap were refused; kubectl has just said why."
    say "The pod edge-bootstrap makes this cluster's keys."
    given_up() { pod_has_failed; }
    if ! wait_for "$NAMESPACE" 'jsonpath={.status.phase}=Succeeded' pod/edge-bootstrap; then
        if pod_has_failed; then
            # Its log only the kubelet has, whose certificate nobody may have granted yet; its last words the API server has.
            ours get pod edge-bootstrap -o 'jsonpath={.status.containerStatuses[0].state.terminated.message}{"\n"}' >&2 || :
            fail "no keys were made; the pod edge-bootstrap has said why."
        fi
        ours logs pod/edge-bootstrap --tail=20 >&2 || :
        reason=$(ours get pod edge-bootstrap -o \
            'jsonpath={.status.phase} {.status.containerStatuses[0].state.waiting.reason} {.status.conditions[?(@.status=="False")].message}') || reason=unknown
        fail "the pod edge-bootstrap did not end within $LIMIT s (its state: $reason). Run this again when that is mended."
    fi
    given_up() { return 1; }
    for secret in krb-keys-keytabs flux-secrets; do
        # It says how many bytes each key holds, and shows none of them.
        made=$(ours describe secret "$secret") || fail "kubectl cannot read Secrets in $NAMESPACE."
        case $made in
            *" bytes"*) ;;
            *) fail "the pod edge-bootstrap ended well, but left the Secret $secret empty; report it." ;;
        esac
    done
}

is_established() { wait_for default condition=Established "crd/$1"; }
install_flux() {
    [ -z "$flux_in" ] || return 0
    say "Flux is installed."
    k apply --server-side --field-manager=latchkey-bootstrap -f flux-system.yaml >/dev/null || fail "Flux was refused; kubectl has just said \
why. Where it speaks of storedVersions, this cluster has objects in a version that this Flux no longer knows: install the Flux before it, \
run \`flux migrate\`, and then this again."
    flux_kinds is_established || fail "the API server does not serve $definition within $LIMIT s; kubectl describe crd $definition says why."
    wait_for flux-system condition=Available deployment --all ||
        fail "Flux did not start within $LIMIT s; kubectl -n flux-system get pods says more."
}

# message KIND/NAME: what it says of itself.
message() {
    ours get "$1" --ignore-not-found -o 'jsonpath={.status.conditions[?(@.type=="Ready")].message}' || :
}
# Flux is asked to look now; what it said before this run does not count.
link() {
    k apply --server-side --force-conflicts --field-manager=latchkey-bootstrap -f self-link.yaml >/dev/null ||
        fail "the link to the repository was refused; kubectl has just said why."
    now=$(date +%s)-$$
    for object in gitrepository.source.toolkit.fluxcd.io/self-link kustomization.kustomize.toolkit.fluxcd.io/self-link; do
        ours annotate --overwrite "$object" "reconcile.fluxcd.io/requestedAt=$now" >/dev/null || fail "$object cannot be annotated."
        wait_for "$NAMESPACE" "jsonpath={.status.lastHandledReconcileAt}=$now" "$object" &&
            wait_for "$NAMESPACE" condition=Ready "$object" ||
            fail "Flux does not follow the cluster's repository within $LIMIT s. $object says: $(message "$object")"
    done
}

check_cluster
check_namespace
check_flux
make_keys
install_flux
link
say "The edge cluster $NAME has joined."
