//! `KerberosKey` and `LocalSecret` as they are written, read.

use std::collections::BTreeMap;

use latchkey_factory_plus::{Realm, Upn, Uuid};
use serde::Deserialize;

/// What the original's resources, annotations and labels begin with.
pub(crate) const GROUP: &str = "factoryplus.app.amrc.co.uk";
/// Annotation: the key is to be made anew. Whatever it holds; it is taken away once that is done.
pub(crate) const FORCE_REKEY: &str = "krbkeys.factoryplus.app.amrc.co.uk/force-rekey";
/// Annotation: the resource is left as it is.
pub(crate) const SUSPEND: &str = "krbkeys.factoryplus.app.amrc.co.uk/suspend";
/// Annotation: the account, once it is known.
pub(crate) const ACCOUNT_UUID: &str = "krbkeys.factoryplus.app.amrc.co.uk/account-uuid";
/// Annotation: since when old keys are kept beside the new ones, in seconds since 1970.
pub(crate) const REKEYED_AT: &str = "krbkeys.factoryplus.app.amrc.co.uk/rekeyed-at";
/// Label: there are old keys to be dropped some day.
pub(crate) const HAS_OLD_KEYS: &str = "krbkeys.factoryplus.app.amrc.co.uk/has-old-keys";
/// Finalizer: the resource goes once its principals are disabled.
pub(crate) const FINALIZER: &str = "krbkeys.factoryplus.app.amrc.co.uk/keys";

/// The most principals of one resource.
const MOST_PRINCIPALS: usize = 64;

/// A key in a Secret.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) secret: String,
    pub(crate) key: String,
}

/// What kind of key is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A keytab of random keys.
    Random { keep_old: bool },
    /// A random password.
    Password,
    /// The password that is in the Secret.
    PresetPassword,
    /// None: nobody is let in.
    Disabled,
    /// A random text that no KDC knows (`LocalSecret`).
    Local,
}

/// The account that goes with a principal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) uuid: Option<Uuid>,
    pub(crate) class: Option<Uuid>,
    pub(crate) name: Option<String>,
    pub(crate) groups: Vec<Uuid>,
    pub(crate) sparkplug: Option<Sparkplug>,
}

/// Its place in Sparkplug.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Sparkplug {
    pub(crate) node: String,
    pub(crate) group: Option<String>,
}

/// What one resource wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) kind: Kind,
    /// The first one is the resource's `principal`; none of a `LocalSecret`.
    pub(crate) principals: Vec<Upn>,
    pub(crate) place: Option<Place>,
    pub(crate) account: Option<Account>,
}

/// Why a specification is not carried out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Refused(pub(crate) String);

/// The specification of a `KerberosKey`, as JSON. Fields that others may add later do not make it another resource.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct KeySpec {
    #[serde(rename = "type")]
    kind: String,
    principal: String,
    #[serde(default)]
    additional_principals: Vec<String>,
    #[serde(default)]
    keep_old_keys: bool,
    secret: Option<String>,
    seal_with: Option<String>,
    cluster: Option<serde_json::Value>,
    account: Option<AccountSpec>,
}

#[derive(Debug, Clone, Deserialize)]
struct AccountSpec {
    uuid: Option<Uuid>,
    class: Option<Uuid>,
    name: Option<String>,
    #[serde(default)]
    groups: Vec<Uuid>,
    sparkplug: Option<Sparkplug>,
}

/// The specification of a `LocalSecret`.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct LocalSpec {
    secret: String,
    key: String,
    format: String,
}

