#!/bin/sh
# A fake kubectl: records how it is called and what file it is given, then does as told. The one thing it gets is `cluster`.
here=$(dirname "$0")
echo "kubectl $*" >>"$here/calls"
call=$(grep -c . "$here/calls")
nth=$(grep -c "^kubectl $1" "$here/calls")
for argument; do
    case $argument in --filename=*) cp "${argument#--filename=}" "$here/$call.deleted" ;; esac
done
if [ -e "$here/kubectl.$1.$nth.does" ]; then
    . "$here/kubectl.$1.$nth.does"
fi
if [ -e "$here/kubectl.always.does" ]; then
    . "$here/kubectl.always.does"
fi
case $1 in
    get) cat "$here/cluster" ;;
esac
