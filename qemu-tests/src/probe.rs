//! The stand-in for the agent: loads the modules as the agent does, shows what was measured, does what a test adds.

use std::collections::BTreeMap;

use crate::bootimage::BootImage;
use crate::error::HarnessError;
use crate::rootfs;
use crate::vm::Vm;

/// The registers it shows: everything that firmware, boot stub and kernel measure into, and the node lock's.
const PCRS: std::ops::RangeInclusive<u8> = 0..=15;
/// What it prints before it turns the machine off.
pub const DONE: &str = "PROBE done";

/// A boot image of it; `addition` is shell.
pub fn image(addition: &str) -> Result<BootImage, HarnessError> {
    let script = format!(
        "#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
while read module; do
    case $module in '['*) ;; '?'*) insmod /lib/modules/${{module#?}} 2>/dev/null;;
    *) insmod /lib/modules/$module || echo PROBE refused $module;; esac
done < /lib/modules/order
for i in $(seq {} {}); do echo PROBE pcr $i $(cat /sys/class/tpm/tpm0/pcr-sha256/$i); done
{addition}
echo {DONE}
poweroff -f
",
        PCRS.start(),
        PCRS.end()
    );
    Ok(BootImage::new(script.into_bytes()).file("bin/busybox", 0o755, rootfs::busybox()?))
}

/// What it showed, as hexadecimal digits.
pub fn pcrs(vm: &Vm) -> Result<BTreeMap<u8, String>, HarnessError> {
    let read = |index| {
        let value = vm.console().value(&format!("PROBE pcr {index} ")).filter(|value| value.len() == 64);
        let missing = || HarnessError::Unusable(format!("{} shows no PCR {index}", vm.name()));
        Ok((index, value.ok_or_else(missing)?.to_lowercase()))
    };
    PCRS.map(read).collect()
}
