//! The configuration of MIT's KDC, of its administration, and of their clients.

use latchkey_kerberos::acl::Acl;

use crate::{Layout, Parameters, ParametersError, Program};

/// `krb5.conf`: where the KDC is. No name is looked up and none is changed by DNS; everything goes by TCP. The KDC reads it, too, and offers
/// SPAKE (RFC 9588) only where a group is named: edges take nothing less, since who listens to a timestamp can guess passwords.
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
         \x20   spake_preauth_groups = edwards25519\n\
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

/// `kdc.conf`: where KDC and administration listen, and where their files are. No ticket is renewed: a keytab or a password gets a
/// new one, and what is left of an account that is gone ends within hours.
pub fn kdc_conf(parameters: &Parameters, layout: &Layout) -> String {
    let Parameters { realm, places, .. } = parameters;
    format!(
        "# Written by `latchkey centre up`.\n\
         [kdcdefaults]\n\
         \x20   kdc_listen = {kdc}\n\
         \x20   kdc_tcp_listen = {kdc}\n\
         [realms]\n\
         \x20   {realm} = {{\n\
         \x20       database_name = {}\n\
         \x20       key_stash_file = {}\n\
         \x20       acl_file = {}\n\
         \x20       kadmind_listen = {}\n\
         \x20       kpasswd_listen = {}\n\
         \x20       max_life = 10h\n\
         \x20       max_renewable_life = 0s\n\
         \x20       supported_enctypes = aes256-cts-hmac-sha384-192:normal aes128-cts-hmac-sha256-128:normal aes256-cts-hmac-sha1-96:normal\n\
         \x20       default_principal_flags = +preauth\n\
         \x20   }}\n\
         [logging]\n\
         \x20   kdc = STDERR\n\
         \x20   admin_server = STDERR\n",
        layout.kdc_database().display(),
        layout.kdc_stash().display(),
        layout.kadm5_acl().display(),
        places.kadmin,
        places.kpasswd,
        kdc = places.kdc,
    )
}

/// The principal that administrates the KDC while a centre is set up; its keys are in a file of the centre's directory.
pub const ADMINISTRATOR: &str = "latchkey/admin";
/// The operator's principal.
pub const OPERATOR: &str = "admin";

/// `kadm5.acl`: the operator and the set-up administrate everything, the cluster manager the principals of edges, and each edge its
/// own.
pub fn kadm5_acl(parameters: &Parameters) -> Result<String, ParametersError> {
    let managers = [parameters.upn(Program::ClusterManager.account())?];
    let admins = [parameters.upn(ADMINISTRATOR)?, parameters.upn(OPERATOR)?];
    Ok(Acl::of_centre(&parameters.realm, &admins, &managers)?.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use latchkey_kerberos::acl::Right;

    #[test]
    fn no_cluster_has_rights_about_others_whatever_it_is_called() {
        let parameters = Parameters::on_loopback("R.EXAMPLE", "A", true, 8440).unwrap();
        let acl: Acl = kadm5_acl(&parameters).unwrap().parse().unwrap();
        let upn = |name: &str| parameters.upn(name).unwrap();
        let may = |who: &str, whom: &str| acl.allows(&upn(who), Right::ChangePassword, Some(&upn(whom)));
        assert!(may("op1krbkeys/Nord", "op1sync/Nord") && may("op1krbkeys/Nord", "nd1/Nord/agent"));
        assert!(!may("op1krbkeys/Nord", "op1sync/Sued") && !may("op1krbkeys/Nord", "nd1/Sued/agent"));
        // §11.17: the original's rule let a cluster of this name change every administrator's password.
        assert!(!may("op1krbkeys/admin", "latchkey/admin") && !may("op1krbkeys/admin", "admin"));
        assert!(!may("op1krbkeys/R.EXAMPLE", "krbtgt/R.EXAMPLE"));
        assert!(
            may("sv1clustermanager", "op1flux/Nord")
                && !may("sv1clustermanager", "admin")
                && !may("sv1clustermanager", "sv1auth")
        );
    }
}
