#!/bin/sh
# A fake service manager: records how it is called, then does as told.
here=$(dirname "$0")
echo "systemctl $*" >>"$here/calls"
nth=$(grep -c "^systemctl $1" "$here/calls")
if [ -e "$here/systemctl.$1.$nth.does" ]; then
    . "$here/systemctl.$1.$nth.does"
fi
