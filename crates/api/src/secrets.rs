//! What generated messages do with secrets: print a placeholder, wipe on drop, and hand them out without a copy.
//!
//! `latchkey-api-codegen` leaves out the derived `Debug` of these messages, so one that is forgotten here does not
//! compile. Copies that remain out of reach are those in the buffers of HTTP/2 and TLS while bytes are in transit.

use crate::v1;
use std::fmt;
use zeroize::{Zeroize, Zeroizing};

/// Stands for a secret in `Debug` output: whether there is one, never what or how long.
struct Redacted(bool);

impl fmt::Debug for Redacted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0 { "[secret]" } else { "[empty]" })
    }
}

/// For one message: `Debug` with its secrets redacted, `Drop` that wipes them, and `take_…` for the byte strings.
macro_rules! keeps_secrets {
    ($message:ident { $($taken:ident by $take:ident),* $(; wiped $wiped:ident)? $(; open $($open:ident),*)? }) => {
        impl fmt::Debug for v1::$message {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($message))
                    $(.field(stringify!($taken), &Redacted(!self.$taken.is_empty())))*
                    $(.field(stringify!($wiped), &Redacted(!self.$wiped.is_empty())))?
                    $($(.field(stringify!($open), &self.$open))*)?
                    .finish()
            }
        }

        impl Drop for v1::$message {
            fn drop(&mut self) {
                $(self.$taken.zeroize();)*
                $(self.$wiped.zeroize();)?
            }
        }

        impl v1::$message {
            $(
                #[doc = concat!("Moves `", stringify!($taken), "` out, leaving it empty.")]
                pub fn $take(&mut self) -> Zeroizing<Vec<u8>> {
                    Zeroizing::new(std::mem::take(&mut self.$taken))
                }
            )*
        }
    };
}

keeps_secrets!(BootstrapManifest { yaml by take_yaml; open name });
keeps_secrets!(EnrolRequest { invitation by take_invitation; open disk_uuid, node_name, kubernetes_version });
keeps_secrets!(Enrolled {
    ; wiped bootstrap_token; open cluster_uuid, name, namespace, manifests, token_expires
});
keeps_secrets!(AuthorizeRequest { init_secret by take_init_secret });
keeps_secrets!(InitRequest {
    state_disk_key by take_state_disk_key, measurement_secret by take_measurement_secret,
    invitation by take_invitation;
    open cluster_name, disk_uuid, measurement_salt, settings, control_plane_files
});
keeps_secrets!(AttachRequest { init_secret by take_init_secret; open cluster_id });
keeps_secrets!(RecoverRequest {
    state_disk_key by take_state_disk_key, measurement_secret by take_measurement_secret;
    open disk_uuid, components
});
keeps_secrets!(Succeeded { admin_config by take_admin_config; open cluster_id, addresses });
keeps_secrets!(JoinTicket {
    state_disk_key by take_state_disk_key, measurement_secret by take_measurement_secret;
    open measurement_salt, node_name, role, epoch, cluster
});
keeps_secrets!(ClusterJoin {
    payload by take_payload;
    wiped bootstrap_token;
    open api_server_endpoint, api_servers, ca_certificates, component_list, control_plane_files, kubelet_certificate, kubernetes_version, secrets_key,
        service_files, untainted
});
impl v1::ClusterJoin {
    /// Moves `bootstrap_token` out, leaving it empty.
    pub fn take_bootstrap_token(&mut self) -> Zeroizing<String> {
        Zeroizing::new(std::mem::take(&mut self.bootstrap_token))
    }
}
keeps_secrets!(SecretsKey { key by take_key; open version });
keeps_secrets!(ControlPlaneFile { data by take_data; open name });
keeps_secrets!(RejoinTicket {
    state_disk_key by take_state_disk_key, measurement_secret by take_measurement_secret;
    open epoch, components
});
keeps_secrets!(GetDataKeyResponse { data_key by take_data_key; open version });
