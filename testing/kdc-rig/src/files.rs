//! The configuration.

use crate::REALM;
use std::path::{Path, PathBuf};

/// Where it lies.
#[derive(Debug)]
pub(crate) struct Files {
    pub(crate) krb5: PathBuf,
    pub(crate) kdc: PathBuf,
    pub(crate) acl: PathBuf,
}

impl Files {
    /// Writes it for these ports of loopback: KDC, kadmind, kpasswd.
    pub(crate) fn write(directory: &Path, [kdc, kadmind, kpasswd]: [u16; 3]) -> Self {
        let at = directory.display();
        // Names are taken as they are: no DNS.
        let krb5 = format!(
            "[libdefaults]
    default_realm = {REALM}
    dns_lookup_realm = false
    dns_lookup_kdc = false
    dns_canonicalize_hostname = false
    rdns = false
    qualify_shortname = \"\"
    udp_preference_limit = 1
[realms]
    {REALM} = {{
        kdc = 127.0.0.1:{kdc}
        admin_server = 127.0.0.1:{kadmind}
        kpasswd_server = 127.0.0.1:{kpasswd}
    }}
[domain_realm]
    localhost = {REALM}
[logging]
    kdc = FILE:{at}/kdc.log
    admin_server = FILE:{at}/kadmind.log
"
        );
        let server = format!(
            "[kdcdefaults]
    kdc_listen = \"\"
    kdc_tcp_listen = 127.0.0.1:{kdc}
[realms]
    {REALM} = {{
        database_name = {at}/principal
        key_stash_file = {at}/stash
        acl_file = {at}/kadm5.acl
        kadmind_listen = 127.0.0.1:{kadmind}
        kpasswd_listen = 127.0.0.1:{kpasswd}
        max_life = 1h
        supported_enctypes = aes256-cts-hmac-sha1-96:normal aes128-cts-hmac-sha1-96:normal
    }}
"
        );
        let files = Self {
            krb5: directory.join("krb5.conf"),
            kdc: directory.join("kdc.conf"),
            acl: directory.join("kadm5.acl"),
        };
        std::fs::write(&files.krb5, krb5).expect("a file");
        std::fs::write(&files.kdc, server).expect("a file");
        files
    }
}
