#!/bin/sh
# A fake latchkey-components: records how it is called and its list, then does as told, then leaves what the real one leaves.
here=$(dirname "$0")
echo "components $*" >>"$here/calls"
call=$(grep -c . "$here/calls")
nth=$(grep -c "^components $1" "$here/calls")
cat >"$here/$call.stdin"
if [ -e "$here/components.$1.$nth.does" ]; then
    . "$here/components.$1.$nth.does"
fi
mkdir -p "$here/fetched"
for program in kubeadm kubectl; do
    # `NAME.sh` where the image has none of its own.
    fake=$here/$program
    [ -e "$fake" ] || fake=$fake.sh
    printf '#!/bin/sh\nexec "%s" "$@"\n' "$fake" >"$here/fetched/$program"
    chmod +x "$here/fetched/$program"
done