impl Wanted {
    /// Of a `KerberosKey` in a realm.
    pub(crate) fn of_key(spec: &KeySpec, realm: &Realm) -> Result<Self, Refused> {
        if spec.seal_with.is_some() || spec.cluster.is_some() {
            return Err(Refused(
                "sealWith and cluster are for an operator at the centre; at an edge keys go into Secrets".into(),
            ));
        }
        let kind = kind(spec)?;
        if kind == Kind::Disabled && spec.account.is_some() || kind != Kind::Disabled && spec.secret.is_none() {
            return Err(Refused(if kind == Kind::Disabled {
                "a principal that is disabled gets no account".into()
            } else {
                "there is no secret for the key to go to; write SECRET/KEY".into()
            }));
        }
        if !matches!(kind, Kind::Random { .. } | Kind::Disabled) && !spec.additional_principals.is_empty() {
            return Err(Refused("additionalPrincipals go with the types Random and Disabled".into()));
        }
        if spec.account.is_some() && !spec.additional_principals.is_empty() {
            return Err(Refused("there is no account for several principals".into()));
        }
        let names = std::iter::once(&spec.principal).chain(&spec.additional_principals);
        let principals = names.map(|name| principal(name, realm)).collect::<Result<Vec<_>, _>>()?;
        if principals.len() > MOST_PRINCIPALS {
            return Err(Refused(format!("there are more than {MOST_PRINCIPALS} principals")));
        }
        if (1..principals.len()).any(|place| principals[..place].contains(&principals[place])) {
            return Err(Refused("a principal is named twice".into()));
        }
        let place = spec.secret.as_deref().map(place).transpose()?;
        Ok(Self { kind, principals, place, account: spec.account.as_ref().map(account).transpose()? })
    }

    /// Of a `LocalSecret`.
    pub(crate) fn of_local(spec: &LocalSpec) -> Result<Self, Refused> {
        if spec.format != "Password" {
            return Err(Refused(format!("the format {} is none; Password is", quoted(&spec.format))));
        }
        let place = place(&format!("{}/{}", spec.secret, spec.key))?;
        Ok(Self { kind: Kind::Local, principals: vec![], place: Some(place), account: None })
    }
}

/// The beginning of what somebody else wrote, in quotes: it goes into a status and into the log.
fn quoted(text: &str) -> String {
    const MOST: usize = 40;
    format!("{:?}", text.chars().take(MOST).collect::<String>())
}

fn kind(spec: &KeySpec) -> Result<Kind, Refused> {
    Ok(match spec.kind.as_str() {
        "Random" => Kind::Random { keep_old: spec.keep_old_keys },
        "Password" => Kind::Password,
        "PresetPassword" => Kind::PresetPassword,
        "Disabled" => Kind::Disabled,
        "Trust" | "PresetTrust" => {
            return Err(Refused("keys between realms are the centre's to make; an edge has no right to them".into()));
        }
        other => {
            return Err(Refused(format!(
                "the type {} is none; Random, Password, PresetPassword and Disabled are",
                quoted(other)
            )));
        }
    })
}

fn principal(name: &str, realm: &Realm) -> Result<Upn, Refused> {
    let upn =
        Upn::in_realm(name, realm).map_err(|error| Refused(format!("the principal {}: {error}", quoted(name))))?;
    if upn.realm() == realm.as_str() { Ok(upn) } else { Err(Refused(format!("{upn} is not of the realm {realm}"))) }
}

fn place(text: &str) -> Result<Place, Refused> {
    let refused = || Refused(format!("{} is no place for a key; one is written SECRET/KEY", quoted(text)));
    let (secret, key) = text.split_once('/').ok_or_else(refused)?;
    let of_key = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let of_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
    let within = |text: &str| (1..=253).contains(&text.len()) && !text.starts_with('.');
    if within(secret) && within(key) && secret.bytes().all(of_name) && key.bytes().all(of_key) {
        Ok(Place { secret: secret.to_owned(), key: key.to_owned() })
    } else {
        Err(refused())
    }
}

fn account(spec: &AccountSpec) -> Result<Account, Refused> {
    if spec.uuid.is_none() && spec.class.is_none() {
        return Err(Refused("an account has a uuid, or a class to be made in".into()));
    }
    let AccountSpec { uuid, class, name, groups, sparkplug } = spec.clone();
    Ok(Account { uuid, class, name, groups, sparkplug })
}

