#!/bin/sh
# FakeKubeadm: records how it is called (mod.rs), then does as told, then leaves what kubeadm leaves.
here=$(dirname "$0")
etc=$here/etc
echo "kubeadm $*" >>"$here/calls"
call=$(grep -c . "$here/calls")
nth=$(grep -c "^kubeadm $1" "$here/calls")

tr '\0' ' ' <"/proc/$$/cmdline" >"$here/$call.argv"
tr '\0' '\n' <"/proc/$$/environ" >"$here/$call.environ"
cat >"$here/$call.stdin"
config=
root=
for argument; do
    case $argument in
        --rootfs=*) root=${argument#--rootfs=} ;;
        --config=*)
            config=$root${argument#--config=}
            cp "$config" "$here/$call.config"
            stat -c %a "$config" "$(dirname "$config")" >"$here/$call.mode"
            ;;
    esac
done
if [ -e "$here/run/discovery.json" ]; then
    cp "$here/run/discovery.json" "$here/$call.discovery"
    stat -c %a "$here/run/discovery.json" >>"$here/$call.mode"
fi
[ ! -d "$etc" ] || find "$etc" -type f -printf '%m %P\n' | sort >"$here/$call.files"

if [ -n "$config" ] && [ -e "$here/real" ]; then
    # Stands in for the real one, which judges the configuration.
    "$(cat "$here/real")" config validate "--config=$config" >&2 || exit 1
fi
if [ -e "$here/kubeadm.$1.$nth.does" ]; then
    . "$here/kubeadm.$1.$nth.does"
fi
case $1 in
    version) if [ -e "$here/real" ]; then "$(cat "$here/real")" "$@"; else cat "$here/version" 2>/dev/null || echo v1.34.4; fi ;;
    config)
        if [ -e "$here/real" ]; then "$(cat "$here/real")" "$@"; else
            release=${4#--kubernetes-version=}
            for name in kube-apiserver kube-controller-manager kube-scheduler kube-proxy; do
                echo "registry.k8s.io/$name:$release"
            done
            printf 'registry.k8s.io/%s\n' coredns/coredns:v1.12.1 pause:3.10.1 "etcd:3.6.${release##*.}-0"
        fi
        ;;
    upgrade) ;;
    certs)
        # The fake of a certificate is the number of seconds that are left of it.
        pki=$root/etc/kubernetes/pki
        if [ -e "$here/real" ]; then
            # What changes its root must be root, if only in a name space.
            [ "$(id -u)" = 0 ] || set -- --user --map-root-user "$(cat "$here/real")" "$@"
            [ "$(id -u)" = 0 ] || exec unshare "$@"
            exec "$(cat "$here/real")" "$@"
        elif [ "$2" = check-expiration ]; then
            left=$(cat "$pki/apiserver.crt")
            last=$(cat "$here/last" 2>/dev/null || echo 31600000)
            authority=$(cat "$here/authority" 2>/dev/null || echo 300000000)
            echo '{"certificates": [
                {"name": "admin.conf", "expirationDate": null, "residualTime": 0, "externallyManaged": false, "missing": true},
                {"name": "away", "expirationDate": "2000-01-01T00:00:00Z", "residualTime": 1, "externallyManaged": true},
                {"name": "etcd-server", "expirationDate": "2099-01-01T00:00:00Z", "residualTime": '"$last"', "externallyManaged": false},
                {"name": "apiserver", "expirationDate": "until '"$left"'", "residualTime": '"$left"', "externallyManaged": false}
            ], "certificateAuthorities": [
                {"name": "ca", "expirationDate": "2036-01-01T00:00:00Z", "residualTime": '"$authority"', "externallyManaged": false}
            ]}'
        else
            for name in "$pki/apiserver.crt" "$pki/etcd/server.crt" "$root"/etc/kubernetes/*.conf; do
                echo 31536000 >"$name"
            done
            rm -f "$here/last"
        fi
        ;;
    init)
        mkdir -p "$etc/manifests" "$etc/pki"
        echo key >"$etc/pki/ca.key"
        echo "kubeconfig of init $nth" >"$etc/admin.conf"
        echo kubelet >"$etc/kubelet.conf"
        ;;
    join)
        mkdir -p "$etc/manifests"
        echo kubelet >"$etc/kubelet.conf"
        ;;
    reset) rm -rf "$etc/manifests" "$etc/pki" "$etc/admin.conf" "$etc/kubelet.conf" ;;
    *) exit 64 ;;
esac
