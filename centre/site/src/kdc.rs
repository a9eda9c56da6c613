//! The configuration of MIT's KDC, of its administration, and of their clients.

use crate::{Layout, Parameters};

/// `krb5.conf`: where the KDC is. No name is looked up and none is changed by DNS; everything goes by TCP.
pub fn krb5_conf(parameters: &Parameters) -> String {
    let Parameters { realm, host, places, .. } = parameters;
    format!(
        "# Written by `latchkey centre up`.\n\
         [libdefaults]\n\
         \x20   default_realm = {realm}\n\
         \x20   dns_lookup_realm = false\n\
         \x20   dns_lookup_kdc = false\n\
         \x20   dns_canonicalize_hostname = false\n\
         \x20   rdns = false\n\
         \x20   udp_preference_limit = 1\n\
         \x20   permitted_enctypes = {ENCRYPTION}\n\
         [realms]\n\
         \x20   {realm} = {{\n\
         \x20       kdc = {}\n\
         \x20       admin_server = {}\n\
         \x20       kpasswd_server = {}\n\
         \x20   }}\n\
         [domain_realm]\n\
         \x20   {host} = {realm}\n",
        places.kdc, places.kadmin, places.kpasswd,
    )
}

/// AES with SHA-2 first (RFC 8009); the older kind (RFC 3962) for clients that know no other.
const ENCRYPTION: &str = "aes256-cts-hmac-sha384-192 aes128-cts-hmac-sha256-128 aes256-cts-hmac-sha1-96";

/// `kdc.conf`: where KDC and administration listen, and where their files are.
pub fn kdc_conf(parameters: &Parameters, layout: &Layout) -> String {
    let Parameters { realm, places, .. } = parameters;
    let at = layout.kdc();
    let at = at.display();
    format!(
        "# Written by `latchkey centre up`.\n\
         [kdcdefaults]\n\
         \x20   kdc_listen = {kdc}\n\
         \x20   kdc_tcp_listen = {kdc}\n\
         [realms]\n\
         \x20   {realm} = {{\n\
         \x20       database_name = {}\n\
         \x20       key_stash_file = {at}/stash\n\
         \x20       acl_file = {}\n\
         \x20       kadmind_listen = {}\n\
         \x20       kpasswd_listen = {}\n\
         \x20       max_life = 10h\n\
         \x20       max_renewable_life = 7d\n\
         \x20       supported_enctypes = aes256-cts-hmac-sha384-192:normal aes128-cts-hmac-sha256-128:normal aes256-cts-hmac-sha1-96:normal\n\
         \x20       default_principal_flags = +preauth\n\
         \x20   }}\n\
         [logging]\n\
         \x20   kdc = STDERR\n\
         \x20   admin_server = STDERR\n",
        layout.kdc_database().display(),
        layout.kadm5_acl().display(),
        places.kadmin,
        places.kpasswd,
        kdc = places.kdc,
    )
}
