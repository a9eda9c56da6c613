//! What a node is in its cluster, as far as it decides what the node carries.

use std::fmt;

use serde::Deserialize;

/// What a node is in its cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Runs the API server and its etcd.
    ControlPlane,
    /// Runs pods.
    Worker,
}

impl Role {
    /// As tables and configurations write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ControlPlane => "control-plane",
            Self::Worker => "worker",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One role or several, none twice.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Vec<Role>")]
pub struct Roles(Vec<Role>);

impl Roles {
    /// Whether they have one in common.
    pub fn meets(&self, other: &Self) -> bool {
        self.0.iter().any(|role| other.0.contains(role))
    }

    /// The roles, sorted.
    pub fn iter(&self) -> impl Iterator<Item = Role> {
        self.0.iter().copied()
    }
}

impl From<Role> for Roles {
    fn from(role: Role) -> Self {
        Self(vec![role])
    }
}

/// Every role.
impl Default for Roles {
    fn default() -> Self {
        Self(vec![Role::ControlPlane, Role::Worker])
    }
}

impl TryFrom<Vec<Role>> for Roles {
    type Error = &'static str;

    fn try_from(mut roles: Vec<Role>) -> Result<Self, &'static str> {
        roles.sort_unstable();
        if roles.is_empty() {
            return Err("roles: name control-plane, worker or both");
        }
        if roles.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err("roles: one is named twice");
        }
        Ok(Self(roles))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_named_once_and_not_left_empty() {
        let roles = |text: &str| serde_json::from_str::<Roles>(text);
        assert_eq!(roles(r#"["worker", "control-plane"]"#).unwrap(), Roles::default());
        assert!(!roles(r#"["worker"]"#).unwrap().meets(&roles(r#"["control-plane"]"#).unwrap()));
        for text in ["[]", r#"["worker", "worker"]"#, r#"["master"]"#, r#""worker""#] {
            assert!(roles(text).is_err(), "{text}");
        }
    }
}
