//! Objects of JSON in which a key that is there twice is refused: of two values the last would count, and whoever reads the file may see
//! the first.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Reads an object, refusing a key that is there twice.
pub(crate) fn each_once<'de, D, K, T>(deserializer: D) -> Result<BTreeMap<K, T>, D::Error>
where
    D: Deserializer<'de>,
    K: Deserialize<'de> + fmt::Display + Ord,
    T: Deserialize<'de>,
{
    struct EachOnce<K, T>(PhantomData<(K, T)>);

    impl<'de, K: Deserialize<'de> + fmt::Display + Ord, T: Deserialize<'de>> Visitor<'de> for EachOnce<K, T> {
        type Value = BTreeMap<K, T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut values = BTreeMap::new();
            while let Some(key) = map.next_key::<K>()? {
                if values.contains_key(&key) {
                    return Err(A::Error::custom(format_args!("{key} is there twice")));
                }
                values.insert(key, map.next_value()?);
            }
            Ok(values)
        }
    }

    deserializer.deserialize_map(EachOnce(PhantomData))
}
