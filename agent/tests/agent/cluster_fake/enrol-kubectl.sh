#!/bin/sh
# A fake kubectl of a cluster that is being registered: records each call and what it reads, then does as told.
here=$(dirname "$0")
echo "$*" >>"$here/calls"
nth=$(grep -c "^$1" "$here/calls")
case $1 in
    apply) cat >"$here/applied.$nth" ;;
esac
if [ -e "$here/$1.$nth.does" ]; then
    . "$here/$1.$nth.does"
fi
case $1 in
    get) [ ! -e "$here/$2" ] || cat "$here/$2" ;;
    wait) [ "$(cat "$here/pod/edge-bootstrap")" = Succeeded ] ;;
esac
