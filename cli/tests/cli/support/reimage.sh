#!/bin/sh
# The operator's program that restarts a machine, as a test tells it: reimage NODE ROLE VERSION. Fake: what a machine with the new
# image would say of itself is written here. `kubectl` beside it is the real one, with the cluster's kubeconfig.
here=$(dirname "$0")
node=$1 role=$2 release=v$3.0
kubectl() { "$here/kubectl" "$@" >/dev/null; }
echo "$*" >>"$here/restarted"
"$here/kubectl" get node "$node" \
    --output='jsonpath={.metadata.name} {.spec.unschedulable} {.metadata.annotations.latchkey\.dev/upgrade}{"\n"}' >>"$here/seen"
# What a machine that starts hears of its cluster, where there is such a document.
"$here/kubectl" get configmap latchkey-cluster --namespace=latchkey --output='jsonpath={.data.kubernetes\.json}' \
    >"$here/$node.heard" 2>/dev/null || true
case $(cat "$here/$node.does" 2>/dev/null) in
    fails) echo "no such machine: $node" >&2; exit 3 ;;
    never) exit 0 ;;
    forbids) : >"$here/forbidden" ;;
    old)
        kubectl patch node "$node" --subresource=status --type=merge --patch='{"status":{"nodeInfo":{"bootID":"second"}}}'
        exit 0
        ;;
    hangs) exec tail -f /dev/null ;;
esac
status="{\"status\":{\"nodeInfo\":{\"kubeletVersion\":\"$release\",\"bootID\":\"second\"}}}"
kubectl patch node "$node" --subresource=status --type=merge --patch="$status"
[ "$role" = control-plane ] || exit 0
for component in kube-apiserver kube-controller-manager kube-scheduler; do
    image="{\"spec\":{\"containers\":[{\"name\":\"$component\",\"image\":\"registry.k8s.io/$component:$release\"}]}}"
    kubectl patch pod "$component-$node" --namespace=kube-system --type=strategic --patch="$image"
done
kubectl annotate --overwrite node "$node" "latchkey.dev/kubernetes=$release"
