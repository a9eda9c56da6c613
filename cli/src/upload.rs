//! How a cloud's own command brings an image there: printed, never run.

use std::path::Path;

use latchkey_image::{Built, Cloud, Form, Image};
use serde::Serialize;

use crate::output::{Style, Tone};

/// The commands for one cloud. Words in capitals are the operator's to replace.
#[derive(Serialize)]
pub(crate) struct Upload {
    cloud: Cloud,
    commands: Vec<String>,
}

impl Upload {
    pub(crate) fn of(cloud: Cloud, built: &Built, image: &Image) -> Self {
        let file = match cloud.form() {
            Form::Raw => &built.disk,
            wanted => built.forms.iter().find(|(form, _)| *form == wanted).map_or(&built.disk, |(_, path)| path),
        };
        let version = image.version.to_string();
        let name = format!("{}-{}", image.name, version.replace('.', "-"));
        Self { cloud, commands: commands(cloud, file, &name, &version) }
    }

    pub(crate) fn text(&self, style: Style) -> String {
        let head = style.paint(Tone::Strong, &format!("to {}", self.cloud.name()));
        format!("\n{head}\n  {}\n", self.commands.join("\n  "))
    }
}

fn commands(cloud: Cloud, file: &Path, name: &str, version: &str) -> Vec<String> {
    let path = quoted(&file.display().to_string());
    let base = file.file_name().unwrap_or_default().to_string_lossy();
    match cloud {
        Cloud::Aws => vec![
            format!("aws s3 cp {path} s3://BUCKET/{base}"),
            format!(
                "aws ec2 import-snapshot --disk-container 'Format=RAW,UserBucket={{S3Bucket=BUCKET,S3Key={base}}}'"
            ),
            format!(
                "aws ec2 register-image --name {name} --architecture x86_64 --root-device-name /dev/xvda \\\n    \
                 --virtualization-type hvm --ena-support --boot-mode uefi --tpm-support v2.0 --imds-support v2.0 \\\n    \
                 --block-device-mappings 'DeviceName=/dev/xvda,Ebs={{SnapshotId=SNAPSHOT}}'"
            ),
        ],
        Cloud::Gcp => vec![
            format!("gcloud storage cp {path} gs://BUCKET/{base}"),
            format!(
                "gcloud compute images create {name} --source-uri gs://BUCKET/{base} \\\n    \
                 --guest-os-features UEFI_COMPATIBLE,GVNIC,VIRTIO_SCSI_MULTIQUEUE,SEV_SNP_CAPABLE"
            ),
        ],
        Cloud::Azure => vec![
            format!(
                "az disk create --resource-group GROUP --name {name} --upload-type Upload \\\n    \
                 --upload-size-bytes $(stat -c %s {path}) --sku Standard_LRS --os-type Linux --hyper-v-generation V2 \\\n    \
                 --security-type TrustedLaunch"
            ),
            format!(
                "azcopy copy {path} \"$(az disk grant-access --resource-group GROUP --name {name} --access-level Write \\\n    \
                 --duration-in-seconds 86400 --query accessSas --output tsv)\" --blob-type PageBlob"
            ),
            format!("az disk revoke-access --resource-group GROUP --name {name}"),
            format!(
                "az sig image-version create --resource-group GROUP --gallery-name GALLERY \\\n    \
                 --gallery-image-definition DEFINITION --gallery-image-version {version} --os-snapshot DISK_ID"
            ),
        ],
        Cloud::Openstack => vec![format!(
            "openstack image create {name} --file {path} --disk-format qcow2 --container-format bare \\\n    \
             --property hw_firmware_type=uefi --property hw_machine_type=q35 \\\n    \
             --property hw_tpm_model=tpm-crb --property hw_tpm_version=2.0"
        )],
        Cloud::Hetzner => vec![format!("ssh root@RESCUE 'dd of=/dev/sda bs=1M conv=fsync' < {path}")],
        Cloud::Qemu => {
            vec![format!("virt-install --import --disk {path} --boot uefi --tpm model=tpm-crb,version=2.0 …")]
        }
    }
}

/// A path as a shell takes it for one word.
fn quoted(path: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    if path.chars().all(plain) { path.to_owned() } else { format!("'{}'", path.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_takes_every_path_for_one_word() {
        for path in ["build/edge_1.0.0.raw", "a b", "it's", "$(rm -rf x)", "a;b", "`c`", "ü"] {
            let echo = format!("printf %s {}", quoted(path));
            let said = std::process::Command::new("sh").args(["-c", &echo]).output().expect("a shell");
            assert_eq!(String::from_utf8_lossy(&said.stdout), path);
        }
    }
}
