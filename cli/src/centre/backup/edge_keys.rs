//! The keys that a restored KDC has for edges.
//!
//! An edge changes keys of its own. One that it changed after the backup has a higher number there than here, and the KDC does
//! not take it. Nothing on this machine knows which edges did, so all their accounts are listed with what to compare.

use std::collections::BTreeMap;

use latchkey_factory_plus::Upn;
use serde::Serialize;

/// An account of an edge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct EdgeKey {
    pub(super) principal: String,
    /// The number of its newest key in the backup; an edge shows its own with `klist -k`.
    pub(super) kvno: u32,
    /// When that key was made.
    pub(super) changed: String,
}

/// Reads the tables `keyinfo` and `princ_meta` of `kdb5_util tabdump`: columns by tabulators, the first line names them. What
/// has another form is left out.
pub(super) fn of_tables(keyinfo: &str, princ_meta: &str) -> Vec<EdgeKey> {
    let mut keys: BTreeMap<&str, u32> = BTreeMap::new();
    for row in rows(keyinfo) {
        let (Some(name), Some(Ok(kvno))) = (row.first(), row.get(2).map(|kvno| kvno.parse::<u32>())) else { continue };
        if is_edge(name) {
            let newest = keys.entry(name).or_default();
            *newest = kvno.max(*newest);
        }
    }
    let changed: BTreeMap<&str, &str> =
        rows(princ_meta).filter_map(|row| Some((*row.first()?, *row.get(3)?))).collect();
    let key = |(name, kvno): (&str, u32)| EdgeKey {
        principal: name.into(),
        kvno,
        changed: changed.get(name).copied().unwrap_or_default().into(),
    };
    keys.into_iter().map(key).collect()
}

fn rows(table: &str) -> impl Iterator<Item = Vec<&str>> {
    table.lines().skip(1).map(|line| line.split('\t').collect())
}

fn is_edge(principal: &str) -> bool {
    principal.parse::<Upn>().is_ok_and(|upn| upn.edge_cluster().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_key_of_each_edge_account_is_listed() {
        let keyinfo = "name\tkeyindex\tkvno\tenctype\tsalttype\tsalt\n\
                       K/M@R\t0\t1\taes256\tnormal\t-1\n\
                       admin@R\t0\t9\taes256\tnormal\t-1\n\
                       nd1/Nord/a@R\t0\t1\taes256\tnormal\t-1\n\
                       op1flux/Nord@R\t0\t2\taes256\tnormal\t-1\n\
                       op1flux/Nord@R\t1\t3\taes128\tnormal\t-1\n\
                       op1flux/Sued@R\t0\tx\n\
                       HTTP/localhost@R\t0\t2\taes256\tnormal\t-1\n";
        let meta = "name\tmodby\tmodtime\tlastpwd\tpolicy\tmkvno\thist_kvno\nop1flux/Nord@R\ta@R\tM\tL\t\t1\t0\n";
        let key = |principal: &str, kvno, changed: &str| EdgeKey {
            principal: principal.into(),
            kvno,
            changed: changed.into(),
        };
        assert_eq!(of_tables(keyinfo, meta), [key("nd1/Nord/a@R", 1, ""), key("op1flux/Nord@R", 3, "L")]);
    }
}
