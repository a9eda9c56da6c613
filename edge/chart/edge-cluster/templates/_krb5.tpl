{{- /* krb5.conf: no name is looked up in DNS, and everything goes by TCP. (dict "root" $ "kdc" HOST "kadmin" HOST) */ -}}
{{- define "edge.krb5" -}}
{{- $realm := .root.Values.krb5.realm -}}
[libdefaults]
    default_realm = {{ $realm }}
    dns_lookup_realm = false
    dns_lookup_kdc = false
    dns_canonicalize_hostname = false
    rdns = false
    spake_preauth_groups = edwards25519
    udp_preference_limit = 1

[realms]
    {{ $realm }} = {
        kdc = {{ .kdc }}
        admin_server = {{ .kadmin }}
        disable_encrypted_timestamp = true
    }

[domain_realm]
    {{ default .root.Values.cluster.domain .root.Values.krb5.domain }} = {{ $realm }}
{{- end -}}