/// One resource, as it stands at the API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Resource {
    /// Its UID: a resource that is made again under the same name is another one.
    pub(crate) uid: String,
    pub(crate) generation: i64,
    /// When it was made, as the API server writes times: they sort as they follow each other.
    pub(crate) created: String,
    pub(crate) deleting: bool,
    pub(crate) finalizers: Vec<String>,
    /// Those of ours.
    pub(crate) annotations: BTreeMap<String, String>,
    pub(crate) has_old_keys: bool,
    /// What its status says that it is of: of which generation, and what it says.
    pub(crate) status: Option<(i64, String)>,
    pub(crate) wanted: Result<Wanted, Refused>,
}

impl Resource {
    pub(crate) fn annotation(&self, name: &str) -> Option<&str> {
        self.annotations.get(name).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn wanted(spec: Value) -> Result<Wanted, String> {
        let spec: KeySpec = serde_json::from_value(spec).map_err(|error| error.to_string())?;
        Wanted::of_key(&spec, &"R".parse().unwrap()).map_err(|refused| refused.to_string())
    }

    #[test]
    fn what_the_chart_writes_is_understood() {
        let class = "97756c9a-38f6-4df8-8f27-d7e3a2a8a5f5";
        let sync = json!({ "type": "Password", "principal": "op1sync/Nord@R", "secret": "op1sync/password",
            "account": { "class": class, "name": "Edge sync", "groups": [class], "sparkplug": { "node": "Monitor" } } });
        let sync = wanted(sync).unwrap();
        assert_eq!((sync.kind, sync.principals[0].as_str()), (Kind::Password, "op1sync/Nord@R"));
        assert_eq!(sync.place, Some(Place { secret: "op1sync".into(), key: "password".into() }));
        assert_eq!(sync.account.unwrap().sparkplug.unwrap(), Sparkplug { node: "Monitor".into(), group: None });
        let many = json!({ "type": "Random", "principal": "nd1/Nord/a", "additionalPrincipals": ["nd1/Nord/b"],
            "keepOldKeys": true, "secret": "a.b/c.keytab" });
        let many = wanted(many).unwrap();
        assert_eq!((many.kind, many.principals.len()), (Kind::Random { keep_old: true }, 2));
        assert_eq!(wanted(json!({ "type": "Disabled", "principal": "nd1/Nord/a" })).unwrap().place, None);
    }

    #[test]
    fn what_is_not_done_is_said() {
        let with = |change: Value| {
            let mut spec = json!({ "type": "Password", "principal": "op1sync/Nord", "secret": "s/k" });
            spec.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
            wanted(spec).unwrap_err()
        };
        for (change, named) in [
            (json!({ "type": "Trust" }), "between realms"),
            (json!({ "type": "Other\n" }), "\"Other\\n\""),
            (json!({ "principal": "$(reboot)" }), "principal"),
            (json!({ "principal": "op1sync/Nord@OTHER" }), "not of the realm R"),
            (json!({ "secret": "s" }), "SECRET/KEY"),
            (json!({ "secret": "../k/x" }), "SECRET/KEY"),
            (json!({ "secret": "S/k" }), "SECRET/KEY"),
            (json!({ "secret": null }), "SECRET/KEY"),
            (json!({ "additionalPrincipals": ["x"] }), "additionalPrincipals"),
            (json!({ "sealWith": "c/k" }), "sealWith"),
            (json!({ "cluster": {} }), "cluster"),
            (json!({ "account": {} }), "uuid, or a class"),
            (json!({ "type": "Random", "additionalPrincipals": ["op1sync/Nord"] }), "twice"),
        ] {
            let said = with(change.clone());
            assert!(said.contains(named), "{change}: {said}");
        }
        // A status has no room for all that a specification may hold.
        for field in ["type", "principal", "secret"] {
            let said = with(json!({ field: "\u{fffff}".repeat(100_000) }));
            assert!(said.contains("\\u{fffff}") && said.len() < 600, "{field}: {} bytes", said.len());
        }
        assert!(Wanted::of_local(&LocalSpec { secret: "s".into(), key: "k".into(), format: "x".into() }).is_err());
    }
}
